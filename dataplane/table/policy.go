package table

import (
	"crypto/sha256"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

func (t *Table) addTenants(pb *routerpb.Table) error {
	for i, p := range pb.Tenants {
		at := fmt.Sprintf("tenants[%d]", i)
		id := fleet.TenantID(p.GetId())
		if id == "" {
			return invalid(CodeValue, at+".id", "is empty")
		}
		if t.tenants[id] != nil {
			return invalid(CodeDuplicate, at+".id", "%q is there twice", id)
		}
		if slices.Contains(p.Residency, "") {
			return invalid(CodeValue, at+".residency", "holds an empty name")
		}
		x := &Tenant{ID: id, Tier: p.Tier, Priority: p.Priority, Residency: p.Residency}
		for j, k := range p.KeySha256 {
			if len(k) != sha256.Size {
				return invalid(CodeValue, fmt.Sprintf("%s.key_sha256[%d]", at, j), "is %d bytes, want %d", len(k), sha256.Size)
			}
			sum := [sha256.Size]byte(k)
			if t.keys[sum] != nil {
				return invalid(CodeDuplicate, fmt.Sprintf("%s.key_sha256[%d]", at, j), "is another key of %q too", t.keys[sum].ID)
			}
			t.keys[sum] = x
		}
		t.tenants[id] = x
	}
	return nil
}

func (t *Table) addQuotas(pb *routerpb.Table) error {
	ids := make(map[string]bool, len(pb.Quotas))
	for i, p := range pb.Quotas {
		at := fmt.Sprintf("quotas[%d]", i)
		q := &Quota{
			ID: p.GetId(), Tenant: fleet.TenantID(p.GetTenant()), Kind: p.GetKind(), Limit: p.GetLimit(),
			PeriodMs: p.GetPeriodMs(), Burst: p.GetBurst(), Degraded: p.GetDegraded(),
			Model: fleet.ModelID(p.GetModel()), Share: p.GetShare(),
		}
		switch {
		case q.ID == "":
			return invalid(CodeValue, at+".id", "is empty")
		case ids[q.ID]:
			return invalid(CodeDuplicate, at+".id", "%q is there twice", q.ID)
		case t.tenants[q.Tenant] == nil:
			return invalid(CodeUnknown, at+".tenant", "%q is not a tenant of the table", q.Tenant)
		case !slices.Contains([]string{"requests", "input-tokens", "output-tokens", "total-tokens"}, q.Kind):
			return invalid(CodeValue, at+".kind", "is %q", q.Kind)
		case q.Limit <= 0 || q.PeriodMs <= 0 || q.Burst <= 0:
			return invalid(CodeValue, at, "limit, period_ms and burst are %d, %d, %d; all must be > 0", q.Limit, q.PeriodMs, q.Burst)
		case !finite(q.Share) || q.Share < 0 || q.Share > 1:
			return invalid(CodeValue, at+".share", "is %v, want 0 to 1", q.Share)
		case !slices.Contains([]string{"", "share", "open", "closed"}, q.Degraded):
			return invalid(CodeValue, at+".degraded", "is %q, want share, open or closed", q.Degraded)
		}
		if q.Degraded == "" {
			q.Degraded = "share"
		}
		ids[q.ID] = true
		of := t.quotas[q.Tenant]
		if of == nil {
			of = &tenantQuotas{byModel: make(map[fleet.ModelID][]*Quota)}
			t.quotas[q.Tenant] = of
		}
		if q.Model == "" {
			of.all = append(of.all, q)
		} else {
			of.byModel[q.Model] = append(of.byModel[q.Model], q)
		}
	}
	for _, of := range t.quotas {
		for m, own := range of.byModel {
			of.byModel[m] = slices.Concat(of.all, own)
		}
	}
	return nil
}

func (t *Table) addClasses(pb *routerpb.Table) error {
	for i, p := range pb.Classes {
		at := fmt.Sprintf("classes[%d]", i)
		c, err := class(at, p)
		if err != nil {
			return err
		}
		models := p.Models
		if len(models) == 0 {
			models = []string{""}
		}
		for _, m := range models {
			key := classKey{c.ID, fleet.ModelID(m)}
			if t.classes[key] != nil {
				return invalid(CodeDuplicate, at, "class %q is given twice for model %q, by %q and %q", c.ID, m, t.classes[key].Policy, c.Policy)
			}
			t.classes[key] = c
		}
	}
	return nil
}

func class(at string, p *routerpb.Class) (*Class, error) {
	c := *builtIn
	c.ID, c.Policy, c.Spill = fleet.ClassID(p.GetId()), p.GetPolicy(), p.GetSpill()
	if c.ID == "" {
		return nil, invalid(CodeValue, at+".id", "is empty")
	}
	if v := p.GetTtftObjectiveMs(); !finite(v) || v < 0 || v > maxMs {
		return nil, invalid(CodeValue, at+".ttft_objective_ms", "is %v, want 0 to %d", v, int64(maxMs))
	} else if v > 0 {
		c.TTFTObjective = milliseconds(v)
	}
	switch p.GetPickMode() {
	case "":
	case "predicted-ttft", "round-robin", "random", "least-outstanding":
		c.PickMode = p.GetPickMode()
	default:
		return nil, invalid(CodeValue, at+".pick_mode", "is %q", p.GetPickMode())
	}
	e := p.GetEjection()
	for _, d := range []struct {
		field string
		ms    int64
		into  *time.Duration
	}{
		{".first_byte_floor_ms", p.GetFirstByteFloorMs(), &c.FirstByteFloor},
		{".request_timeout_ms", p.GetRequestTimeoutMs(), &c.RequestTimeout},
		{".ejection.window_ms", e.GetWindowMs(), &c.Ejection.Window},
		{".ejection.reprobe_ms", e.GetReprobeMs(), &c.Ejection.Reprobe},
		{".ejection.reprobe_max_ms", e.GetReprobeMaxMs(), &c.Ejection.ReprobeMax},
	} {
		if d.ms < 0 || d.ms > maxMs {
			return nil, invalid(CodeValue, at+d.field, "is %d, want 0 to %d", d.ms, int64(maxMs))
		}
		if d.ms > 0 {
			*d.into = time.Duration(d.ms) * time.Millisecond
		}
	}
	if v := e.GetFailureRatio(); !finite(v) || v < 0 || v > 1 {
		return nil, invalid(CodeValue, at+".ejection.failure_ratio", "is %v, want 0 to 1", v)
	} else if v > 0 {
		c.Ejection.FailureRatio = v
	}
	if n := e.GetConnectFailures(); n > 0 {
		c.Ejection.ConnectFailures = int(min(n, math.MaxInt32))
	}
	if n := e.GetMinRequests(); n > 0 {
		c.Ejection.MinRequests = int(min(n, math.MaxInt32))
	}
	return &c, nil
}

func (t *Table) addWeights(pb *routerpb.Table) error {
	for i, p := range pb.Weights {
		at := fmt.Sprintf("weights[%d]", i)
		key := weightKey{fleet.ModelID(p.GetModel()), fleet.ClassID(p.GetClass()), fleet.RegionID(p.GetSource())}
		if n, ok := t.models[p.GetModel()]; !ok || n.model.ID != key.model {
			return invalid(CodeUnknown, at+".model", "%q is not a base model of the table", key.model)
		}
		if key.class == "" {
			return invalid(CodeValue, at+".class", "is empty")
		}
		if t.Regions[key.source] == nil {
			return invalid(CodeUnknown, at+".source", "%q is not a region of the table", key.source)
		}
		if _, ok := t.weights[key]; ok {
			return invalid(CodeDuplicate, at, "model %q, class %q, source %q is there twice", key.model, key.class, key.source)
		}
		list, err := t.shares(at, key.model, p.Clusters)
		if err != nil {
			return err
		}
		t.weights[key] = list
	}
	return nil
}

func (t *Table) shares(at string, model fleet.ModelID, in []*routerpb.ClusterWeight) ([]Weight, error) {
	list := make([]Weight, 0, len(in))
	seen := make(map[string]bool, len(in))
	sum := 0.0
	for j, w := range in {
		at := fmt.Sprintf("%s.clusters[%d]", at, j)
		c := t.Clusters[fleet.ClusterID(w.GetCluster())]
		switch {
		case c == nil:
			return nil, invalid(CodeUnknown, at+".cluster", "%q is not a cluster of the table", w.GetCluster())
		case seen[w.Cluster]:
			return nil, invalid(CodeDuplicate, at+".cluster", "%q is there twice", w.Cluster)
		case !c.Serves(model):
			return nil, invalid(CodeServes, at+".cluster", "%q does not serve %q", w.Cluster, model)
		case !finite(w.Weight) || w.Weight < 0:
			return nil, invalid(CodeValue, at+".weight", "is %v, want a number >= 0", w.Weight)
		}
		seen[w.Cluster] = true
		sum += w.Weight
		list = append(list, Weight{Cluster: c, Share: w.Weight, Reason: w.Reason})
	}
	if len(list) > 0 && math.Abs(sum-1) > sumTolerance {
		return nil, invalid(CodeWeightSum, at+".clusters", "shares sum to %v, want 1", sum)
	}
	return list, nil
}

// checkURL wants an absolute URL of one of the schemes with a host and nothing that doesn't
// belong (user, query, fragment), and returns it without a trailing slash.
func checkURL(at, s string, schemes ...string) (string, error) {
	u, err := url.Parse(s)
	if err != nil {
		return "", invalid(CodeValue, at, "does not parse as a URL") // the text could hold a password
	}
	if !slices.Contains(schemes, u.Scheme) || u.Hostname() == "" {
		return "", invalid(CodeValue, at, "is not an absolute %s URL", strings.Join(schemes, " or "))
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", invalid(CodeValue, at, "holds a user, query or fragment")
	}
	return strings.TrimRight(s, "/"), nil
}
