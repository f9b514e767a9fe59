package dataplane

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/admit"
	"anabranch/dataplane/route"
	"anabranch/dataplane/table"
)

// finale is one way for a request to end, and what it costs.
type finale struct {
	// places are of us-a, us-b and eu-a, as many as there are; the last has all further requests.
	places []http.HandlerFunc
	change func(*routerpb.Table)
	ready  func(*world)
	body   string            // empty: a stream
	client func(*world) bool // false: the answer must be broken off. Nil: waits for all of it
	broken bool
	status int // 0: 200

	requests, output int64
	input            int64 // estimated: what the router took it for
	code             string
}

const estimated = -1

// sends is a place that streams parts and then ends regularly.
func sends(parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { send(w, parts...) }
}

// sendsAnd streams parts and then does something else.
func sendsAnd(then http.HandlerFunc, parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		send(w, parts...)
		then(w, r)
	}
}

func cuts(http.ResponseWriter, *http.Request) { cut() }

// talks streams tokens until it is told to stop.
func talks(w http.ResponseWriter, r *http.Request) {
	send(w, role)
	for r.Context().Err() == nil {
		send(w, strings.Repeat(content, 8))
		select {
		case <-time.After(time.Millisecond):
		case <-r.Context().Done():
		}
	}
}

// leaves is a client that leaves once it has so much of its answer.
func leaves(after string) func(*world) bool {
	return func(w *world) bool {
		ctx, cancel := context.WithCancel(w.t.Context())
		defer cancel()
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, w.routers[us].front.URL+"/v1/chat/completions", strings.NewReader(askStream))
		if err != nil {
			w.t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer globex-key")
		if after == "" {
			asked := w.sites[0].endpoints[0]
			go func() {
				for asked.requests.Load() == 0 {
					select {
					case <-time.After(time.Millisecond):
					case <-ctx.Done():
					}
				}
				cancel()
			}()
		}
		res, err := http.DefaultClient.Do(q)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		_, _ = io.ReadFull(res.Body, make([]byte, len(after)))
		return false
	}
}

// limited has limits of all kinds, wide enough for a request, or as change wants them.
func limited(change func(q *routerpb.Quota)) func(*routerpb.Table) {
	return func(pb *routerpb.Table) {
		pb.Quotas = nil
		for _, kind := range []string{"requests", "input-tokens", "output-tokens", "total-tokens", "concurrent-requests", "money"} {
			// Hardly anything flows in while a test runs.
			q := &routerpb.Quota{
				Id: "q/" + kind, Tenant: "globex", Kind: kind, Limit: 1000, PeriodMs: 86_400_000, Burst: 1000, Degraded: "share", Share: 1,
			}
			switch kind {
			case "money":
				q.Limit, q.Burst, q.Calendar, q.TimeZone = 1e6, 1e6, "month", "UTC"
			case "concurrent-requests":
				q.Limit, q.Burst = 10, 10
			}
			if change != nil {
				change(q)
			}
			pb.Quotas = append(pb.Quotas, q)
		}
		pb.Models[0].InputMicrosPerMtok, pb.Models[0].OutputMicrosPerMtok = 2e6, 3e6 // micro-dollars a token
	}
}

// and makes several changes.
func and(all ...func(*routerpb.Table)) func(*routerpb.Table) {
	return func(pb *routerpb.Table) {
		for _, change := range all {
			if change != nil {
				change(pb)
			}
		}
	}
}

// outputs limits output to a burst, and says what becomes of streams beyond it.
func outputs(burst int64, overrun string) func(*routerpb.Table) {
	return limited(func(q *routerpb.Quota) {
		if q.Kind == "output-tokens" {
			q.Limit, q.Burst, q.Overrun = burst, burst, overrun
		}
	})
}

const (
	askLong  = `{"model":"llama","stream":true,"messages":[{"role":"user","content":"hello"}]}`
	uncharge = `{"choices":[{"message":{"content":"four words or so"}}]}`
)

func finales() map[string]finale {
	drained := func(pb *routerpb.Table) {
		for _, c := range pb.Clusters {
			c.Drained = true
		}
	}
	onlyEurope := func(pb *routerpb.Table) { pb.Clusters[0].Drained = true }
	continued := `data: {"choices":[],"usage":{"prompt_tokens":13,"completion_tokens":3}}` + "\n\n"
	long := strings.Repeat(content, 500)
	counts := strings.Replace(content, "}]}", `}],"usage":{"prompt_tokens":11,"completion_tokens":7}}`, 1)
	return map[string]finale{
		"a stream that is whole":                 {requests: 1, input: 11, output: 3},
		"an answer that is whole":                {body: askWhole, requests: 1, input: 11, output: 3},
		"a stream of which nobody counts tokens": {places: []http.HandlerFunc{sends(role, content, content, finish, done)}, requests: 1, input: estimated, output: 2},
		"an answer of which nobody counts tokens": {
			places: []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, uncharge)
			}},
			body: askWhole, requests: 1, input: estimated, output: 4,
		},
		"refused by its place":        {places: []http.HandlerFunc{says(400)}, status: 400, requests: 1},
		"failed everywhere":           {places: []http.HandlerFunc{says(500)}, status: 502, requests: 1, code: "upstream_error"},
		"cut off before content":      {places: []http.HandlerFunc{sendsAnd(cuts, role)}, status: 502, requests: 1, code: "upstream_truncated"},
		"failed at first":             {places: []http.HandlerFunc{says(500), answers}, requests: 1, input: 11, output: 3},
		"no place can be reached":     {ready: func(w *world) { w.sites[0].endpoints[0].Close() }, status: 503, code: "connect_failed"},
		"no place may be used":        {change: drained, status: 503, code: "no_legal_target"},
		"no place has room":           {places: []http.HandlerFunc{says(429)}, status: 503, requests: 1, code: "no_capacity"},
		"its router drains":           {ready: func(w *world) { w.routers[us].Drain() }, requests: 1, input: 11, output: 3},
		"broken off in the middle":    {places: []http.HandlerFunc{sendsAnd(cuts, role, content, content)}, broken: true, requests: 1, input: estimated, output: 2, code: "stream_broken"},
		"broken off after it counted": {places: []http.HandlerFunc{sendsAnd(cuts, role, counts, content)}, broken: true, requests: 1, input: 11, output: 7, code: "stream_broken"},
		"its client leaves before its first token": {
			places: []http.HandlerFunc{hangs}, client: leaves(""), requests: 1, input: estimated, code: "client_gone",
		},
		"its client leaves in the middle": {
			places: []http.HandlerFunc{sendsAnd(hangs, role, content, content)}, client: leaves(role + content + content),
			requests: 1, input: estimated, output: 2, code: "client_gone",
		},
		"more than may ever be used at once": {
			change: limited(func(q *routerpb.Quota) {
				if q.Kind == "input-tokens" {
					q.Limit, q.Burst = 1, 1
				}
			}),
			status: 429, code: "request_exceeds_quota",
		},
		"one more than its quota": {
			change: limited(func(q *routerpb.Quota) {
				if q.Kind == "requests" {
					q.Limit, q.Burst = 1, 1
				}
			}),
			ready: func(w *world) { w.patiently(func() { w.ask(us, "globex", askStream) }) },
			// They are the first one's.
			requests: 1, input: 11, output: 3,
			status: 429, code: "rate_limit_exceeded",
		},
		"a copy of it is sooner": {
			places: []http.HandlerFunc{hangs, answers}, change: hedged(10, 1), requests: 1, input: 11, output: 3,
		},
		"continued elsewhere": {
			places: []http.HandlerFunc{sendsAnd(cuts, role, content, content), sends(role, content, content, content, finish, continued, done)},
			change: func(pb *routerpb.Table) { pb.Classes[0].Rescue = true },
			// The second place's prompt has the two tokens of the first part.
			requests: 1, input: 11, output: 5,
		},
		"served by another region": {places: []http.HandlerFunc{hangs, hangs, answers}, change: onlyEurope, requests: 1, input: 11, output: 3},
		"longer than was set aside": {
			places: []http.HandlerFunc{sends(role, long, finish, done)}, body: askLong, requests: 1, input: estimated, output: 500,
		},
		"longer than its quota, which lets it finish": {
			places: []http.HandlerFunc{sends(role, long, finish, done)}, change: outputs(300, "finish"), body: askLong, requests: 1, input: estimated, output: 500,
		},
		"longer than its quota, which cuts it": {
			places: []http.HandlerFunc{talks}, change: outputs(300, "cut"), body: askLong, broken: true, requests: 1, input: estimated, output: estimated, code: codeQuotaCut,
		},
	}
}

// TestWhatEachEndingCosts plays each way for a request to end and looks at what is charged to limits of all
// kinds, that nothing of them is held any more, and at what the account says that clusters did for it.
func TestWhatEachEndingCosts(t *testing.T) {
	for name, e := range finales() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, rec := e.play(t)
			w.accounts(&e, rec, works()[name])
		})
	}
}

func (e *finale) world(t *testing.T) *world {
	places := e.places
	if places == nil {
		places = []http.HandlerFunc{answers}
	}
	sites := []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, places[0])}}}
	if len(places) > 1 {
		sites = append(sites, site{id: "us-b", region: us, weight: 0.001, endpoints: []*stub{newStub(t, places[1])}})
	}
	if len(places) > 2 {
		sites[1].weight, sites[1].drained = 0, true
		sites = append(sites, site{id: "eu-a", region: eu, weight: 0.001, endpoints: []*stub{newStub(t, places[2])}})
	}
	return newWorld(t, sites, and(limited(nil), func(pb *routerpb.Table) { pb.Classes[0].FirstByteFloorMs = 20_000 }, e.change))
}

func (e *finale) play(t *testing.T) (*world, *Record) {
	w := e.world(t)
	stop := w.run()
	if e.ready != nil {
		e.ready(w)
	}
	whole := true
	var r got
	rec := w.patiently(func() {
		if e.client != nil {
			whole = e.client(w)
			return
		}
		body := e.body
		if body == "" {
			body = askStream
		}
		r = w.ask(us, "globex", body)
	})
	if want := max(e.status, 200); e.client == nil && (r.status != want || (r.err != nil) != e.broken) {
		t.Errorf("%d %v %q, want %d, broken off: %v", r.status, r.err, r.body, want, e.broken)
	}
	if rec.Code != e.code || whole && rec.ClientGone {
		t.Errorf("record %+v, want code %q", rec, e.code)
	}
	stop()
	w.costs(e, rec)
	return w, rec
}

// patiently asks until the quota store has answered, which it may not have done in time on a machine that is
// busy; then money is refused, and nothing charged. It answers the record of the request.
func (w *world) patiently(ask func()) *Record {
	w.t.Helper()
	for n := 0; ; n++ {
		ask()
		w.idle()
		if rec := w.theOne(us); rec.Code != "quota_store_unavailable" || n == 20 {
			return rec
		}
	}
}

// theOne is the newest record of a region that came from a client.
func (w *world) theOne(region string) *Record {
	w.t.Helper()
	var all []*Record
	w.routers[region].explain.newest(func(r *Record) bool {
		if !r.Hop {
			all = append(all, r)
		}
		return true
	})
	if len(all) == 0 {
		w.t.Fatal("no record")
	}
	return all[0]
}

// costs compares what is charged, and what is left, to what the ending should cost.
func (w *world) costs(e *finale, rec *Record) {
	w.t.Helper()
	input, output := e.input, e.output
	if input == estimated {
		input = rec.PromptTokens
	}
	if output == estimated {
		if output = rec.Usage.Completion; output < 257 || output > 10_000 {
			w.t.Errorf("%d tokens came before the end", output)
		}
	}
	org := "globex"
	for _, q := range w.table.Quotas {
		want := map[string]int64{
			"requests": e.requests, "input-tokens": input, "output-tokens": output, "total-tokens": input + output,
			"concurrent-requests": 0, "money": 2*input + 3*output,
		}[q.Kind]
		var level, held int64
		asked := false
		if w.ledger.lending != nil {
			level, held, asked = w.ledger.lending.Left(org, q.Id)
		}
		if !asked {
			if want != 0 {
				w.t.Errorf("%s: nobody was ever asked", q.Id)
			}
			continue
		}
		// A debt is no deeper than the bucket.
		if left := max(q.Burst-want, -q.Burst); level != left || held != 0 {
			w.t.Errorf("%s: %d are charged and %d are held, want %d and none", q.Id, q.Burst-level, held, q.Burst-left)
		}
	}
}

// brittle is a client's writer that panics in place of some call.
type brittle struct {
	*httptest.ResponseRecorder
	writes int // before it; below 0: with the header
}

func (b *brittle) WriteHeader(status int) {
	if b.writes < 0 {
		panic("a defect")
	}
	b.ResponseRecorder.WriteHeader(status)
}

func (b *brittle) Write(p []byte) (int, error) {
	if b.writes--; b.writes < 0 {
		panic("a defect")
	}
	return b.ResponseRecorder.Write(p)
}

// lent waits until requests of globex are let in by leases. It charges nothing.
func (w *world) lent() {
	w.t.Helper()
	n := w.routers[us]
	table := n.tables.Load()
	tenant, _ := table.Tenant("globex")
	model, _, _ := table.Model("llama")
	w.eventually("leases", func() bool {
		r, d := n.admit.Take(w.t.Context(), table, admit.Request{Tenant: tenant, Model: model, Input: 1, Output: 1})
		if r != nil {
			r.Settle(0, 0, 0)
		}
		return d.Allowed && !d.Degraded
	})
}

// TestADefectIsPaidForAsFarAsItCame lets a request panic before any place has it, and after.
func TestADefectIsPaidForAsFarAsItCame(t *testing.T) {
	for name, c := range map[string]struct {
		early  bool
		writes int
		want   finale
		work   []work
	}{
		"while a place is looked for": {early: true, want: finale{code: codeDefect}},
		"as its answer comes":         {writes: -1, want: finale{requests: 1, input: estimated, code: codeDefect}, work: []work{{at: "us-a", input: estimated, guessed: true}}},
		"in the middle of it":         {writes: 2, want: finale{requests: 1, input: estimated, code: codeDefect}, work: []work{{at: "us-a", input: estimated, guessed: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := (&finale{}).world(t)
			n := w.routers[us]
			if c.early {
				n.local = func(fleet.ClusterID, *table.Tenant) route.Place { panic("a defect") }
			}
			stop := w.run()
			q := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(askStream))
			q.Header.Set("Authorization", "Bearer globex-key")
			w.lent()
			func() {
				defer func() {
					if v := recover(); v != http.ErrAbortHandler { //nolint:errorlint // it is not wrapped
						t.Errorf("the request ended with %v", v)
					}
				}()
				n.Front().ServeHTTP(&brittle{httptest.NewRecorder(), c.writes}, q)
			}()
			w.idle()
			rec := w.theOne(us)
			if rec.Code != c.want.code {
				t.Errorf("record %+v", rec)
			}
			stop()
			w.costs(&c.want, rec)
			w.accounts(&c.want, rec, c.work)
		})
	}
}
