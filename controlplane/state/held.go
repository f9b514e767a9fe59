package state

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// maxTold bounds the names that a rollout tells of what it changes.
const maxTold = 32

// Config is the resources that tables are made of, as of one revision. It never changes.
type Config struct {
	shelves map[policy.Kind]*shelf // replaced, never written to
}

// tabled are the kinds that tables are made of.
func tabled(kind policy.Kind) bool { return slices.Contains(firstKinds, kind) }

// List gives the resources of a kind that tables are made of, sorted by name; of other kinds nothing.
func (c Config) List(kind policy.Kind) []*policy.Resource {
	if s := c.shelves[kind]; s != nil && tabled(kind) {
		return s.items
	}
	return nil
}

// Revision is the index of the last change of any of them, deletions included; 0: none.
func (c Config) Revision() uint64 {
	var last uint64
	for _, kind := range firstKinds {
		if s := c.shelves[kind]; s != nil {
			last = max(last, s.revision)
		}
	}
	return last
}

// differing names what two configurations do not have alike, as Kind/name, sorted, the first maxTold.
func (c Config) differing(o Config) []string {
	var out []string
	for _, kind := range firstKinds {
		docs := map[string][]byte{}
		for _, pair := range [][2]Config{{o, c}, {c, o}} {
			from, to := pair[0].shelf(kind), pair[1].shelf(kind)
			for i, r := range from.items {
				docs[r.Metadata.Name] = from.docs[i]
			}
			for i, r := range to.items {
				if was, found := docs[r.Metadata.Name]; !found || !bytes.Equal(was, to.docs[i]) {
					out = append(out, string(kind)+"/"+r.Metadata.Name)
				}
			}
			clear(docs)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), maxTold)]
}

func (c Config) shelf(kind policy.Kind) *shelf {
	if s := c.shelves[kind]; s != nil {
		return s
	}
	return noShelf
}

// Config is what operators want now.
func (v *View) Config() Config { return Config{v.shelves} }

// Settled is the configuration that all routers' tables are made of, but for those that a rollout has
// reached. It differs from [View.Config] while changes are held back: until a rollout has brought them
// to all, or as long as a freeze lasts.
func (v *View) Settled() Config {
	if v.roll.settled != nil {
		return *v.roll.settled
	}
	return v.Config()
}

// Pending says whether changes are held back.
func (v *View) Pending() bool { return v.roll.settled != nil }

// Trial is the configuration that the rollout under way brings; false: there is none.
func (v *View) Trial() (Config, bool) {
	if v.roll.trial == nil {
		return Config{}, false
	}
	return *v.roll.trial, true
}

// holdBack keeps the configuration as it was before a change that must not reach all routers at once:
// while rollouts are staged, changes are frozen or a drill is under way, and there is a table to keep.
func (v *View) holdBack(kind policy.Kind) {
	if v.roll.settled != nil || v.Table() == nil || !tabled(kind) {
		return
	}
	if v.roll.freeze != nil || v.ActiveDrill() != nil || policy.SafetyOf(v).Staged {
		v.roll.settled = &Config{v.shelves}
	}
}

// heldConfig tells a configuration by what differs from the present one; nil stays nil.
func (v *View) heldConfig(c *Config) *statepb.HeldConfig {
	if c == nil {
		return nil
	}
	out := &statepb.HeldConfig{}
	for _, kind := range firstKinds {
		then, now := c.shelf(kind), v.shelf(kind)
		if then.revision > 0 {
			out.KindRevisions = append(out.KindRevisions, &statepb.KindRevision{Kind: string(kind), Revision: then.revision})
		}
		if then == now {
			continue
		}
		for i, r := range then.items {
			at, found := now.find(r.Metadata.Name)
			if !found || now.items[at].Metadata.Revision != r.Metadata.Revision {
				out.Resources = append(out.Resources, resourceProto(kind, r, then.docs[i]))
			}
		}
		for _, r := range now.items {
			if _, found := then.find(r.Metadata.Name); !found {
				out.Absent = append(out.Absent, &statepb.Resource{Kind: string(kind), Name: r.Metadata.Name})
			}
		}
	}
	return out
}

// configOf is the inverse of heldConfig; nil stays nil.
func (v *View) configOf(p *statepb.HeldConfig) (*Config, error) {
	if p == nil {
		return nil, nil
	}
	c := &Config{maps.Clone(v.shelves)}
	for _, kind := range firstKinds {
		items, docs := map[string]*policy.Resource{}, map[string][]byte{}
		now := v.shelf(kind)
		for i, r := range now.items {
			items[r.Metadata.Name], docs[r.Metadata.Name] = r, now.docs[i]
		}
		for _, a := range p.GetAbsent() {
			if a.GetKind() == string(kind) {
				delete(items, a.GetName())
			}
		}
		for _, r := range p.GetResources() {
			if r.GetKind() != string(kind) {
				continue
			}
			parsed, err := resourceOf(r)
			if err != nil {
				return nil, err
			}
			items[r.GetName()], docs[r.GetName()] = parsed, r.GetDoc()
		}
		s := &shelf{}
		for _, name := range slices.Sorted(maps.Keys(items)) {
			s.items, s.docs = append(s.items, items[name]), append(s.docs, docs[name])
		}
		at := slices.IndexFunc(p.GetKindRevisions(), func(k *statepb.KindRevision) bool { return k.GetKind() == string(kind) })
		if at < 0 {
			if len(s.items) > 0 {
				return nil, fmt.Errorf("resources held back: kind %s has no revision", kind)
			}
			delete(c.shelves, kind)
			continue
		}
		s.revision = p.GetKindRevisions()[at].GetRevision()
		if s.revision == now.revision {
			s = now // nothing of the kind has changed since
		}
		c.shelves[kind] = s
	}
	return c, nil
}

func resourceProto(kind policy.Kind, r *policy.Resource, doc []byte) *statepb.Resource {
	return &statepb.Resource{
		Kind: string(kind), Name: r.Metadata.Name, Doc: doc, Revision: r.Metadata.Revision,
		CreatedUnixMs: r.Metadata.CreatedAt.UnixMilli(), UpdatedUnixMs: r.Metadata.UpdatedAt.UnixMilli(),
		Managers: managersOf(r),
	}
}

func resourceOf(p *statepb.Resource) (*policy.Resource, error) {
	r, err := policy.FromCanonical(policy.Kind(p.GetKind()), p.GetName(), p.GetDoc())
	if err != nil {
		return nil, err
	}
	r.Metadata.Revision = p.GetRevision()
	r.Metadata.CreatedAt = time.UnixMilli(p.GetCreatedUnixMs()).UTC()
	r.Metadata.UpdatedAt = time.UnixMilli(p.GetUpdatedUnixMs()).UTC()
	r.Metadata.Managers = ManagersFrom(p.GetManagers())
	return r, nil
}

// keptTable finds a kept table by its revision; nil for revision 0.
func (v *View) keptTable(revision uint64) (*routerpb.Table, error) {
	if revision == 0 {
		return nil, nil
	}
	for _, t := range v.tables {
		if t.GetRef().GetRevision() == revision {
			return t, nil
		}
	}
	return nil, fmt.Errorf("table %d is in force and not kept", revision)
}
