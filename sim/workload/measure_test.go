package workload

import (
	"math"
	"reflect"
	"testing"
	"time"

	"anabranch/api/fleet"
)

// listed is a source of given requests.
type listed struct {
	list []Request
	done []uint64
}

func (l *listed) Next() (Request, bool) {
	if len(l.list) == 0 {
		return Request{}, false
	}
	r := l.list[0]
	l.list = l.list[1:]
	return r, true
}
func (l *listed) Done(id uint64, _ time.Duration, _ bool) { l.done = append(l.done, id) }
func (l *listed) Ended() bool                             { return len(l.list) == 0 }

func TestMeasure(t *testing.T) {
	l := &listed{list: []Request{
		{ID: 1, At: 0, Region: "us", Tenant: "acme", Model: "m", PromptTokens: 64, OutputTokens: 10, Blocks: []uint64{1, 2, 3}},
		{ID: 2, At: time.Second, Region: "us", Tenant: "acme", Model: "m", PromptTokens: 64, OutputTokens: 20, Blocks: []uint64{1, 2, 4}, Session: 7},
		{ID: 3, At: 4 * time.Second, Region: "eu", Tenant: "acme", Model: "m", Adapter: "lora", PromptTokens: 32, OutputTokens: 30, Blocks: []uint64{1, 2}, Session: 7},
		{ID: 4, At: 4 * time.Second, Region: "us", Tenant: "globex", Model: "m", PromptTokens: 40, OutputTokens: 40, Blocks: []uint64{9, 2}},
	}}
	st, err := Measure(l, 100, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if len(l.done) == 0 || l.done[0] != 1 {
		t.Errorf("answered %v", l.done)
	}
	// Gaps are 1, 3 and 0 s. Two blocks are found again: not those of another adapter, nor 2 behind 9.
	want := Stats{
		Requests: 4, Span: 4 * time.Second, Rate: 1, CV: math.Sqrt(10.0/3-16.0/9) / (4.0 / 3),
		Prompt: LengthStats{Sum: 200, Mean: 50, P50: 40, P90: 64, P99: 64, Max: 64},
		Output: LengthStats{Sum: 100, Mean: 25, P50: 20, P90: 40, P99: 40, Max: 40},
		Hit:    32.0 / 200, Sessions: 1,
		Regions: []Part{{"us", 3, 168, 70}, {"eu", 1, 32, 30}},
		Tenants: []Part{{"acme", 3, 160, 60}, {"globex", 1, 40, 40}},
		Models:  []Part{{"m", 3, 168, 70}, {"m/lora", 1, 32, 30}},
	}
	if math.Abs(st.CV-want.CV) < 1e-12 {
		st.CV = want.CV
	}
	if !reflect.DeepEqual(st, want) {
		t.Errorf("got  %+v\nwant %+v", st, want)
	}
}

func TestMeasureOfLittle(t *testing.T) {
	if st, err := Measure(&listed{}, 10, 0); err != nil || !reflect.DeepEqual(st, Stats{}) {
		t.Errorf("nothing measures %+v, %v", st, err)
	}
	st, _ := Measure(&listed{list: []Request{{ID: 1, At: 0, PromptTokens: 5, OutputTokens: 1}}}, 10, 0)
	if st.Requests != 1 || st.Rate != 0 || st.CV != 0 || st.Regions != nil {
		t.Errorf("one request measures %+v", st)
	}
}

func TestMeasureStopsInTime(t *testing.T) {
	st, err := Measure(start(t, Uniform{}), 50, 0)
	if err != nil || st.Requests != 50 {
		t.Errorf("%d requests, %v", st.Requests, err)
	}
	st, _ = Measure(start(t, SharedPrefix{Traffic: Traffic{Arrivals: Arrivals{Clients: 10}}}), 1000, time.Second)
	near(t, "the rate of 10 clients with answers of 1 s", st.Rate, 10, 0.02)
}

func TestIdealHitRateOfSharedPrefixes(t *testing.T) {
	spec := SharedPrefix{
		Traffic: Traffic{Requests: 1000}, Prefixes: 10, Prefix: Lengths{Fixed: 1600}, Suffix: Lengths{Fixed: 400},
		Mix: Mix{Models: []Target{{Model: "a"}, {Model: "b", Weight: 2}}, Classes: []Share[fleet.ClassID]{{Value: "bulk"}}},
	}
	st, _ := Measure(start(t, spec), 1e6, 0)
	near(t, "the hit rate", st.Hit, 0.8*990/1000, 1e-9)
	if len(st.Models) != 2 || st.Tenants != nil {
		t.Errorf("models %v, tenants %v", st.Models, st.Tenants)
	}
}
