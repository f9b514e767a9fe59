package dataplane

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/meter"
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

// TestNoMoreThanAPartOfALimitIsSetAside: where answers are longer than limits have room for, a request that
// passed while nothing was known must not be one that can never pass.
func TestNoMoreThanAPartOfALimitIsSetAside(t *testing.T) {
	for name, c := range map[string]struct {
		kind       string
		burst      int64
		max, n     int64
		tenant     fleet.TenantID
		low, high  int64
		unlearned  bool
		freeOutput bool
	}{
		"nothing is known":                  {kind: "output-tokens", burst: 100, unlearned: true, low: 256, high: 256},
		"no limits":                         {kind: "output-tokens", burst: 100, tenant: "acme", low: 3600, high: 4400},
		"limits of something else":          {kind: "requests", burst: 10, low: 3600, high: 4400},
		"wide limits":                       {kind: "output-tokens", burst: 100_000, low: 3600, high: 4400},
		"narrow ones":                       {kind: "output-tokens", burst: 2000, low: 500, high: 500},
		"of all tokens":                     {kind: "total-tokens", burst: 3000, low: 750, high: 750},
		"of money":                          {kind: "money", burst: 8000, low: 1000, high: 1000},
		"of money that the model costs not": {kind: "money", burst: 8000, freeOutput: true, low: 3600, high: 4400},
		"narrower than ever":                {kind: "output-tokens", burst: 100, low: 256, high: 256},
		"a short answer":                    {kind: "output-tokens", burst: 100, max: 20, low: 20, high: 20},
		"three of them":                     {kind: "output-tokens", burst: 4000, n: 3, low: 1000, high: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, answers)}}}, func(pb *routerpb.Table) {
				pb.Quotas = []*routerpb.Quota{{
					Id: "q", Tenant: "globex", Kind: c.kind, Limit: c.burst, Burst: c.burst, PeriodMs: 60_000, Degraded: "share", Share: 1,
					Calendar: "day", TimeZone: "UTC",
				}}
				if !c.freeOutput {
					pb.Models[0].OutputMicrosPerMtok = 2e6
				}
			})
			n := w.routers[us]
			tenant, _ := n.tables.Load().Tenant(cmp.Or(c.tenant, "globex"))
			model, _, _ := n.tables.Load().Model("llama")
			for range 20 {
				if !c.unlearned {
					n.estimates.Learn(meter.Seen{Tenant: tenant.ID, Model: "llama", Completion: 4000}, time.Now())
				}
			}
			x := &trip{table: n.tables.Load(), tenant: tenant, model: model}
			x.request.MaxTokens, x.request.Choices = c.max, max(c.n, 1)
			if got := n.reserve(x); got < c.low || got > c.high {
				t.Errorf("%d, want %d to %d", got, c.low, c.high)
			}
		})
	}
}
