package world

import (
	"math"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/sim"
)

func TestSpecsThatAreWrongSayWhere(t *testing.T) {
	t.Parallel()
	event := func(e Event) func(*Spec) { return func(s *Spec) { s.Events = []Event{{Kind: NoLeader}, e} } }
	rtt := func(a, b fleet.RegionID, d time.Duration) func(*Spec) {
		return func(s *Spec) { s.RTT[[2]fleet.RegionID{a, b}] = d }
	}
	pods := func(p Pods) func(*Spec) { return func(s *Spec) { s.Clusters[1].Pods = []Pods{p} } }
	for want, change := range map[string]func(*Spec){
		"":                             func(*Spec) {},
		"regions: there are none":      func(s *Spec) { s.Regions = nil },
		"regions[1].id is empty":       func(s *Spec) { s.Regions[1].ID = "" },
		"regions[2].id: us-east-1 is":  func(s *Spec) { s.Regions[2].ID = "us-east-1" },
		"regions[0].routers: -1":       func(s *Spec) { s.Regions[0].Routers = -1 },
		"regions[1].routers: more":     func(s *Spec) { s.Regions[1].Routers = 1000 },
		"models: there are none":       func(s *Spec) { s.Models = nil },
		"models[0].id is empty":        func(s *Spec) { s.Models[0].ID = "" },
		"models[1].id: llama-3.1-8b":   func(s *Spec) { s.Models = append(s.Models, s.Models[0]) },
		"models[0].outputWeight: NaN":  func(s *Spec) { s.Models[0].OutputWeight = math.NaN() },
		"models[0]: the objectives":    func(s *Spec) { s.Models[0].FirstToken = -1 },
		"clusters: there are none":     func(s *Spec) { s.Clusters = nil },
		"clusters[0].id":               func(s *Spec) { s.Clusters[0].ID = "A" },
		"clusters[1].id: us-east-1":    func(s *Spec) { s.Clusters[1].ID = "us-east-1" },
		`clusters[0].region: "x"`:      func(s *Spec) { s.Clusters[0].Region = "x" },
		`clusters[0].model: "x"`:       func(s *Spec) { s.Clusters[0].Model = "x" },
		"clusters[0].pods: 0 pods":     func(s *Spec) { s.Clusters[0].Pods = nil },
		"clusters[1].pods[0].count":    pods(Pods{Class: "h100", Count: -1}),
		"clusters[1].pods: 0 pods":     pods(Pods{Class: "h100"}),
		"clusters[1].pods[0].priceMic": pods(Pods{Class: "h100", Count: 1, PriceMicroUSD: -1}),
		"clusters[1].pods[0].options":  pods(Pods{Class: "h100", Count: 1, Options: sim.Options{StartUp: -1}}),
		"clusters[1].pods[0].class: G": pods(Pods{Class: "k80", Count: 1}),
		"tenants[0].id is empty":       func(s *Spec) { s.Tenants = []Tenant{{}} },
		"tenants[1].id: a is":          func(s *Spec) { s.Tenants = []Tenant{{ID: "a"}, {ID: "a"}} },
		`tenants[0].residency: "mars"`: func(s *Spec) { s.Tenants = []Tenant{{ID: "a", Residency: []string{"eu", "mars"}}} },
		`tenants[0].residency: ""`:     func(s *Spec) { s.Tenants = []Tenant{{ID: "a", Residency: []string{""}}} },
		`quotas[0].tenant: "" is not`:  func(s *Spec) { s.Quotas = []Quota{{Tokens: 1}} },
		`quotas[0].tenant: "a" is not`: func(s *Spec) { s.Quotas = []Quota{{Tenant: "a", Tokens: 1}} },
		"quotas[0].tokens: 0":          func(s *Spec) { s.Tenants, s.Quotas = []Tenant{{ID: "a"}}, []Quota{{Tenant: "a"}} },
		"quotas[0].tokens: 90000000000": func(s *Spec) {
			s.Tenants, s.Quotas = []Tenant{{ID: "a"}}, []Quota{{Tenant: "a", Tokens: 90_000_000_000}}
		},
		"quotas[0].burst: -1": func(s *Spec) {
			s.Tenants, s.Quotas = []Tenant{{ID: "a"}}, []Quota{{Tenant: "a", Tokens: 1, Burst: -1}}
		},
		`rtt: "mars" is not`:                         rtt("mars", "us-east-1", ms),
		"rtt between eu-west-1 and us-east-1: 0s":    rtt("eu-west-1", "us-east-1", 0),
		"rtt between eu-west-1 and us-east-1: 2m0s":  rtt("eu-west-1", "us-east-1", 2*time.Minute),
		"one way round":                              rtt("eu-west-1", "us-east-1", time.Second),
		"jitter: NaN":                                func(s *Spec) { s.Jitter = math.NaN() },
		"scrape.interval: 1ns":                       func(s *Spec) { s.Scrape.Interval = 1 },
		"tell.interval: -1ns":                        func(s *Spec) { s.Tell.Interval = -1 },
		"tell.delay: -1ns":                           func(s *Spec) { s.Tell.Delay = -1 },
		"scrape.loss: 1.5":                           func(s *Spec) { s.Scrape.Loss = 1.5 },
		"timeout: -1ns":                              func(s *Spec) { s.Timeout = -1 },
		"warmup: -1ns":                               func(s *Spec) { s.Warmup = -1 },
		"duration: -1ns":                             func(s *Spec) { s.Duration = -1 },
		"warmup: 2s is no less":                      func(s *Spec) { s.Warmup, s.Duration = 2*time.Second, 2*time.Second },
		"events[1] (flood at 0s): kind":              event(Event{Kind: "flood"}),
		"events[1] (no-leader at -1ns): at":          event(Event{Kind: NoLeader, At: -1}),
		"events[1] (lost at 0s): region, cluster":    event(Event{Kind: Lost}),
		"events[1] (price at 0s): region, cluster":   event(Event{Kind: Price, Region: "us-east-1", Cluster: "us-east-1", Factor: 2}),
		`events[1] (hang at 0s): region: "us`:        event(Event{Kind: Hang, Region: "us-east-1"}),
		`events[1] (partition at 0s): cluster: "us`:  event(Event{Kind: Partition, Cluster: "us-east-1"}),
		`events[1] (blackout at 0s): cluster: "x"`:   event(Event{Kind: Blackout, Cluster: "x"}),
		"events[1] (pod-loss at 0s): pod: 2":         event(Event{Kind: PodLoss, Cluster: "us-east-1", Pod: 2}),
		"events[1] (pod-loss at 0s): pod: -1":        event(Event{Kind: PodLoss, Cluster: "us-east-1", Pod: -1}),
		"events[1] (slow at 0s): pod: -2":            event(Event{Kind: Slow, Cluster: "us-east-1", Pod: -2, Factor: 2}),
		"events[1] (slow at 0s): factor: 0":          event(Event{Kind: Slow, Cluster: "us-east-1", Pod: -1}),
		"events[1] (price at 0s): factor: 1001":      event(Event{Kind: Price, Cluster: "us-east-1", Factor: 1001}),
		"events[1] (scale-out at 0s): count: -1":     event(Event{Kind: ScaleOut, Cluster: "us-east-1", Count: -1}),
		"events[1] (scale-in at 0s): region, cluste": event(Event{Kind: ScaleIn}),
	} {
		s := three(2)
		change(s)
		err := s.Validate()
		switch {
		case want == "" && err == nil:
		case err == nil || !strings.HasPrefix(err.Error(), want) && !strings.Contains(err.Error(), want) || want == "":
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestDefaultsAreFilledIn(t *testing.T) {
	t.Parallel()
	s := three(2)
	s.Models[0] = Model{ID: "ours", Profile: "llama-3.1-8b"}
	for i := range s.Clusters {
		s.Clusters[i].Model = "ours"
	}
	own, _ := sim.Lookup("l40s", "llama-3.1-8b")
	s.Clusters[2].Pods[0] = Pods{Count: 1, Options: sim.Options{Profile: own}}
	s.Regions[2].Zone = ""
	s.Events = []Event{{Kind: ScaleOut, Cluster: "us-east-1"}}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	d := s.WithDefaults()
	if d.Regions[0].Routers != 1 || d.Regions[2].Zone != "ap-northeast-1" || d.Events[0].Count != 1 || d.Timeout != time.Minute ||
		d.Scrape.Interval != 50*ms || d.Tell.Interval != time.Second {
		t.Errorf("%+v", d)
	}
	if m := d.Models[0]; m.OutputWeight != 3 || m.FirstToken != 2*time.Second || m.InterToken != 100*ms {
		t.Errorf("%+v", m)
	}
	if p := d.Clusters[0].Pods[0]; p.Options.Profile.Class != "h100" || p.Options.Profile.Model != "llama-3.1-8b" || p.Class != "h100" {
		t.Errorf("%+v", p)
	}
	if p := d.Clusters[2].Pods[0]; p.Options.Profile != own || p.Class != "l40s" {
		t.Errorf("%+v", p)
	}
	if s.Regions[0].Routers != 0 || s.Models[0].OutputWeight != 0 || s.Clusters[0].Pods[0].Options.Profile.Class != "" || s.Events[0].Count != 0 {
		t.Errorf("the original has changed: %+v", s)
	}
	if again := d.WithDefaults(); again.Timeout != d.Timeout || again.Clusters[0].Pods[0] != d.Clusters[0].Pods[0] {
		t.Errorf("defaults of defaults differ: %+v", again)
	}
}

func TestDistancesAndResidency(t *testing.T) {
	t.Parallel()
	s := three(1)
	s.Regions = append(s.Regions, Region{ID: "sa-east-1"})
	for _, c := range []struct {
		a, b fleet.RegionID
		want time.Duration
	}{
		{"us-east-1", "us-east-1", LocalRTT}, {"us-east-1", "eu-west-1", 68 * ms}, {"eu-west-1", "us-east-1", 68 * ms}, {"sa-east-1", "eu-west-1", DefaultRTT},
	} {
		if got := s.Between(c.a, c.b); got != c.want {
			t.Errorf("%s to %s is %v, want %v", c.a, c.b, got, c.want)
		}
	}
	for _, c := range []struct {
		residency string
		region    int
		want      bool
	}{
		{"", 0, true}, {"eu", 0, false}, {"eu", 1, true}, {"eu us-east-1", 0, true}, {"sa-east-1", 3, true}, {"us", 3, false},
	} {
		if got := s.May(strings.Fields(c.residency), c.region); got != c.want {
			t.Errorf("%q may be served in %s: %v", c.residency, s.Regions[c.region].ID, got)
		}
	}
	if got := s.RegionOf(2); got != 2 {
		t.Errorf("the region of cluster 2 is %d", got)
	}
}
