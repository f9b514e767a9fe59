package dataplane

import (
	"net/http"
	"testing"
)

// Demand counts answers as long as they are, and quotas reserve what they may become.
func TestDemandIsOfAnswersAsLongAsTheyAre(t *testing.T) {
	long := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
		send(w, content, finish, `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":400}}`+"\n\n", done)
	})
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{long}}}, nil)
	n := w.routers[us]
	m, _, _ := n.tables.Load().Model("llama")
	x := &trip{model: m, output: 256}
	if got := n.answer(x); got != 256 {
		t.Errorf("%d tokens while nothing is known", got)
	}
	for range 5 {
		if r := w.ask(us, "acme", askStream); r.status != http.StatusOK {
			t.Fatalf("%d %q", r.status, r.body)
		}
	}
	w.idle()
	if got := n.answer(x); got != 400 {
		t.Errorf("%d tokens of answers of 400", got)
	}
	x.request.MaxTokens = 50
	if got := n.answer(x); got != 50 {
		t.Errorf("%d tokens where 50 are allowed", got)
	}
	n.places.Report(n.now())
	w.ask(us, "acme", askStream)
	report := n.places.Report(n.now())
	d := report.GetDemand() // of a request that allows 50 tokens
	if len(d) != 1 {
		t.Fatalf("demand %v", d)
	}
	if work := d[0].GetWorkPerS() / d[0].GetRequestsPerS(); work < 50*m.OutputWeight || work > 60*m.OutputWeight {
		t.Errorf("%.0f work units a request", work)
	}
}
