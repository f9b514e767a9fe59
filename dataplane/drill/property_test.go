package drill

import (
	"math"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
	"anabranch/failover/drill"
)

// given is a lease as a test remembers it.
type given struct {
	m  *routerpb.DrillLease
	at Moment
}

// slowly says what is obeyed after all that was given, by going through all of it: of the latest number the one that
// ends soonest, unless that number was taken back.
func slowly(all []given, now Moment) (shifted uint32, obeyed bool) {
	later := func(a, b *routerpb.DrillLease) bool {
		switch {
		case a.GetEpoch() != b.GetEpoch():
			return a.GetEpoch() > b.GetEpoch()
		case a.GetId() != b.GetId():
			return a.GetId() > b.GetId()
		}
		return a.GetSequence() > b.GetSequence()
	}
	var newest *given
	for i := range all {
		if newest == nil || later(all[i].m, newest.m) {
			newest = &all[i]
		}
	}
	if newest == nil {
		return 0, false
	}
	for _, g := range all {
		if later(g.m, newest.m) || later(newest.m, g.m) {
			continue
		}
		ttl := min(time.Duration(g.m.GetTtlMs())*time.Millisecond, 30*time.Second)
		if ttl == 0 || now.Mono >= g.at.Mono+ttl || now.WallMs >= g.m.GetNotAfterUnixMs() ||
			now.Mono-g.at.Mono >= time.Duration(g.m.GetNotAfterUnixMs()-g.at.WallMs)*time.Millisecond {
			return 0, false
		}
	}
	return newest.m.GetShiftedPpm(), true
}

// Whatever nodes say, in whatever order, and wherever clocks are set: what is obeyed is what was said last, for no
// longer than 30 s after it was heard first.
func TestLeasesAgainstAListOfThemAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var v *View
		var all []given
		first := map[[3]uint64]time.Duration{}
		mono, wall := time.Duration(0), int64(1_764_400_000_000)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			passed := time.Duration(rapid.IntRange(0, 12_000).Draw(t, "passed")) * time.Millisecond
			mono += passed
			wall += passed.Milliseconds()
			if rapid.IntRange(0, 9).Draw(t, "set") == 0 {
				wall += int64(rapid.IntRange(-100_000, 100_000).Draw(t, "by"))
			}
			now := Moment{mono, wall}
			if rapid.Bool().Draw(t, "hears") {
				m := &routerpb.DrillLease{
					Epoch: rapid.Uint64Range(1, 2).Draw(t, "epoch"), Id: rapid.Uint64Range(1, 2).Draw(t, "id"), Sequence: rapid.Uint64Range(0, 4).Draw(t, "sequence"),
					TtlMs: rapid.SampledFrom([]uint32{0, 1000, 5000, 30_000, 60_000}).Draw(t, "ttl"), BaseSha256: base("a"),
					NotAfterUnixMs: wall + int64(rapid.IntRange(-5000, 90_000).Draw(t, "not after")),
				}
				// A number is one state of one drill.
				m.ShiftedPpm = uint32(m.GetEpoch()*1000 + m.GetId()*100 + m.GetSequence())
				all = append(all, given{m, now})
				if key := [3]uint64{m.GetEpoch(), m.GetId(), m.GetSequence()}; first[key] == 0 {
					first[key] = mono
				}
				v, _ = Next(v, m, now)
			}
			d := &table.Drill{ID: rapid.Uint64Range(1, 2).Draw(t, "the table's")}
			copy(d.Base[:], base("a"))
			want, holds := slowly(all, now)
			if got := v.Holds(now); got != holds || holds && v.Shifted != want {
				t.Fatalf("holds %t, %+v; want %t, %d", got, v, holds, want)
			}
			if v.Obeyed(d, now) {
				if since := mono - first[[3]uint64{v.Epoch, v.ID, v.Sequence}]; since >= drill.LeaseTTL || v.ID != d.ID {
					t.Fatalf("drill %d is obeyed %v after its lease was heard first", d.ID, since)
				}
				if left := v.Remaining(now); left <= 0 || left > drill.LeaseTTL {
					t.Fatalf("%v are left", left)
				}
			}
		}
	})
}

// As the part grows a key goes over once and stays; at nothing none has, at all every one.
func TestAKeyMovesOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &table.Drill{ID: rapid.Uint64().Draw(t, "id")}
		key := rapid.Uint64().Draw(t, "key")
		parts := rapid.SliceOfN(rapid.Uint32Range(0, Whole), 1, 20).Draw(t, "parts")
		moved, at := false, uint32(0)
		for _, p := range append(parts, 0, Whole) {
			at = max(at, p)
			shifted := Decide(&View{ID: d.ID, Shifted: at}, d, "t", "m", key) == Shifted
			if moved && !shifted {
				t.Fatalf("came back at %d", at)
			}
			moved = shifted
		}
		if !moved {
			t.Fatal("stays where all are shifted")
		}
		if Decide(&View{ID: d.ID}, d, "t", "m", key) != Kept {
			t.Fatal("goes where none is shifted")
		}
	})
}

// Each part of the keys is as large as it should be, whatever the keys are like, and is other keys in each drill.
func TestPartsAreExact(t *testing.T) {
	for name, key := range map[string]func(i uint64) uint64{
		"numbers": func(i uint64) uint64 { return i }, "round numbers": func(i uint64) uint64 { return i << 40 },
		"hashes": func(i uint64) uint64 { return mix(i) },
	} {
		const keys = 200_000
		both := 0
		for _, part := range []uint32{10_000, 100_000, 500_000} {
			n := 0
			for i := range uint64(keys) {
				a := place(key(i), 12) < part
				if a {
					n++
				}
				if part == 500_000 && a && place(key(i), 13) < part {
					both++
				}
			}
			want := float64(part) / Whole
			if got := float64(n) / keys; math.Abs(got-want) > 4*math.Sqrt(want*(1-want)/keys) {
				t.Errorf("%s: %.5f of the keys for a part of %.5f", name, got, want)
			}
		}
		if got := float64(both) / keys; math.Abs(got-0.25) > 0.01 {
			t.Errorf("%s: %.3f of the keys are shifted in two drills of a half, want a quarter", name, got)
		}
	}
}

func TestTheWaysOfRequests(t *testing.T) {
	d := built(t, func(p *routerpb.Drill) { p.Models, p.Tenants = []string{"m"}, []string{"acme"} })
	whole := &View{ID: d.ID, Shifted: Whole}
	for name, c := range map[string]struct {
		view   *View
		tenant fleet.TenantID
		model  fleet.ModelID
		want   Way
	}{
		"within the scope":       {whole, "acme", "m", Shifted},
		"another tenant":         {whole, "globex", "m", Outside},
		"another model":          {whole, "acme", "n", Outside},
		"nothing is shifted yet": {&View{ID: d.ID}, "acme", "m", Kept},
		"only to be counted":     {&View{ID: d.ID, Shifted: Whole, WatchOnly: true}, "acme", "m", Watched},
		"counted, and not yet":   {&View{ID: d.ID, WatchOnly: true}, "acme", "m", Kept},
	} {
		if got := Decide(c.view, d, c.tenant, c.model, 42); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if everybody := built(t, nil); Decide(whole, everybody, "whoever", "n", 42) != Shifted {
		t.Error("a scope without names leaves somebody out")
	}
	if whole.Obeyed(nil, Moment{}) || (*View)(nil).Obeyed(d, Moment{}) || (*View)(nil).Remaining(Moment{}) != 0 || (*View)(nil).Lapsed(Moment{}) {
		t.Error("nothing is obeyed, or nobody obeys")
	}
}

// built is a drill as a table has it.
func built(t testing.TB, change func(*routerpb.Drill)) *table.Drill {
	t.Helper()
	p := &routerpb.Drill{Id: 12, Kind: "soft", Clusters: []string{"a"}, BaseSha256: base("a")}
	if change != nil {
		change(p)
	}
	pb := &routerpb.Table{
		Ref: &routerpb.TableRef{ClusterId: "c", Revision: 1}, Regions: []*routerpb.Region{{Id: "us"}}, Models: []*routerpb.Model{{Id: "m"}, {Id: "n"}},
		Clusters: []*routerpb.Cluster{{Id: "a", Region: "us", Kind: "gateway", GatewayUrl: "http://a", Models: []string{"m", "n"}, HealthCap: 1}}, Drill: p,
	}
	tab, err := table.Build(pb)
	if err != nil {
		t.Fatal(err)
	}
	return tab.Drill()
}

func TestTheHolderTellsHowThingsStand(t *testing.T) {
	now := time.Now()
	h, d := NewHolder(now), built(t, nil)
	if s := h.Status(d, now); s != (Status{ID: 12}) || h.View() != nil {
		t.Errorf("before any lease: %+v", s)
	}
	lease := func(sequence uint64, ttl uint32) *routerpb.DrillLease {
		return &routerpb.DrillLease{
			Id: 12, Epoch: 1, Sequence: sequence, BaseSha256: base("a"), TtlMs: ttl, NotAfterUnixMs: now.Add(time.Hour).UnixMilli(),
			ShiftedPpm: 500_000, Dead: true, QuotaStoreLost: true, WatchOnly: true,
		}
	}
	if got := h.Take(lease(2, 30_000), now); got != Taken {
		t.Fatal(got)
	}
	want := Status{ID: 12, Sequence: 2, Remaining: 20 * time.Second, Shifted: 500_000, Dead: true, QuotaStoreLost: true, WatchOnly: true}
	if s := h.Status(d, now.Add(10*time.Second)); s != want {
		t.Errorf("obeyed: %+v", s)
	}
	if h.Look(now.Add(29*time.Second)) != nil || h.Lapses() != 0 {
		t.Error("it ended too soon")
	}
	if v := h.Look(now.Add(30 * time.Second)); v == nil || v.Sequence != 2 || h.Look(now.Add(31*time.Second)) != nil || h.Lapses() != 1 {
		t.Errorf("it ended, and %v says so %d times", v, h.Lapses())
	}
	if s := h.Status(d, now.Add(30*time.Second)); s != (Status{ID: 12, Lapsed: true}) {
		t.Errorf("lapsed: %+v", s)
	}
	// One that lapsed between two looks is noted by the next lease.
	h.Take(lease(3, 1000), now.Add(31*time.Second))
	h.Take(lease(4, 30_000), now.Add(33*time.Second))
	h.Take(lease(1, 30_000), now.Add(33*time.Second))
	h.Take(lease(5, 0), now.Add(34*time.Second))
	if h.Look(now.Add(time.Hour)) != nil || h.Lapses() != 2 {
		t.Errorf("%d lapses; one that was taken back did not lapse", h.Lapses())
	}
	got := map[Verdict]uint64{}
	h.Verdicts(func(v Verdict, n uint64) { got[v] = n })
	if got[Taken] != 3 || got[Outdated] != 1 || got[Finished] != 1 || len(got) != len(verdicts) {
		t.Errorf("verdicts %v", got)
	}
}

// Requests read while leases come. Each sees one lease whole.
func TestReadersSeeOneLease(t *testing.T) {
	now := time.Now()
	h, d := NewHolder(now), built(t, nil)
	var all sync.WaitGroup
	all.Go(func() {
		for i := range uint64(2000) {
			h.Take(&routerpb.DrillLease{
				Id: 12, Epoch: 1, Sequence: i, BaseSha256: base("a"), TtlMs: 30_000, NotAfterUnixMs: now.Add(time.Hour).UnixMilli(),
				ShiftedPpm: uint32(i), Dead: i%2 == 1,
			}, now)
		}
	})
	for range 3 {
		all.Go(func() {
			last := uint64(0)
			for last < 1999 {
				v := h.View()
				if !v.Obeyed(d, h.At(now)) {
					continue
				}
				if v.Sequence < last || uint64(v.Shifted) != v.Sequence || v.Dead != (v.Sequence%2 == 1) {
					t.Errorf("sees %+v after %d", v, last)
					return
				}
				last = v.Sequence
			}
		})
	}
	all.Wait()
}
