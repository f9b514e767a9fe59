package rival

import (
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/sim/workload"
	"anabranch/sim/world"
)

func TestFiveFailuresInARowEject(t *testing.T) {
	var h health
	now := time.Minute
	for range failuresInARow - 1 {
		h.bad(now)
	}
	h.good()
	for range failuresInARow - 1 {
		h.bad(now)
	}
	if h.ejected(now) {
		t.Fatal("ejected after fewer failures in a row than five")
	}
	h.bad(now)
	if !h.ejected(now+ejection-1) || h.ejected(now+ejection) {
		t.Errorf("ejected until %v, want %v", h.until, now+ejection)
	}
	for i := range 20 {
		now = h.until
		for range failuresInARow {
			h.bad(now)
		}
		if want := min(longest, time.Duration(i+2)*ejection); h.until-now != want {
			t.Fatalf("time %d is for %v, want %v", i+2, h.until-now, want)
		}
	}
}

// fail tells of failures of a pod (-1: of the cluster).
func (s *scene) fail(p *policy, cluster, pod, times int) {
	for range times {
		p.Ended(&world.Attempt{Request: &workload.Request{}, Cluster: cluster, Pod: pod, Away: cluster != 0}, world.Refused, s.view)
	}
}

func TestEjectedPlacesAreLeftOut(t *testing.T) {
	s := regions(2, 2)
	p := s.policy(t, "random")
	s.hear(p)
	s.fail(p, 0, 1, failuresInARow)
	s.fail(p, 1, -1, failuresInARow)
	if clusters, pods := s.shares(p, 200); clusters[0] != 200 || pods[0] != 200 {
		t.Errorf("clusters %v, pods %v, want all to pod 0 of cluster 0", clusters, pods)
	}
	s.fail(p, 0, 0, failuresInARow)
	if _, pods := s.shares(p, 400); pods[0] == 0 || pods[1] == 0 {
		t.Errorf("with both ejected pods got %v, want some each", pods)
	}
	s.view.Now += ejection
	s.hear(p)
	if clusters, pods := s.shares(p, 400); clusters[1] == 0 || pods[1] == 0 {
		t.Errorf("after its time clusters got %v, pods %v", clusters, pods)
	}
}

func TestSilentClusterIsLeftOut(t *testing.T) {
	s := regions(2, 2)
	p := s.policy(t, "random")
	s.hear(p)
	s.view.Now += p.layout.stale
	if got, _ := s.shares(p, 200); got[1] == 0 {
		t.Error("left out too early")
	}
	s.view.Now++
	if got, _ := s.shares(p, 200); got[1] != 0 {
		t.Errorf("nothing was heard of cluster 1 for more than %v, and it got %d", p.layout.stale, got[1])
	}
}

// TestSkewedClocksDeceiveNobody: what is told carries the teller's clock.
func TestSkewedClocksDeceiveNobody(t *testing.T) {
	s := regions(2, 2)
	p := s.policy(t, "random")
	s.view.Clusters[1].Told.At = s.view.Now - time.Hour
	s.hear(p)
	if got, _ := s.shares(p, 200); got[1] == 0 {
		t.Error("a cluster whose clock is late gets nothing")
	}
}

func TestAdaptersNeedSlots(t *testing.T) {
	s := regions(2, 2)
	s.spec.Clusters[1].Pods[0].Options.MaxAdapters = 2
	p := s.policy(t, "random")
	r := prompt(1, 100, 1)
	r.Adapter = "support"
	for range 20 {
		if got := p.Route(r, s.view).Cluster; got != 1 {
			t.Fatalf("goes to %d, which has no slots", got)
		}
	}
	r.Adapter = ""
	r.Model = ""
	if got := p.Route(r, s.view).Cluster; got < 0 {
		t.Error("a request that names no model finds none")
	}
	r.Model = "other"
	if got := p.Route(r, s.view); got.Cluster != -1 || got.Code != "no_target" {
		t.Errorf("a model that nobody has: %+v", got)
	}
}

func TestResidency(t *testing.T) {
	s := regions(2, 2, 2)
	s.spec.Tenants = []world.Tenant{{ID: "hospital", Residency: []string{"eu"}}, {ID: "bank", Residency: []string{"r2", "us"}}, {ID: "shop"}}
	for _, c := range []struct {
		tenant  string
		options Options
		want    [3]bool
	}{
		{"hospital", Options{}, [3]bool{false, true, false}},
		{"bank", Options{}, [3]bool{true, false, true}},
		{"shop", Options{}, [3]bool{true, true, true}},
		{"", Options{}, [3]bool{true, true, true}},
		{"hospital", Options{NoResidency: true}, [3]bool{true, true, true}},
	} {
		p, err := New("random", c.options)
		if err != nil {
			t.Fatal(err)
		}
		p.Start(s.spec)
		var got [3]bool
		for i := range uint64(200) {
			r := prompt(i, 100, i)
			r.Tenant = fleet.TenantID(c.tenant)
			got[p.Route(r, s.view).Cluster] = true
		}
		if got != c.want {
			t.Errorf("%s with %+v is served in %v, want %v", c.tenant, c.options, got, c.want)
		}
	}
}
