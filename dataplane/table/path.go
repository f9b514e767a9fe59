package table

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/ratelimit"
)

const (
	// maxWays bounds the ways in which the models and API keys of one tenant with limits of their own
	// combine, each of which is a path.
	maxWays = 4096
	// maxPaths bounds the paths of a table.
	maxPaths = 1 << 17
)

// addQuotas judges the quotas and makes the paths.
func (t *Table) addQuotas(pb *routerpb.Table) error {
	ids := make(map[string]bool, len(pb.Quotas))
	shared := make(map[string][]step) // by organisation: those of no particular tenant
	own := make(map[fleet.TenantID][]step)
	for i, p := range pb.Quotas {
		at := fmt.Sprintf("quotas[%d]", i)
		s, err := limit(at, p)
		if bad := (*Invalid)(nil); errors.As(err, &bad) && bad.Code == CodeLarge && len(pb.Organisations) == 0 {
			continue // an older control plane takes any number, and no fleet comes near this one
		}
		if err != nil {
			return err
		}
		if ids[s.limit.ID] {
			return invalid(CodeDuplicate, at+".id", "%q is there twice", s.limit.ID)
		}
		ids[s.limit.ID] = true
		if err := t.belongs(at, pb, p); err != nil {
			return err
		}
		if of := s.limit.Tenant; of != "" {
			own[of] = append(own[of], s)
		} else {
			shared[p.Organisation] = append(shared[p.Organisation], s)
		}
	}
	return t.combine(pb, shared, own)
}

// belongs says what is wrong with whose a quota is.
func (t *Table) belongs(at string, pb *routerpb.Table, p *routerpb.Quota) error {
	of := t.tenants[fleet.TenantID(p.Tenant)]
	older := len(pb.Organisations) == 0
	switch {
	case of == nil && (p.Tenant != "" || older):
		return invalid(CodeUnknown, at+".tenant", "%q is not a tenant of the table", p.Tenant)
	case t.orgs[p.Organisation] == nil && (p.Organisation != "" || !older):
		return invalid(CodeUnknown, at+".organisation", "%q is not an organisation of the table", p.Organisation)
	case of != nil && !older && of.Organisation != p.Organisation:
		return invalid(CodeUnknown, at+".tenant", "%q is of organisation %q, not %q", p.Tenant, of.Organisation, p.Organisation)
	case !finite(p.Share) || p.Share < 0 || p.Share > 1:
		return invalid(CodeValue, at+".share", "is %v, want 0 to 1", p.Share)
	}
	for j, sum := range p.KeySha256 {
		if len(sum) != sha256.Size || t.keys[[sha256.Size]byte(sum)].tenant != of {
			return invalid(CodeUnknown, fmt.Sprintf("%s.key_sha256[%d]", at, j), "is not of a key of %q", p.Tenant)
		}
	}
	if older {
		return t.makeUp(at, pb, of, p.Share)
	}
	return nil
}

// combine makes the paths of all tenants.
func (t *Table) combine(pb *routerpb.Table, shared map[string][]step, own map[fleet.TenantID][]step) error {
	m := maker{t: t, made: make(map[string]*Path), older: len(pb.Organisations) == 0}
	common := make(map[string]*ways, len(shared)) // of tenants without limits of their own
	for i, p := range pb.Tenants {
		of := t.tenants[fleet.TenantID(p.Id)]
		steps := slices.Concat(shared[of.Organisation], own[of.ID])
		if len(steps) == 0 {
			continue
		}
		if w := common[of.Organisation]; w != nil && len(own[of.ID]) == 0 {
			t.ways[of.ID] = w
			continue
		}
		if err := m.tenant(fmt.Sprintf("tenants[%d]", i), of, steps); err != nil {
			return err
		}
		if len(own[of.ID]) == 0 {
			common[of.Organisation] = t.ways[of.ID]
		}
	}
	return nil
}

// maker makes the paths of a table, each once.
type maker struct {
	t    *Table
	made map[string]*Path // by ID
	// older: the table is of a control plane that knows no organisations.
	older bool
}

// tenant makes the ways of a tenant, and of its keys that some of the limits single out.
func (m *maker) tenant(at string, of *Tenant, steps []step) error {
	slices.SortFunc(steps, func(a, b step) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.limit.ID, b.limit.ID))
	})
	var models []fleet.ModelID
	named := make(map[[sha256.Size]byte][]int) // steps that name a key
	for i, s := range steps {
		if s.limit.Model != "" && !slices.Contains(models, s.limit.Model) {
			models = append(models, s.limit.Model)
		}
		for _, sum := range s.keys {
			if k := [sha256.Size]byte(sum); !slices.Contains(named[k], i) {
				named[k] = append(named[k], i)
			}
		}
	}
	kinds := make(map[string]KeyID) // of keys, by the steps that name them
	var groups [][]int
	for _, k := range slices.SortedFunc(maps.Keys(named), func(a, b [sha256.Size]byte) int { return bytes.Compare(a[:], b[:]) }) {
		kind := fmt.Sprint(named[k])
		if kinds[kind] == 0 {
			groups = append(groups, named[k])
			kinds[kind] = KeyID(len(m.t.keyed) + len(groups))
		}
		known := m.t.keys[k]
		known.id = kinds[kind]
		m.t.keys[k] = known
	}
	if n := (len(models) + 1) * (len(groups) + 1); n > maxWays {
		return invalid(CodePath, at, "has limits for %d models and %d API keys, which combine in more than %d ways", len(models), len(groups), maxWays)
	}
	w, err := m.ways(at, of, steps, models, nil)
	if err != nil {
		return err
	}
	m.t.ways[of.ID] = w
	for _, g := range groups {
		w, err := m.ways(at, of, steps, models, g)
		if err != nil {
			return err
		}
		m.t.keyed = append(m.t.keyed, w)
	}
	return nil
}

// ways makes the paths of requests with a key that is named by some of the steps.
func (m *maker) ways(at string, of *Tenant, steps []step, models []fleet.ModelID, named []int) (*ways, error) {
	w := &ways{tenant: of.ID, byModel: make(map[fleet.ModelID]*Path, len(models))}
	var err error
	if w.other, err = m.path(at, of, steps, "", named); err != nil {
		return nil, err
	}
	for _, model := range models {
		if w.byModel[model], err = m.path(at, of, steps, model, named); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// path is the steps that hold for a model and a key, one that was made before if there is one. Nil: there
// are none.
func (m *maker) path(at string, of *Tenant, steps []step, model fleet.ModelID, named []int) (*Path, error) {
	var hold []*step
	id := []byte(of.Organisation)
	for i := range steps {
		s := &steps[i]
		if s.limit.Model != "" && s.limit.Model != model || len(s.keys) > 0 && !slices.Contains(named, i) {
			continue
		}
		if len(hold) == ratelimit.MaxPath {
			if m.older {
				break // it takes any number, and routers count this many
			}
			return nil, invalid(CodePath, at, "has requests that pass more than %d limits", ratelimit.MaxPath)
		}
		mark := byte('\n')
		if s.shadow {
			mark = '\v'
		}
		id = append(append(append(append(id, mark), s.limit.Kind...), ' '), s.limit.ID...)
		hold = append(hold, s)
	}
	if len(hold) == 0 {
		return nil, nil
	}
	if p := m.made[string(id)]; p != nil {
		return p, nil
	}
	if len(m.t.paths) == maxPaths {
		return nil, invalid(CodePath, at, "is one too many: limits of all tenants combine in more than %d ways", maxPaths)
	}
	p := &Path{ID: string(id), Org: m.t.orgs[of.Organisation]}
	for _, s := range hold {
		if s.shadow {
			p.Shadow = append(p.Shadow, s.limit)
		} else {
			p.Limits = append(p.Limits, s.limit)
		}
	}
	m.made[p.ID] = p
	m.t.paths = append(m.t.paths, p)
	return p, nil
}
