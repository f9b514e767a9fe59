package dataplane

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestEstimatesAreLearnedFromWhatPlacesCount asks a model whose tokens are two bytes long and whose answers
// have 900 of them.
func TestEstimatesAreLearnedFromWhatPlacesCount(t *testing.T) {
	counts := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":1000,"completion_tokens":900}}`)
	}
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, counts)}},
		{id: "eu-a", region: eu, weight: 0, endpoints: []*stub{newStub(t, counts)}},
	}, nil)
	body := fmt.Sprintf(`{"model":"llama","messages":[{"role":"user","content":%q}]}`, strings.Repeat("四角", 2000/6))
	ask := func(region string) *Record { return w.record(region, w.ask(region, "acme", body)) }
	first := ask(us)
	for range 20 {
		ask(us)
	}
	if last := ask(us); first.PromptTokens > 600 || last.PromptTokens < 950 || last.PromptTokens > 1050 {
		t.Errorf("the prompt was taken for %d tokens at first, and for %d in the end", first.PromptTokens, last.PromptTokens)
	}
	n := w.routers[us]
	if got := n.estimates.Output("acme", "llama", 0, 1); got < 800 || got > 1000 {
		t.Errorf("%d tokens are set aside for an answer", got)
	}
	if got := n.estimates.Output("globex", "llama", 0, 1); got != 256 {
		t.Errorf("%d tokens are set aside for another tenant's", got)
	}
	// Where answers come by way of a peer they are learned from too.
	for range 20 {
		ask(eu)
	}
	if got := ask(eu).PromptTokens; got < 950 || got > 1050 {
		t.Errorf("where it was asked by way of a peer: %d tokens", got)
	}
	// What leaves the table is forgotten.
	w.table.Tenants = w.table.Tenants[1:]
	w.apply()
	if got := n.estimates.Output("acme", "llama", 0, 1); got != 256 {
		t.Errorf("%d tokens are set aside for a tenant that left", got)
	}
}
