package dataplane

import (
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"anabranch/api/routerpb"
)

// work is what a cluster does for a request, as its model servers would tell it.
type work struct {
	at            string
	input, output int64 // estimated: what the router took it for, or counted
	guessed       bool  // the input is, and the output too if nobody counts it
	uncounted     bool  // the output is counted by the router
	answered      bool  // the client has its whole answer from there
	far           bool  // the answer comes from another region
}

// works is what clusters do in each of the finales. What is missing does nothing.
func works() map[string][]work {
	whole := []work{{at: "us-a", input: 11, output: 3, answered: true}}
	prompt := work{at: "us-a", input: estimated, guessed: true}
	return map[string][]work{
		"a stream that is whole":                  whole,
		"an answer that is whole":                 whole,
		"its router drains":                       whole,
		"one more than its quota":                 whole,
		"a stream of which nobody counts tokens":  {{at: "us-a", input: estimated, output: 2, guessed: true, uncounted: true, answered: true}},
		"an answer of which nobody counts tokens": {{at: "us-a", input: estimated, output: 4, guessed: true, uncounted: true, answered: true}},
		"failed at first":                         {{at: "us-b", input: 11, output: 3, answered: true}},
		"cut off before content":                  {prompt},
		"broken off in the middle":                {{at: "us-a", input: estimated, output: 2, guessed: true, uncounted: true}},
		"broken off after it counted":             {{at: "us-a", input: 11, output: 7}},
		"its client leaves before its first token": {
			prompt,
		},
		"its client leaves in the middle": {{at: "us-a", input: estimated, output: 2, guessed: true, uncounted: true}},
		"a copy of it is sooner":          {prompt, {at: "us-b", input: 11, output: 3, answered: true}},
		"continued elsewhere": {
			{at: "us-a", input: estimated, output: 2, guessed: true, uncounted: true}, {at: "us-b", input: 13, output: 3, answered: true},
		},
		"served by another region":                    {{at: "eu-a", input: 11, output: 3, answered: true, far: true}},
		"longer than was set aside":                   {{at: "us-a", input: estimated, output: 500, guessed: true, uncounted: true, answered: true}},
		"longer than its quota, which lets it finish": {{at: "us-a", input: estimated, output: 500, guessed: true, uncounted: true, answered: true}},
		"longer than its quota, which cuts it":        {{at: "us-a", input: estimated, output: estimated, guessed: true, uncounted: true}},
	}
}

// used gathers what a router counted, by cluster and tenant.
func (w *world) used(region string) map[[2]string]*routerpb.UsageLine {
	w.t.Helper()
	out := map[[2]string]*routerpb.UsageLine{}
	for _, m := range w.routers[region].Usage().TakeUsage(time.Now(), true) {
		for _, l := range m.GetLines() {
			if l.GetModel() != "llama" || l.GetClass() != "interactive" {
				w.t.Errorf("line %v", l)
			}
			k := [2]string{l.GetCluster(), l.GetTenant()}
			sum := out[k]
			if sum == nil {
				out[k] = l
				continue
			}
			sum.Input, sum.Cached, sum.Output = sum.Input+l.Input, sum.Cached+l.Cached, sum.Output+l.Output
			sum.Succeeded, sum.Failed, sum.Bytes, sum.Estimated = sum.Succeeded+l.Succeeded, sum.Failed+l.Failed, sum.Bytes+l.Bytes, sum.Estimated+l.Estimated
		}
	}
	return out
}

// accounts compares what the router that the client asked has counted to what clusters did, and to what is
// charged: a request is one in the account just if it is one for quotas, and is no failure by its client's doing.
func (w *world) accounts(e *finale, rec *Record, want []work) {
	w.t.Helper()
	got := w.used(us)
	var requests int64
	for _, l := range got {
		requests += l.GetSucceeded() + l.GetFailed()
	}
	counted := e.requests
	if !rec.fault() && !slices.ContainsFunc(want, func(c work) bool { return c.answered }) {
		counted = 0
	}
	if requests != counted {
		w.t.Errorf("%d requests are in the account, and want %d: %d are charged; %d %s", requests, counted, e.requests, rec.Status, rec.Code)
	}
	for _, c := range want {
		k := [2]string{c.at, "globex"}
		l := got[k]
		delete(got, k)
		var guessed, answers int64
		if c.input == estimated {
			c.input = rec.PromptTokens
		}
		if c.output == estimated {
			c.output = rec.Usage.Completion
		}
		if c.guessed {
			guessed += c.input
		}
		if c.uncounted {
			guessed += c.output
		}
		if c.answered {
			answers = 1
		}
		if l.GetInput() != c.input || l.GetOutput() != c.output || l.GetEstimated() != guessed || l.GetSucceeded() != answers || l.GetBytes() > 0 != c.far {
			w.t.Errorf("%s did %+v (of it %d guessed), and the account says %v", c.at, c, guessed, l)
		}
	}
	for k, l := range got { // they did nothing, but may have had the last word
		if l.GetInput()+l.GetOutput()+l.GetSucceeded()+l.GetBytes() != 0 {
			w.t.Errorf("the account says of %s %v", k[0], l)
		}
	}
	for region := range w.routers {
		if other := w.used(region); len(other) > 0 {
			w.t.Errorf("the router of %s counts %v", region, other)
		}
	}
}

func TestEachEndingIsInTheAccount(t *testing.T) {
	all := finales()
	for name := range works() {
		if _, ok := all[name]; !ok {
			t.Errorf("%q is no ending", name)
		}
	}
}

// Copies that policy wants are work without an answer, and no tenant's.
func TestCopiesAreNobodys(t *testing.T) {
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, answers)}},
		{id: "us-b", region: us, weight: 0, endpoints: []*stub{newStub(t, sends(role, content, finish, `data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":1}}`+"\n\n", done))}},
	}, func(pb *routerpb.Table) {
		pb.Rules = []*routerpb.Rule{{Id: "r", Class: "interactive", Shadow: &routerpb.Shadow{Share: 1, Clusters: []string{"us-b"}}}}
	})
	stop := w.run()
	if r := w.ask(us, "acme", askStream); r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	w.eventually("the copy", func() bool {
		return w.sites[1].endpoints[0].requests.Load() == 1 && w.routers[us].shadows.underWay() == 0
	})
	w.idle()
	stop()
	got := w.used(us)
	own, copied := got[[2]string{"us-a", "acme"}], got[[2]string{"us-b", ""}]
	if own.GetInput() != 11 || own.GetOutput() != 3 || own.GetSucceeded() != 1 {
		t.Errorf("the request: %v", own)
	}
	if copied.GetInput() != 12 || copied.GetOutput() != 1 || copied.GetSucceeded()+copied.GetFailed() != 0 || len(got) != 2 {
		t.Errorf("the copy: %v of %v", copied, slices.Collect(maps.Keys(got)))
	}
}

// A place that is left for its silence has read the prompt; one that a peer says to have been silent has,
// too, and its answer's bytes crossed no border.
func TestWhatSilentPlacesReadIsInTheAccount(t *testing.T) {
	w := newWorld(t, []site{
		{id: "eu-a", region: eu, weight: 1, endpoints: []*stub{newStub(t, hangs)}},
		{id: "us-a", region: us, weight: 0.001, endpoints: []*stub{newStub(t, answers)}},
	}, func(pb *routerpb.Table) {
		pb.Classes[0].FirstByteFloorMs, pb.Classes[0].FirstByteDeadlineMs = 1500, 1500
	})
	r := w.ask(us, "acme", askStream)
	w.idle()
	rec := w.record(us, r)
	got := w.used(us)
	silent, answered := got[[2]string{"eu-a", "acme"}], got[[2]string{"us-a", "acme"}]
	if silent.GetInput() != rec.PromptTokens || silent.GetEstimated() != rec.PromptTokens || silent.GetOutput()+silent.GetFailed()+silent.GetBytes() != 0 {
		t.Errorf("the silent place: %v of a prompt of %d, %+v", silent, rec.PromptTokens, rec.Attempts)
	}
	if answered.GetInput() != 11 || answered.GetSucceeded() != 1 || answered.GetBytes() != 0 || len(got) != 2 {
		t.Errorf("the other: %v", got)
	}
	if other := w.used(eu); len(other) != 0 {
		t.Errorf("the peer counts %v", other)
	}
}
