package state

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// entryOf is a resource in the model.
type entryOf struct {
	doc              string
	revision         uint64
	created, updated int64
}

// model is the obvious way to keep tenants: one map, changed in place.
type model struct {
	tenants map[string]entryOf
	changed uint64
}

// put answers the code that the state should answer.
func (m *model) put(index uint64, at int64, p *statepb.Put) string {
	old, there := m.tenants[p.GetName()]
	switch {
	case p.GetAnyRevision():
	case p.GetIfRevision() == 0 && there:
		return CodeExists
	case p.GetIfRevision() != 0 && !there:
		return CodeNotFound
	case p.GetIfRevision() != 0 && old.revision != p.GetIfRevision():
		return CodePrecondition
	}
	if there && old.doc == string(p.GetDoc()) {
		return ""
	}
	now := entryOf{string(p.GetDoc()), index, at, at}
	if there {
		now.created = old.created
	}
	m.tenants[p.GetName()], m.changed = now, index
	return ""
}

func (m *model) delete(index uint64, d *statepb.Delete) string {
	old, there := m.tenants[d.GetName()]
	switch {
	case !there:
		return CodeNotFound
	case d.GetIfRevision() != 0 && old.revision != d.GetIfRevision():
		return CodePrecondition
	}
	delete(m.tenants, d.GetName())
	m.changed = index
	return ""
}

// revisionFor draws the revision of a tenant, or near it, or none.
func (m *model) revisionFor(t *rapid.T, name string) uint64 {
	return rapid.SampledFrom([]uint64{0, m.tenants[name].revision, m.tenants[name].revision + 1}).Draw(t, "revision")
}

// The state agrees with the model after every command, and its history of changes, applied to any
// earlier state, gives the present one.
func TestTheStateAgreesWithAPlainMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		view, _, err := Apply(Empty(), 1, initCommand())
		if err != nil {
			rt.Fatal(err)
		}
		m := &model{tenants: map[string]entryOf{}}
		past := []*View{view}
		for range rapid.IntRange(1, 50).Draw(rt, "commands") {
			index := view.Index() + 1
			name := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "name")
			revision := m.revisionFor(rt, name)
			var (
				cmd  *statepb.Command
				want string
			)
			if rapid.IntRange(0, 3).Draw(rt, "delete") == 0 {
				d := &statepb.Delete{Kind: "Tenant", Name: name, IfRevision: revision}
				cmd, want = command(d), m.delete(index, d)
			} else {
				tier := rapid.SampledFrom(policy.Tiers()).Draw(rt, "tier")
				p := &statepb.Put{Kind: "Tenant", Name: name, Doc: []byte(`{"spec":{"tier":"` + tier + `"}}`), IfRevision: revision, AnyRevision: rapid.IntRange(0, 3).Draw(rt, "any") == 0}
				cmd = command(p)
				cmd.AtUnixMs = int64(index) * 1000
				want = m.put(index, cmd.GetAtUnixMs(), p)
			}
			next, out, err := Apply(view, index, cmd)
			if err != nil || out.GetCode() != want {
				rt.Fatalf("%v: code %q, want %q (%v)", cmd, out.GetCode(), want, err)
			}
			view = next
			past = append(past, view)
			if got, want := listed(view), m.listed(); got != want {
				rt.Fatalf("after %v:\n%s\nwant:\n%s", cmd, got, want)
			}
			if view.Revision(policy.KindTenant) != m.changed {
				rt.Fatalf("last change %d, want %d", view.Revision(policy.KindTenant), m.changed)
			}
		}
		from := past[rapid.IntRange(0, len(past)-1).Draw(rt, "watched from")]
		if got := replayed(rt, from, view); got != listed(view) {
			rt.Fatalf("the changes since %d give:\n%s\nwant:\n%s", from.Index(), got, listed(view))
		}
	})
}

func line(name, doc string, revision uint64, created, updated int64) string {
	return fmt.Sprintf("%s %s at %d, %d, %d\n", name, doc, revision, created, updated)
}

func (m *model) listed() (out string) {
	for _, name := range slices.Sorted(maps.Keys(m.tenants)) {
		e := m.tenants[name]
		out += line(name, e.doc, e.revision, e.created, e.updated)
	}
	return out
}

func listed(v *View) (out string) {
	for _, r := range v.List(policy.KindTenant) {
		out += lineOf(r)
	}
	return out
}

func lineOf(r *policy.Resource) string {
	return line(r.Metadata.Name, string(policy.Canonical(r)), r.Metadata.Revision, r.Metadata.CreatedAt.UnixMilli(), r.Metadata.UpdatedAt.UnixMilli())
}

// replayed is what a watcher knows that listed at one view and was told the changes up to another.
func replayed(t *rapid.T, from, to *View) (out string) {
	known := map[string]string{}
	for _, r := range from.List(policy.KindTenant) {
		known[r.Metadata.Name] = lineOf(r)
	}
	changes, ok := to.Changes(from.Index())
	if !ok {
		t.Fatalf("the history since %d is gone", from.Index())
	}
	last := from.Index()
	for _, c := range changes {
		if c.Revision <= last {
			t.Fatalf("changes are out of order: %v", changes)
		}
		last = c.Revision
		r, there := to.Get(c.Kind, c.Name)
		if there == c.Deleted {
			t.Fatalf("%v, and the tenant is there: %v", c, there)
		}
		delete(known, c.Name)
		if there {
			known[c.Name] = lineOf(r)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		out += known[name]
	}
	return out
}

func TestKindsAreBounded(t *testing.T) {
	v := start(t).View
	// A full list, put together without ten thousand commands.
	s := &shelf{revision: 1}
	for i := range MaxResources {
		r, err := policy.FromCanonical(policy.KindTenant, fmt.Sprintf("t%05d", i), []byte(`{"spec":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		s.items, s.docs = append(s.items, r), append(s.docs, []byte(`{"spec":{}}`))
	}
	v.shelves = map[policy.Kind]*shelf{policy.KindTenant: s}
	next, out, err := Apply(v, 2, command(&statepb.Put{Kind: "Tenant", Name: "one-more", Doc: []byte(`{"spec":{}}`)}))
	if err != nil || out.GetCode() != CodeInvalid || len(next.List(policy.KindTenant)) != MaxResources {
		t.Errorf("got %v, %v", out, err)
	}
	_, out, err = Apply(v, 2, command(&statepb.Put{Kind: "Tenant", Name: "t00000", Doc: []byte(`{"spec":{"tier":"top"}}`), AnyRevision: true}))
	if err != nil || out.GetCode() != "" {
		t.Errorf("changing one of a full list: %v, %v", out, err)
	}
}

func BenchmarkPut(b *testing.B) {
	v, _, err := Apply(Empty(), 1, initCommand())
	if err != nil {
		b.Fatal(err)
	}
	for i := range 1000 {
		v, _, err = Apply(v, v.Index()+1, command(&statepb.Put{Kind: "Region", Name: fmt.Sprintf("r%d", i), Doc: []byte(`{"spec":{}}`)}))
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		doc := fmt.Appendf(nil, `{"spec":{"zone":"z%d"}}`, i)
		if _, _, err := Apply(v, v.Index()+1, command(&statepb.Put{Kind: "Region", Name: "r500", Doc: doc, AnyRevision: true})); err != nil {
			b.Fatal(err)
		}
	}
}
