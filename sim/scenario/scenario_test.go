package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
)

// small is a document that is right.
const small = `
name: small
about: Two pods and some prompts.
fleet:
  regions: [{id: us-east-1, zone: us}, {id: eu-west-1}]
  models: [{id: llama-3.1-8b}]
  clusters:
    - {id: us-a, region: us-east-1, model: llama-3.1-8b, pods: [{class: h100, count: 2, kvTokens: 32000, startUp: 20s, price: 6.88}]}
  events:
    - {at: 10s, for: 5s, kind: lost, cluster: us-a}
workload:
  - kind: uniform
    traffic: {arrivals: {rate: 5}, regions: [{region: us-east-1}], requests: 50}
    mix: {models: [{model: llama-3.1-8b}]}
    prompt: {fixed: 600}
vary:
  - name: slow
    set: {workload.0.traffic.arrivals.rate: 1}
  - name: fast
    set: {workload.0.traffic.arrivals.rate: 50, fleet.timeout: 30s}
    policies: [random]
expect:
  - {in: slow, that: ours.ends.failed == 0, why: nobody is in a hurry}
`

func parse(t *testing.T, doc string) *Scenario {
	t.Helper()
	s, err := Parse(strings.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestADocumentBecomesAFleet(t *testing.T) {
	s := parse(t, small)
	spec, err := s.Fleet.spec(s.Name)
	if err != nil {
		t.Fatal(err)
	}
	pods := spec.Clusters[0].Pods[0]
	if pods.Count != 2 || pods.Options.Blocks != 2000 || pods.Options.StartUp != 20*time.Second || pods.PriceMicroUSD != 6_880_000 {
		t.Errorf("pods %+v", pods)
	}
	if rtt := spec.RTT[[2]fleet.RegionID{"us-east-1", "eu-west-1"}]; rtt != 70*time.Millisecond {
		t.Errorf("round trip %s, want what is known of AWS", rtt)
	}
	if e := spec.Events[0]; e.At != 10*time.Second || e.For != 5*time.Second || e.Cluster != "us-a" {
		t.Errorf("event %+v", e)
	}
	if s.Seeds != 5 || s.Baseline != "random" {
		t.Errorf("%d seeds, baseline %s", s.Seeds, s.Baseline)
	}
}

func TestARoundTripOfTheDocumentCountsEitherWayRound(t *testing.T) {
	s := parse(t, strings.Replace(small, "  events:", "  rtt: {eu-west-1 us-east-1: 90ms}\n  events:", 1))
	spec, err := s.Fleet.spec(s.Name)
	if err != nil {
		t.Fatal(err)
	}
	if len(spec.RTT) != 1 || spec.RTT[[2]fleet.RegionID{"eu-west-1", "us-east-1"}] != 90*time.Millisecond {
		t.Errorf("%v", spec.RTT)
	}
}

func TestAVariantChangesWhatItSaysAndNothingElse(t *testing.T) {
	s := parse(t, small)
	rate := func(s *Scenario) (string, time.Duration, []string) {
		return child(child(child(&s.Workload[0], "traffic"), "arrivals"), "rate").Value, s.Fleet.Timeout, s.Policies
	}
	for name, want := range map[string]string{"": "5", "slow": "1", "fast": "50"} {
		v, err := s.Variant(name)
		if err != nil {
			t.Fatal(err)
		}
		got, timeout, policies := rate(v)
		if got != want || (timeout == 30*time.Second) != (name == "fast") || (len(policies) == 1) != (name == "fast") {
			t.Errorf("variant %q: rate %s, time-out %s, policies %v", name, got, timeout, policies)
		}
	}
	if got := s.Variants(); len(got) != 2 {
		t.Errorf("variants %v", got)
	}
}

func TestTheSameSeedIsTheSameWorkload(t *testing.T) {
	s := parse(t, small)
	draw := func(seed uint64) (at []time.Duration) {
		src, err := s.source(seed, &Options{})
		if err != nil {
			t.Fatal(err)
		}
		for {
			r, ok := src.Next()
			if !ok {
				return at
			}
			if r.PromptTokens != 600 || r.Region != "us-east-1" {
				t.Fatalf("%+v", r)
			}
			at = append(at, r.At)
		}
	}
	a, b, c := draw(1), draw(1), draw(2)
	if len(a) != 50 || len(c) != 50 {
		t.Fatalf("%d and %d requests", len(a), len(c))
	}
	same := 0
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("request %d at %s and %s", i, a[i], b[i])
		}
		if a[i] == c[i] {
			same++
		}
	}
	if same == len(a) {
		t.Error("another seed made no difference")
	}
}

// TestMistakesAreNamed: each change to the document is answered by what is wrong, and where.
func TestMistakesAreNamed(t *testing.T) {
	for _, tt := range []struct{ name, old, new, want string }{
		{"unknown field", "count: 2", "cuont: 2", `line 8: fleet.clusters[0].pods[0] has no field "cuont"; it has adapters, batch`},
		{"unknown field of the workload", "rate: 5", "rats: 5", `has no field "rats"; it has burst`},
		{"a field twice", "count: 2", "count: 2, COUNT: 3", `has "count" twice`},
		{"no number", "count: 2", "count: many", "is not what is wanted here"},
		{"no duration", "at: 10s", "at: soon", "is not what is wanted here"},
		{"unknown kind", "kind: uniform", "kind: odd", `kind: there is no "odd"; there are`},
		{"no kind", "kind: uniform\n    traffic", "traffic", "kind: say which"},
		{"workload's own check", "rate: 5", "rate: -5", "workload[0]"},
		{"name", "name: small", "name: Small One", "name:"},
		{"about", "about: Two pods and some prompts.", "about: ''", "about:"},
		{"seeds", "name: small", "name: small\nseeds: 5000", "seeds: 5000 is not 1 to 1000"},
		{"policy", "policies: [random]", "policies: [magic]", `variant fast: policies[0]: there is no policy "magic"; there are`},
		{"variant twice", "name: slow", "name: fast", `vary[1].name: "fast" is there twice`},
		{"variant's path", "workload.0.traffic.arrivals.rate: 1}", "workload.1.rate: 1}", `variant slow: line 18: workload.1.rate leads nowhere: there is no "1"`},
		{"variant's field", "workload.0.traffic.arrivals.rate: 1}", "fleet.speed: 1}", `fleet has no field "speed"`},
		{"check's variant", "in: slow", "in: snail", `expect[0]: in: there is no variant "snail"; there are slow, fast`},
		{"check", "ours.ends.failed == 0", "ours.ends.failed", "expect[0]: that:"},
		{"pair", "  events:", "  rtt: {us-east-1: 5ms}\n  events:", "rtt: \"us-east-1\" is not two regions"},
		{"anchor", "regions: [{id: us-east-1", "regions: &x [{id: us-east-1", "uses an anchor"},
		{"merge", "about: Two", "<<: {}\nabout: Two", "uses a merge key"},
		{"two documents", "name: small", "---\nname: x\n---\nname: small", "more than one document"},
		{"no end", ", requests: 50", "", "traffic: it never ends"},
		{"endless", "requests: 50", "requests: 1000000000", "requests: 1000000000 is more than 10000000"},
		{"batch", "count: 2", "count: 2, batch: -4", "fleet: clusters[0].pods[0].batch: -4 is not 0 to"},
		{"step", "count: 2", "count: 2, batchTokens: -1", "batchTokens: -1 is not"},
		{"adapters", "count: 2", "count: 2, adapters: 9999999999", "adapters: 9999999999 is not"},
		{"no cache", "kvTokens: 32000", "kvTokens: 1", "kvTokens: 1 is less than a block"},
		{"price below 0", "price: 6.88", "price: -1", "price: -1 is not 0 to 1000000 dollars an hour"},
		{"price of infinity", "price: 6.88", "price: .inf", "price: +Inf is not"},
		{"price of nothing", "price: 6.88", "price: .nan", "price: NaN is not"},
		{"policy twice", "policies: [random]", "policies: [random, ours, random]", "variant fast: policies: random is there twice"},
		{"check's policy", "ours.ends.failed == 0", "our.ends.failed == 0", `expect[0]: that: there is no policy "our"; there are ours`},
		{"check's rivals", "ours.ends.failed == 0", "ours.ends.failed <= best(spil).ends.failed", `there is no policy "spil"`},
		{"quota of nobody", "  events:", "  quotas: [{tenant: acme, tokens: 5}]\n  events:", `quotas[0].tenant: "acme" is not among tenants`},
		{"interval", "name: small", "name: small\ninterval: -5s", "interval: -5s is below 0"},
		{"search of nothing", "name: small", "name: small\nsearch: [random]", "search: random has no parameters"},
		{"full's field", "name: small", "name: small\nfull: {fleet.speed: 1}", `full: line 3: fleet has no field "speed"`},
		{"full's own check", "name: small", "name: small\nfull: {workload.0.traffic.requests: -5}", "full: workload[0]: traffic: requests: is -5"},
		{"no YAML", "name: small", "name: [", "line"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			doc := strings.Replace(small, tt.old, tt.new, 1)
			if doc == small {
				t.Fatal("the document has no such text")
			}
			if _, err := Parse(strings.NewReader(doc)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v\nwant %q", err, tt.want)
			}
		})
	}
	for doc, want := range map[string]string{"": "is empty", "- a\n": "is no mapping", strings.Repeat("#", MaxBytes+1): "is longer than"} {
		if _, err := Parse(strings.NewReader(doc)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", doc, err, want)
		}
	}
}

// TestOptionsThatCannotBe: whoever asks for a run, a source or an explanation hears the same.
func TestOptionsThatCannotBe(t *testing.T) {
	s := parse(t, small)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]Options{
		"seeds: -1 is not 1 to 1000":   {Seeds: -1},
		"seeds: 1001 is not 1 to 1000": {Seeds: 1001},
		"parallel: -2 is below 0":      {Parallel: -2},
		"requests: -3 is below 0":      {Requests: -3},
		"ours is asked for twice":      {Policies: []string{"ours", "random", "ours"}},
		"slow is asked for twice":      {Variants: []string{"slow", "slow"}},
		"folder of traces: stat":       {Traces: file + "s"},
		"is no folder":                 {Traces: file},
	} {
		if _, err := s.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("run: %v, want %q", err, want)
		}
		if _, err := s.Source("slow", 1, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("source: %v, want %q", err, want)
		}
	}
	s.Vary = nil
	if _, err := s.Variant("slow"); err == nil || !strings.Contains(err.Error(), "small has none") {
		t.Errorf("%v, want that it has none", err)
	}
}

func TestChecksAreAboutTheirVariants(t *testing.T) {
	for _, tt := range []struct {
		in, variant string
		want        bool
	}{
		{"", "slow", true},
		{"", "", true},
		{"slow", "slow", true},
		{"slow", "fast", false},
		{"load-85*", "load-85-news-5s", true},
		{"load-85*", "load-68-news-5s", false},
	} {
		if got := (Check{In: tt.in}).in(tt.variant); got != tt.want {
			t.Errorf("in %q of %q: %v", tt.in, tt.variant, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(small)
	f.Add("name: a\nabout: b\nworkload: [{kind: uniform}]\nvary: [{name: x, set: {a.b: 1}}]")
	f.Fuzz(func(t *testing.T, doc string) {
		s, err := Parse(strings.NewReader(doc))
		if err != nil {
			return
		}
		for _, name := range s.Variants() {
			if _, err := s.Variant(name); err != nil {
				t.Errorf("a document that was taken has a variant that is not: %v", err)
			}
		}
	})
}
