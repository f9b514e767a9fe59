package dataplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/proxy"
)

// play lets a fault happen and fills in what came of it.
func (f *fault) play(t *testing.T, l *cardLine) {
	p := sick(t, f.does)
	w, at := f.world(t, p, l.help)
	n, body := w.routers[us], cardBody(l.asked, f.tokens, f.pad)
	release := sync.OnceFunc(func() { close(p.release) })
	t.Cleanup(release)
	if f.warm {
		if r := w.ask(us, "acme", body); r.status != http.StatusOK || r.header.Get("X-Anabranch-Cluster") != at {
			t.Fatalf("before the fault: %d %q", r.status, r.body)
		}
		w.idle()
		p.breaks()
	}
	if f.breaks != nil {
		f.breaks(w)
	}
	var stop func()
	if !f.later {
		stop = w.run()
	}
	before, failures := w.counts(), n.failed.Load()
	began := time.Now()
	if f.leaves != "" {
		for range max(f.times, 1) {
			w.leave(p, body, f.leaves == "mid-stream")
			w.idle()
		}
		l.client = "left"
	} else {
		l.client = f.seen(t, w.ask(us, "globex", body), l.asked)
	}
	if took := time.Since(began); took < f.bound {
		t.Errorf("over after %s, before the bound of %s", took, f.bound)
	}
	release()
	w.idle()
	w.eventually("the upstream has ended", func() bool { return p.open.Load() == 0 })
	l.upstream = p.fate(t, cmp.Or(f.bound, atOnce))
	l.attempts, l.request = w.counted(before)
	if n.failed.Load() > failures {
		l.request += ", failed"
	}
	if f.later {
		stop = w.run()
	}
	l.then = f.then(w, p, at)
	w.idle()
	stop()
	l.charged = fmt.Sprintf("%d, %d, %d", w.ledger.total("q-requests"), w.ledger.total("q-in"), w.ledger.total("q-out"))
}

// world is the place at fault and its help, and the name of the former.
func (f *fault) world(t *testing.T, p *patient, help string) (w *world, at string) {
	site1, other := site{id: "us-a", region: us, weight: 1, endpoints: []*stub{p.stub}}, newStub(t, answers)
	if help == "peer" {
		site1.id, site1.region = "eu-a", eu
	}
	sites := []site{site1, {id: "us-b", region: us, weight: 0, endpoints: []*stub{other}}}
	if help == "none" {
		sites = sites[:1]
	}
	if f.dies && f.does != nil {
		hang := http.HandlerFunc(hangs)
		p.canaries.Store(&hang)
	}
	if f.everywhere && f.does != nil {
		other.does(*p.serve.Load())
	}
	w = newWorld(t, sites, func(pb *routerpb.Table) {
		pb.Classes[0].FirstByteFloorMs = 20_000
		for name, kind := range map[string]string{"q-in": "input-tokens", "q-out": "output-tokens"} {
			pb.Quotas = append(pb.Quotas, &routerpb.Quota{
				Id: name, Tenant: "globex", Kind: kind, Limit: 1e8, PeriodMs: 60000, Burst: 1e8, Degraded: "share", Share: 1,
			})
		}
		if f.change != nil {
			f.change(pb)
		}
	})
	if f.at != nil {
		w.moved(site1.id, f.at(t, p))
		if f.everywhere {
			w.moved("us-b", f.at(t, p))
		}
	}
	return w, site1.id
}

// cardBody is a request for so many tokens, with so much more in its prompt.
func cardBody(asked string, tokens, pad int) string {
	stream := ""
	if asked == "streamed" {
		stream = `"stream":true,`
	}
	return fmt.Sprintf(`{"model":"llama",%s"messages":[{"role":"user","content":"hello%s"}],"max_tokens":%d}`,
		stream, strings.Repeat("x", pad), cmp.Or(tokens, 4))
}

// seen is what a client got, as the card says it.
func (f *fault) seen(t *testing.T, r got, asked string) string {
	t.Helper()
	var said []string
	h, broken := r.header, strings.Contains(r.body, `data: {"error"`)
	switch {
	case r.status != http.StatusOK:
		e := r.problem(t)
		said = append(said, fmt.Sprintf("%d %v of %v", r.status, e["code"], e["origin"]))
		if after := h.Get("Retry-After"); after != "" {
			said = append(said, "back in "+after+" s")
		}
		if code := h.Get(proxy.HeaderErrorCode); h.Get(proxy.HeaderCluster) == "" && code != e["code"] {
			t.Errorf("the header says %q, the body %v", code, e["code"])
		}
	case broken:
		e := r.problem(t)
		said = append(said, fmt.Sprintf("200 %s, then %v of %v", tokensOf(r.body), e["code"], e["origin"]))
	case asked == "streamed" && strings.HasSuffix(r.body, done):
		said = append(said, "200 "+tokensOf(r.body)+", done")
	case r.body == whole, r.body == longAnswer:
		said = append(said, "200 all of it")
	default:
		said = append(said, fmt.Sprintf("200 %.80q", r.body))
	}
	if from := h.Get("X-Anabranch-Cluster"); from != "" {
		said = append(said, "from "+from)
		if !strings.HasPrefix(h.Get("X-Anabranch-Region"), from[:2]) || h.Get("X-Anabranch-Endpoint") != "e1" {
			t.Errorf("an answer of %s has %v", from, h)
		}
	}
	if h.Get("X-Anabranch-Request-Id") == "" || h.Get("X-Request-Id") == "" {
		t.Errorf("no name in %v", h)
	}
	said = append(said, "after "+h.Get("X-Anabranch-Attempts"))
	if r.err != nil {
		said = append(said, "aborted")
	}
	return strings.Join(said, ", ")
}

func tokensOf(stream string) string {
	n := strings.Count(stream, `"tok"`)
	if n == 1 {
		return "1 token"
	}
	return fmt.Sprint(n, " tokens")
}

// leave asks and leaves: when the place has the request, or mid-stream when the client has all that
// came so far.
func (w *world) leave(p *patient, body string, midStream bool) {
	w.t.Helper()
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, w.routers[us].front.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer globex-key")
	if midStream {
		res, err := http.DefaultClient.Do(q)
		if err != nil {
			w.t.Fatal(err)
		}
		defer res.Body.Close()
		if _, err := io.ReadFull(res.Body, make([]byte, len(role+content+content))); err != nil {
			w.t.Error(err)
		}
		<-p.came
		p.word()
		return
	}
	go func() {
		<-p.came
		p.word()
		leave()
	}()
	if res, err := http.DefaultClient.Do(q); err == nil {
		res.Body.Close()
		w.t.Errorf("answered with %d", res.StatusCode)
	} else if !errors.Is(err, context.Canceled) {
		w.t.Error(err)
	}
}

// counts are the counters of attempts and requests of all routers: region, metric and labels to
// value.
func (w *world) counts() map[[3]string]float64 {
	w.t.Helper()
	all := map[[3]string]float64{}
	for region, n := range w.routers {
		families, err := n.registry.Gather()
		if err != nil {
			w.t.Fatal(err)
		}
		for _, family := range families {
			name, known := strings.CutPrefix(family.GetName(), "anabranch_router_")
			if !known || name != "attempts_total" && name != "requests_total" {
				continue
			}
			for _, m := range family.GetMetric() {
				label := map[string]string{}
				for _, l := range m.GetLabel() {
					label[l.GetName()] = l.GetValue()
				}
				text := label["cluster"] + " " + label["kind"] + " " + label["outcome"]
				if name == "requests_total" {
					text = label["cluster"] + " " + label["status"] + " " + label["code"]
				}
				all[[3]string{region, name, text}] += m.GetCounter().GetValue()
			}
		}
	}
	return all
}

// counted is what the counters say of the time since.
func (w *world) counted(before map[[3]string]float64) (attempts, request string) {
	after := w.counts()
	since := func(region, name string) string {
		var all []string
		for key, v := range after {
			if d := v - before[key]; d > 0 && key[0] == region && key[1] == name {
				text := key[2]
				if d > 1 {
					text = fmt.Sprint(d, " × ", text)
				}
				all = append(all, text)
			}
		}
		slices.Sort(all)
		return strings.Join(all, ", ")
	}
	attempts, request = since(us, "attempts_total"), since(us, "requests_total")
	if far := since(eu, "attempts_total"); far != "" {
		attempts += " | " + far
	}
	return attempts, request
}

// then is who answers next. A place that is dead must be found so first; any other is well again.
func (f *fault) then(w *world, p *patient, at string) string {
	w.t.Helper()
	n, said := w.routers[us], ""
	if f.dies {
		if far := w.routers[eu]; far != nil && f.breaks == nil {
			w.eventually(at+" is ejected where it stands", func() bool { return ejected(far, at) })
		}
		w.eventually(at+" is ejected", func() bool {
			dead := ejected(n, at)
			if !dead && n.places.Cluster(fleet.ClusterID(at)).Remote { // it is asked about when a request has failed
				w.ask(us, "acme", cardBody("streamed", 0, 0))
			}
			return dead
		})
		if f.everywhere {
			w.eventually("us-b is ejected", func() bool { return ejected(n, "us-b") })
		}
		said = "ejected, "
	} else {
		p.does(answers)
	}
	r := w.ask(us, "acme", cardBody("streamed", 0, 0))
	if r.status != http.StatusOK {
		return said + fmt.Sprintf("%d %v", r.status, r.problem(w.t)["code"])
	}
	if ejected(n, at) != f.dies {
		w.t.Errorf("ejected: %v", !f.dies)
	}
	said += r.header.Get("X-Anabranch-Cluster")
	if again := r.header.Get("X-Anabranch-Attempts"); again != "1" {
		said += " after " + again
	}
	return said
}

func ejected(n *node, cluster string) bool {
	dead, _ := n.places.Cluster(fleet.ClusterID(cluster)).Ejected()
	return dead
}
