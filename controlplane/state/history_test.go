package state

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// remembering starts a state that keeps history.
func remembering(t *testing.T) *history {
	t.Helper()
	h := start(t)
	h.do(raise(3))
	return h
}

// told writes a history down, newest first.
func told(v *View, kind policy.Kind, name string) (out []string) {
	for _, r := range v.History(kind, name) {
		line := fmt.Sprintf("%d %s by %s %s", r.GetRevision(), r.GetAction(), r.GetActor(), r.GetDoc())
		if r.GetRollbackTo() != 0 {
			line += fmt.Sprintf(" as of %d", r.GetRollbackTo())
		}
		out = append(out, strings.TrimSpace(line))
	}
	return out
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestEveryRevisionIsKeptWithItsAuthor(t *testing.T) {
	h := remembering(t) // index 2
	h.do(region("us", `{}`, 0))
	bob := region("us", `{"zone":"a"}`, 3)
	bob.Actor, bob.AtUnixMs = &statepb.Actor{Name: "bob", Role: "operator", Reason: "zones", RequestId: "r-9"}, 5000
	h.do(bob)
	h.do(region("us", `{"zone":"a"}`, 4)) // as it is: no revision
	h.do(region("us", `{"zone":"b"}`, 3)) // refused: none either
	back := region("us", `{}`, 4)
	back.GetPut().RollbackTo = 3
	h.do(back)
	want := []string{`7 rollback by ann {"spec":{}} as of 3`, `4 update by bob {"spec":{"zone":"a"}}`, `3 create by ann {"spec":{}}`}
	same(t, "history", told(h.View, policy.KindRegion, "us"), want)
	same(t, "history after a restart", told(again(t, h.View), policy.KindRegion, "us"), want)
	r := h.History(policy.KindRegion, "us")[1]
	if r.GetRole() != "operator" || r.GetReason() != "zones" || r.GetRequestId() != "r-9" || r.GetAtUnixMs() != 5000 || r.GetCreatedUnixMs() != 1000 {
		t.Errorf("revision 4 is %v", r)
	}
	was, ok := h.Was(policy.KindRegion, "us", 4)
	if !ok || string(was.Written) != `{"zone":"a"}` || was.Metadata.Revision != 4 || was.Metadata.UpdatedBy != "bob" || was.Metadata.UpdatedAt.UnixMilli() != 5000 || was.Metadata.CreatedAt.UnixMilli() != 1000 {
		t.Errorf("as of 4 it was %+v", was)
	}
	if now, _ := h.Get(policy.KindRegion, "us"); now.Metadata.UpdatedBy != "ann" {
		t.Errorf("updated by %q", now.Metadata.UpdatedBy)
	}
	for _, none := range []uint64{0, 2, 5, 6, 8} {
		if _, ok := h.Was(policy.KindRegion, "us", none); ok {
			t.Errorf("there is a revision %d", none)
		}
	}
	entries := h.Audit(0, 0)
	if last := entries[len(entries)-1]; last.GetAction() != "update" || last.GetReason() != "because; rollback to revision 3" {
		t.Errorf("audited as %v", last)
	}
}

func TestWhatIsDeletedIsRememberedAndComesBack(t *testing.T) {
	h := remembering(t)
	h.do(region("us", `{}`, 0))
	h.do(command(&statepb.Delete{Kind: "Region", Name: "us"}))
	want := []string{"4 delete by ann", `3 create by ann {"spec":{}}`}
	same(t, "deleted", told(h.View, policy.KindRegion, "us"), want)
	same(t, "deleted, after a restart", told(again(t, h.View), policy.KindRegion, "us"), want)
	if _, ok := h.Was(policy.KindRegion, "us", 4); ok {
		t.Error("a deletion has a document")
	}
	if _, ok := h.Was(policy.KindRegion, "us", 3); !ok {
		t.Error("what it was is forgotten")
	}
	back := region("us", `{}`, 0)
	back.GetPut().RollbackTo = 3
	h.do(back)
	same(t, "back", told(h.View, policy.KindRegion, "us"), append([]string{`5 rollback by ann {"spec":{}} as of 3`}, want...))
	if h.past.gone != 0 {
		t.Errorf("%d are deleted", h.past.gone)
	}
	if h.History(policy.KindRegion, "never") != nil || h.History("Planet", "us") != nil {
		t.Error("what never was has a history")
	}
}

func TestTheNewestRevisionsAreKept(t *testing.T) {
	h := remembering(t)
	for i := range 30 {
		h.do(command(&statepb.Put{Kind: "Region", Name: "us", Doc: fmt.Appendf(nil, `{"spec":{"zone":"z%d"}}`, i), AnyRevision: true}))
	}
	got := told(h.View, policy.KindRegion, "us")
	if len(got) != MaxRevisions || !strings.Contains(got[0], "z29") || !strings.Contains(got[MaxRevisions-1], "z10") {
		t.Errorf("kept:\n%s", strings.Join(got, "\n"))
	}
}

func TestHistoryBeginsWithWhatIsThere(t *testing.T) {
	h := start(t)
	h.do(region("us", `{"zone":"a"}`, 0))
	h.do(region("gone", `{}`, 0))
	h.do(raise(2))
	h.do(command(&statepb.Delete{Kind: "Region", Name: "gone"}))
	if h.History(policy.KindRegion, "us") != nil || again(t, h.View).History(policy.KindRegion, "us") != nil {
		t.Error("there is history before level 3")
	}
	old := again(t, h.View) // a node that restores a snapshot of before
	h.do(raise(3))
	raised, _, err := Apply(old, h.Index(), raise(3))
	if err != nil || !Equal(raised, h.View) {
		t.Errorf("a node that restored the snapshot differs: %v", err)
	}
	same(t, "known", told(h.View, policy.KindRegion, "us"), []string{`2 known by  {"spec":{"zone":"a"}}`})
	same(t, "deleted before", told(h.View, policy.KindRegion, "gone"), nil)
	h.do(region("us", `{"zone":"b"}`, 2))
	want := []string{`7 update by ann {"spec":{"zone":"b"}}`, `2 known by  {"spec":{"zone":"a"}}`}
	same(t, "changed since", told(h.View, policy.KindRegion, "us"), want)
	same(t, "changed since, after a restart", told(again(t, h.View), policy.KindRegion, "us"), want)
	if r, ok := h.Was(policy.KindRegion, "us", 2); !ok || r.Metadata.CreatedAt.UnixMilli() != 1000 {
		t.Errorf("as of 2: %+v", r)
	}
}

// crowd makes a state with three regions of five revisions each, and three that are deleted.
func crowd(t *testing.T) *history {
	t.Helper()
	h := remembering(t)
	for i := range 5 {
		for _, name := range []string{"a", "b", "c", "x", "y", "z"} {
			h.do(command(&statepb.Put{Kind: "Region", Name: name, Doc: fmt.Appendf(nil, `{"spec":{"zone":"z%d"}}`, i), AnyRevision: true}))
		}
	}
	for _, name := range []string{"y", "z", "x"} {
		h.do(command(&statepb.Delete{Kind: "Region", Name: name}))
	}
	return h
}

func TestResourcesDeletedFirstAreForgottenFirst(t *testing.T) {
	h := crowd(t)
	p := h.past.within(2, MaxPast)
	if p.gone != 2 || p.find(policy.KindRegion, "y") != nil || p.find(policy.KindRegion, "z") == nil || len(p.find(policy.KindRegion, "a").GetRevisions()) != 5 {
		t.Errorf("%d are left", p.gone)
	}
	if p = h.past.within(0, MaxPast); p.gone != 0 || p.find(policy.KindRegion, "x") != nil {
		t.Errorf("%d are left", p.gone)
	}
	if again := h.past.within(3, MaxPast); again.gone != 3 || again.size != h.past.size {
		t.Error("what is within its bounds is cut")
	}
}

func TestBeyondItsSizeTheOldestHistoryGoes(t *testing.T) {
	h := crowd(t)
	before := h.past.size
	limit := before - 1
	p := h.past.within(MaxGone, limit)
	if p.size > limit/8*7 || p.size < limit/2 {
		t.Errorf("%d of %d bytes are left, the limit is %d", p.size, before, limit)
	}
	lowest := ^uint64(0)
	p.each(func(of *statepb.History) { lowest = min(lowest, of.GetRevisions()[0].GetRevision()) })
	h.past.each(func(of *statepb.History) {
		for _, r := range earlier(of) {
			left := slices.Contains(p.find(policy.KindRegion, of.GetName()).GetRevisions(), r)
			if left != (r.GetRevision() >= lowest) {
				t.Errorf("revision %d of %s is left: %v; the oldest left is %d", r.GetRevision(), of.GetName(), left, lowest)
			}
		}
	})
	p = h.past.within(MaxGone, 0)
	if p.size != 0 || p.gone != 0 || len(p.of[policy.KindRegion]) != 3 {
		t.Errorf("with no room for any %d bytes of %d resources are left", p.size, len(p.of[policy.KindRegion]))
	}
	p.each(func(of *statepb.History) {
		if len(of.GetRevisions()) != 1 || newest(of) != newest(h.past.find(policy.KindRegion, of.GetName())) {
			t.Errorf("the present one of %s is gone", of.GetName())
		}
	})
	if h.past.size != before {
		t.Error("the view before was changed")
	}
}

// The quick way to the oldest revisions finds what sorting all of them finds.
func TestTheOldestRevisionsAreFound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		numbers := rapid.SliceOfNDistinct(rapid.Uint64Range(1, rapid.SampledFrom([]uint64{60, 5000, 1 << 40}).Draw(rt, "range")), 2, 40, rapid.ID[uint64]).Draw(rt, "revisions")
		slices.Sort(numbers)
		p, list := past{}, []*statepb.History{}
		for i, n := range numbers {
			name := fmt.Sprintf("%d", i%3)
			at, ok := findHistory(list, name)
			if !ok {
				list = slices.Insert(list, at, &statepb.History{Kind: "Region", Name: name})
			}
			list[at].Revisions = append(list[at].GetRevisions(), &statepb.Revision{Revision: n, Reason: strings.Repeat("x", int(n%300))})
		}
		p.of = map[policy.Kind][]*statepb.History{policy.KindRegion: list}
		p.count()
		var all []*statepb.Revision
		for _, h := range list {
			all = append(all, earlier(h)...)
		}
		slices.SortFunc(all, func(a, b *statepb.Revision) int { return cmp.Compare(a.GetRevision(), b.GetRevision()) })
		size := rapid.IntRange(1, p.size+2).Draw(rt, "size")
		want, left := uint64(0), size
		for _, r := range all {
			if want = r.GetRevision(); left <= weigh(r) {
				break
			}
			left -= weigh(r)
		}
		if got := p.oldest(size); got != want {
			rt.Fatalf("%d bytes of %d: up to %d, want %d", size, p.size, got, want)
		}
	})
}

func TestTheBoundsHoldWhenCommandsAreApplied(t *testing.T) {
	h := remembering(t)
	for i := range 40 {
		h.do(region(fmt.Sprintf("r%02d", i), `{}`, 0))
		h.do(region(fmt.Sprintf("r%02d", i), `{"zone":"z"}`, h.Index()))
	}
	h.past.size = MaxPast // as if the rest were elsewhere: no test needs to fill it
	h.do(region("r00", `{"zone":"y"}`, 4))
	for _, name := range []string{"r00", "r20", "r39"} {
		if len(h.History(policy.KindRegion, name)) != 1 {
			t.Errorf("%q", told(h.View, policy.KindRegion, name))
		}
	}
}

// Running totals are those that a restored node counts, and every history is what a plain list says.
func TestHistoryAgreesWithAPlainList(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v, _, err := Apply(Empty(), 1, initCommand())
		if err != nil {
			rt.Fatal(err)
		}
		plain := map[string][]string{}
		level := rapid.IntRange(0, 10).Draw(rt, "rises after")
		docs := map[string]string{}
		for i := range rapid.IntRange(1, 60).Draw(rt, "commands") {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "name")
			doc := fmt.Sprintf(`{"spec":{"zone":%q}}`, rapid.SampledFrom([]string{"x", "y", "z"}).Draw(rt, "zone"))
			var cmd *statepb.Command
			if i == level {
				cmd = raise(3)
			} else if rapid.IntRange(0, 3).Draw(rt, "delete") == 0 {
				cmd = command(&statepb.Delete{Kind: "Region", Name: name})
			} else {
				cmd = command(&statepb.Put{Kind: "Region", Name: name, Doc: []byte(doc), AnyRevision: true})
			}
			index := v.Index() + 1
			next, out, err := Apply(v, index, cmd)
			if err != nil {
				rt.Fatal(err)
			}
			if cmd.GetSetFeatureLevel() != nil {
				for of := range docs {
					r, _ := v.Get(policy.KindRegion, of)
					plain[of] = []string{fmt.Sprintf("%d known by  %s", r.Metadata.Revision, docs[of])}
				}
			}
			if v = next; out.GetCode() == "" && cmd.GetSetFeatureLevel() == nil {
				line, action := "", "update"
				switch was, there := docs[name]; {
				case cmd.GetDelete() != nil:
					line = fmt.Sprintf("%d delete by ann", index)
					delete(docs, name)
				case !there:
					action = "create"
					fallthrough
				case was != doc:
					line = fmt.Sprintf("%d %s by ann %s", index, action, doc)
					docs[name] = doc
				}
				if line != "" && v.FeatureLevel() >= 3 {
					plain[name] = append([]string{line}, plain[name]...)
					plain[name] = plain[name][:min(len(plain[name]), MaxRevisions)]
				}
			}
		}
		back := again(t, v)
		for _, name := range []string{"a", "b", "c"} {
			if got := told(v, policy.KindRegion, name); !slices.Equal(got, plain[name]) {
				rt.Fatalf("%s: %q, want %q", name, got, plain[name])
			}
			if got := told(back, policy.KindRegion, name); !slices.Equal(got, plain[name]) {
				rt.Fatalf("%s after a restart: %q", name, got)
			}
		}
		if back.past.size != v.past.size || back.past.gone != v.past.gone {
			rt.Fatalf("counted %d bytes and %d deleted, a restored node %d and %d", v.past.size, v.past.gone, back.past.size, back.past.gone)
		}
	})
}

func TestASnapshotWhoseHistoryDoesNotFitIsRefused(t *testing.T) {
	h := remembering(t)
	h.do(region("eu", `{}`, 0))
	h.do(region("us", `{}`, 0))
	h.do(command(&statepb.Delete{Kind: "Region", Name: "eu"}))
	payload, err := h.bytes()
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]struct {
		f    func(*statepb.Snapshot)
		want string
	}{
		"none of a resource":    {func(s *statepb.Snapshot) { s.History = s.GetHistory()[:1] }, `Region "us" has no history`},
		"none at all":           {func(s *statepb.Snapshot) { s.History = nil }, "has no history"},
		"deleted, and is there": {func(s *statepb.Snapshot) { s.GetHistory()[1].Name = "eu" }, "does not end as the resource is"},
		"there, and is not":     {func(s *statepb.Snapshot) { s.GetHistory()[0].Name = "us" }, "does not end as the resource is"},
		"without revisions":     {func(s *statepb.Snapshot) { s.GetHistory()[0].Revisions = nil }, "does not end"},
		"out of order":          {func(s *statepb.Snapshot) { slices.Reverse(s.GetHistory()) }, "out of order"},
		"of an unknown kind":    {func(s *statepb.Snapshot) { s.GetHistory()[0].Kind = "Planet" }, "newer than this build"},
	} {
		var s statepb.Snapshot
		if err := proto.Unmarshal(payload, &s); err != nil {
			t.Fatal(err)
		}
		spoil.f(&s)
		if _, err := fromSnapshot(&s); err == nil || !strings.Contains(err.Error(), spoil.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestADifferentHistoryIsADifferentSum(t *testing.T) {
	one, two := remembering(t), remembering(t)
	for _, h := range []*history{one, two} {
		h.do(region("us", `{}`, 0))
		h.do(region("us", `{"zone":"z"}`, 3))
	}
	if d := Differing(Sums(one.View), Sums(two.View)); len(d) > 0 {
		t.Fatalf("%q differ", d)
	}
	two.past = two.past.within(MaxGone, 0)
	if d := Differing(Sums(one.View), Sums(two.View)); !slices.Equal(d, []string{"history"}) {
		t.Errorf("%q differ", d)
	}
}

func TestHistoryIsSmallInASnapshot(t *testing.T) {
	h := remembering(t)
	doc := []byte(`{"spec":{"zone":"` + strings.Repeat("z", 1000) + `"}}`)
	h.do(command(&statepb.Put{Kind: "Region", Name: "us", Doc: doc}))
	if n := bytes.Count(encoded(t, h.View), doc); n != 1 {
		t.Errorf("the present document stands in the snapshot %d times", n)
	}
}

// BenchmarkPutAmongMany changes one of ten thousand resources whose history is full.
func BenchmarkPutAmongMany(b *testing.B) {
	v, _, err := Apply(Empty(), 1, initCommand())
	if err != nil {
		b.Fatal(err)
	}
	s := &shelf{revision: 1}
	for i := range MaxResources {
		doc := fmt.Appendf(nil, `{"labels":{"a":"b%d"},"spec":{"tier":"top"}}`, i)
		r, err := policy.FromCanonical(policy.KindTenant, fmt.Sprintf("t%05d", i), doc)
		if err != nil {
			b.Fatal(err)
		}
		r.Metadata.Revision = 1
		s.items, s.docs = append(s.items, r), append(s.docs, doc)
	}
	v.shelves = map[policy.Kind]*shelf{policy.KindTenant: s}
	if v, _, err = Apply(v, 2, raise(Format)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		doc := fmt.Appendf(nil, `{"labels":{"a":"c%d"},"spec":{"tier":"top"}}`, i)
		var out *statepb.Outcome
		if v, out, err = Apply(v, v.Index()+1, command(&statepb.Put{Kind: "Tenant", Name: "t05000", Doc: doc, AnyRevision: true})); err != nil || out.GetCode() != "" {
			b.Fatal(out, err)
		}
	}
}
