package drill

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/account"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
	"anabranch/failover/drill"
)

// dry is what a dry run on the stage goes by.
func (s *stage) dry() DryInput {
	return DryInput{View: s.view, Signals: s.signals.Snapshot(s.now), Plan: s.input()}
}

// cluster puts one, with more of its spec.
func (s *stage) cluster(name, region, more string) {
	s.t.Helper()
	s.put("Cluster", name, fmt.Sprintf(`{"region":%q,"models":["m"],"endpoints":[{"id":"e","url":"http://%s:1","class":"h100"}]%s}`, region, name, more))
}

// What a drill costs is what work costs beyond what is paid anyway, there and here, for the part that moves.
func TestADryRunTellsWhatMovingCosts(t *testing.T) {
	const owned, bought = `,"gpus":[{"class":"h100","count":8,"purchase":"reserved"}]`, `,"gpus":[{"class":"h100","count":8,"purchase":"on-demand"}]`
	price := func(t *testing.T, us, others string, percent int) int64 {
		t.Helper()
		s := newStage(t)
		s.put("RateCard", "list", `{"gpus":[{"class":"h100","region":"us","usdPerHour":4},{"class":"h100","region":"eu","usdPerHour":4},{"class":"h100","region":"ap","usdPerHour":4}]}`)
		s.cluster("us-a", "us", us)
		s.cluster("eu-a", "eu", others)
		s.cluster("ap-a", "ap", others)
		spec, err := SpecOf(fmt.Appendf(nil, `{"kind":"soft","target":{"region":"us"},"percent":%d,"steps":[{"percent":1},{"percent":100}]}`, percent))
		if err != nil {
			t.Fatal(err)
		}
		found, err := DryRun(t.Context(), s.dry(), spec)
		if err != nil || found.Refused != "" {
			t.Fatalf("%+v, %v", found, err)
		}
		return found.Forecast.MicrosPerMinuteMore
	}
	dearer := price(t, owned, bought, 100)
	// 2,000 of 10,000 units a second are the fifth of eight GPUs at 4 $ an hour.
	if want := 0.2 * 8 * 4 * 1e6 / 60; math.Abs(float64(dearer)-want) > want/100 {
		t.Errorf("to what is paid by use it costs %d µ$ a minute more, want %.0f", dearer, want)
	}
	if half := price(t, owned, bought, 50); math.Abs(float64(half)-float64(dearer)/2) > 1 {
		t.Errorf("half of the scope costs %d, and all of it %d", half, dearer)
	}
	if cheaper := price(t, bought, owned, 100); cheaper != -dearer {
		t.Errorf("to what is paid anyway it costs %d, want %d", cheaper, -dearer)
	}
	if same := price(t, owned, owned, 100); same != 0 {
		t.Errorf("between what is paid anyway it costs %d", same)
	}
}

func TestWhoIsStranded(t *testing.T) {
	for name, c := range map[string]struct {
		residency string
		play      func(s *stage)
		spec      string
		want      string
	}{
		"of the region alone":            {`["us"]`, nil, `{"kind":"soft","target":{"region":"us"}}`, "t/m"},
		"of its zone, where another is":  {`["america"]`, func(s *stage) { s.put("Region", "ca", `{"zone":"america"}`); s.cluster("ca-a", "ca", "") }, `{"kind":"soft","target":{"region":"us"}}`, ""},
		"of its zone, where none is":     {`["america"]`, nil, `{"kind":"soft","target":{"region":"us"}}`, "t/m"},
		"the other one is drained":       {`["us","eu"]`, func(s *stage) { s.cluster("eu-a", "eu", `,"drained":true`) }, `{"kind":"soft","target":{"region":"us"}}`, "t/m"},
		"the other one has other models": {`["us","eu"]`, func(s *stage) { s.put("Model", "n", `{}`); s.other("eu-a", "eu", "n") }, `{"kind":"soft","target":{"region":"us"}}`, "t/m"},
		"of elsewhere":                   {`["eu"]`, nil, `{"kind":"soft","target":{"region":"us"}}`, ""},
		"had nowhere before":             {`["mars"]`, func(s *stage) { s.put("Region", "mars", `{}`) }, `{"kind":"soft","target":{"region":"us"}}`, ""},
		"without a residency":            {`[]`, nil, `{"kind":"soft","target":{"region":"us"}}`, ""},
		"not in the scope":               {`["us"]`, nil, `{"kind":"soft","target":{"region":"us"},"tenants":["acme"]}`, ""},
		"as what is dead":                {`["us"]`, nil, `{"kind":"hard","target":{"cluster":"us-a"}}`, "t/m"},
		"what is brought back":           {`["us"]`, nil, `{"kind":"failback-only","target":{"region":"us"}}`, ""},
		"of the control plane":           {`["us"]`, nil, `{"kind":"control-plane"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.put("Region", "us", `{"peerURLs":["https://us:1"],"zone":"america"}`)
			if c.play != nil {
				c.play(s)
			}
			s.put("Tenant", "t", `{"residency":`+c.residency+`}`)
			spec, err := SpecOf([]byte(c.spec))
			if err != nil {
				t.Fatal(err)
			}
			in := s.dry()
			var got []string
			for _, x := range stranded(in, resolve(in, spec, policy.DrillRulesOf(s.view)), drill.Kind(spec.Kind)) {
				if x.Tenant == "t" {
					got = append(got, string(x.Tenant)+"/"+string(x.Model))
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%v, want %q", got, c.want)
			}
		})
	}
}

// other puts a cluster of another model.
func (s *stage) other(name, region, model string) {
	s.t.Helper()
	s.put("Cluster", name, fmt.Sprintf(`{"region":%q,"models":[%q],"endpoints":[{"id":"e","url":"http://%s:1","class":"h100"}]}`, region, model, name))
}

// The round trip more is held against what the class is owed, by the residency of each tenant, with nothing simulated.
func TestDistanceIsHeldAgainstWhatIsOwed(t *testing.T) {
	s := newStage(t)
	s.put("Region", "us", `{"peerURLs":["https://us:1"],"rttMs":{"eu":80,"ap":170}}`)
	s.put("Region", "eu", `{"peerURLs":["https://eu:1"],"zone":"europe"}`)
	s.put("Tenant", "asian", `{"residency":["us","ap"]}`)
	s.put("Tenant", "european", `{"residency":["us","europe"]}`)
	in := s.dry()
	shares := func(of ...plan.ClusterShare) plan.DemandPicture {
		return plan.DemandPicture{Model: "m", Class: "interactive", Source: "us", Shares: of}
	}
	w := wayfinder{in: in, drilled: []fleet.ClusterID{"us-a"}, regions: map[fleet.RegionID]*policy.RegionSpec{}, objectives: map[fleet.ClassID]float64{"interactive": 100}}
	for _, r := range s.view.List(policy.KindRegion) {
		w.regions[fleet.RegionID(r.Metadata.Name)] = r.Spec.(*policy.RegionSpec)
	}
	home := shares(plan.ClusterShare{Cluster: "us-a", Share: 1})
	for name, c := range map[string]struct {
		then   plan.DemandPicture
		tenant fleet.TenantID
		added  float64
		late   bool
	}{
		"to the nearer one":                   {shares(plan.ClusterShare{Cluster: "eu-a", Share: 1}), "acme", 80, false},
		"to both, half each":                  {shares(plan.ClusterShare{Cluster: "eu-a", Share: 0.5}, plan.ClusterShare{Cluster: "ap-a", Share: 0.5}), "acme", 125, true},
		"to both, and may be at one":          {shares(plan.ClusterShare{Cluster: "eu-a", Share: 0.5}, plan.ClusterShare{Cluster: "ap-a", Share: 0.5}), "european", 80, false},
		"to where it may not be":              {shares(plan.ClusterShare{Cluster: "eu-a", Share: 1}), "asian", 170, true},
		"nowhere, as nothing has room":        {shares(), "acme", 80, false},
		"nowhere that it may be":              {shares(plan.ClusterShare{Cluster: "eu-a", Share: 1}), "euro", 0, false}, // stranded
		"it stays":                            {home, "acme", 80, false},                                                // what is drilled counts for nothing
		"whoever it is that nobody has named": {shares(plan.ClusterShare{Cluster: "ap-a", Share: 1}), "", 170, true},
	} {
		got, late := w.judge(home, c.then, c.tenant)
		if late != c.late || got.AddedMs != c.added || got.Tenant != c.tenant && c.added > 0 {
			t.Errorf("%s: %+v, late %v, want %v more, late %v", name, got, late, c.added, c.late)
		}
	}
	// What first tokens take now is on top of it.
	s.signals.Put(signal.Observation{
		Hello: &routerpb.Hello{RouterId: "r-us", Region: "us"}, Received: s.now, Connected: true, Node: "n1",
		Report: &routerpb.Report{AtUnixMs: s.now.UnixMilli(), WindowMs: 1000, Clusters: []*routerpb.ClusterSignal{{Cluster: "us-a", Model: "m", TtftP95Ms: 30}}},
	})
	w.in = s.dry()
	if got, late := w.judge(home, shares(plan.ClusterShare{Cluster: "eu-a", Share: 1}), "acme"); !late || got.TTFTMs != 110 || got.ObjectiveMs != 100 {
		t.Errorf("30 ms and 80 more: %+v, late %v", got, late)
	}

	// The whole of it: a drill of us by the planner's own ways, for a class that is owed 100 ms.
	s.put("TrafficPolicy", "p", `{"ttftObjectiveMs":100}`)
	out := plan.Compute(s.input())
	s.do("system/leader", &statepb.Command{Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: out.Table, Reasons: out.Reasons}}})
	spec, err := SpecOf([]byte(quick))
	if err != nil {
		t.Fatal(err)
	}
	found, err := DryRun(t.Context(), s.dry(), spec)
	if err != nil || len(found.Forecast.Slower) != 1 || found.Forecast.Slower[0].Source != "us" || found.Forecast.Slower[0].AddedMs < 80 {
		t.Errorf("%+v, %v", found.Forecast.Slower, err)
	}
	spec.Kind = string(drill.ControlPlane)
	spec.Target = policy.DrillTarget{}
	if found, err = DryRun(t.Context(), s.dry(), spec); err != nil || found.Forecast.Slower != nil {
		t.Errorf("of the control plane: %+v, %v", found.Forecast.Slower, err)
	}
}

func TestWhoAsks(t *testing.T) {
	d := plan.DemandPicture{Model: "m", Class: "interactive", Source: "us"}
	elsewhere := d
	elsewhere.Source = "eu"
	known := accounted(t, costmodel.Usage{Input: 10})
	for name, c := range map[string]struct {
		account account.Account
		demand  plan.DemandPicture
		scope   []fleet.TenantID
		want    []fleet.TenantID
	}{
		"who did":                 {known, d, nil, []fleet.TenantID{"acme"}},
		"who did, in the scope":   {known, d, []fleet.TenantID{"acme"}, []fleet.TenantID{"acme"}},
		"who did is not in scope": {known, d, []fleet.TenantID{"globex"}, nil},
		"nobody did there":        {known, elsewhere, nil, nil},
		"nobody knows":            {account.Account{}, d, nil, []fleet.TenantID{""}},
	} {
		if got := askers(c.account, start, c.demand, drill.Resolved{Tenants: c.scope}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
