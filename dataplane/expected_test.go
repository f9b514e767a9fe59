package dataplane

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"anabranch/api/routerpb"
)

// The record of an attempt says what was predicted and from what, who was next, and who was left out
// and why.
func TestARecordExplainsTheChoiceOfAnEndpoint(t *testing.T) {
	dead, busy, a, b := newStub(t, answers), newStub(t, answers), newStub(t, answers), newStub(t, answers)
	dead.Close()
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{dead, busy, a, b}}}, func(pb *routerpb.Table) {
		pb.Classes[0].Ejection.ReprobeMs, pb.Classes[0].Ejection.ReprobeMaxMs = 60_000, 60_000
	})
	w.run()
	n := w.routers[us]
	list := n.places.Cluster("us-a").Endpoints()
	w.eventually("scraped, and the dead one ejected", func() bool {
		out, _ := list[0].Ejected()
		return out && list[1].Signals() != nil && list[2].Signals() != nil && list[3].Signals() != nil
	})
	busy.does(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "20")
		http.Error(w, "full", http.StatusTooManyRequests)
	})
	for !list[1].Busy(time.Now()) {
		w.ask(us, "acme", askWhole)
	}
	rec := w.record(us, w.ask(us, "acme", askStream))
	last := rec.Attempts[len(rec.Attempts)-1]
	if last.Kind != "first" || last.Among != 2 || last.Expected == nil || last.PredictedMs <= 0 {
		t.Fatalf("attempt %+v", last)
	}
	x := last.Expected
	if sum := x.WaitMs + x.PrefillMs + x.AdapterMs + x.KVMs; sum < last.PredictedMs*0.99 || sum > last.PredictedMs*1.01 {
		t.Errorf("the parts %+v sum to %v, predicted are %v ms", x, sum, last.PredictedMs)
	}
	if x.SignalAgeMs < 0 || last.RunnerUp == "" || last.RunnerUp == last.Endpoint || last.RunnerUpMs <= 0 {
		t.Errorf("signals %d ms old, next best %q at %v ms", x.SignalAgeMs, last.RunnerUp, last.RunnerUpMs)
	}
	if len(last.Skipped) != 2 || last.Skipped[0].Endpoint != "e1" || !strings.HasPrefix(last.Skipped[0].Reason, "ejected: ") ||
		last.Skipped[1] != (Skip{"e2", "busy"}) {
		t.Errorf("skipped %v", last.Skipped)
	}
	if c := rec.Candidates[0]; c.SignalAgeMs < 0 || c.Cluster != "us-a" {
		t.Errorf("candidate %+v", c)
	}
}

// Nothing of the prompt, the answer, or a key is in what a router remembers, shows or logs.
func TestARecordHoldsNoText(t *testing.T) {
	w, _ := one(t)
	const secret = "xyzzy plugh" //nolint:gosec // no credential
	body := `{"model":"llama","stream":true,"user":"` + secret + `","prompt_cache_key":"` + secret + `","messages":[{"role":"user","content":"` + secret + `"}]}`
	rec := w.record(us, w.ask(us, "acme", body, "X-Anabranch-Session", secret))
	text, err := json.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	for _, no := range []string{"xyzzy", "acme-key", "tok"} {
		if strings.Contains(string(text), `"`+no) {
			t.Errorf("%s is in the record %s", no, text)
		}
	}
}
