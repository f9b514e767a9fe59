package dataplane

import (
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/api/routerpb"
	"anabranch/dataplane/dispatch"
	"anabranch/dataplane/override"
	"anabranch/dataplane/subscribe"
	"anabranch/dataplane/table"
)

// shown is what a page of metrics shows of each: its type and labels.
type shown map[string]string

// add takes in what a registry gathers.
func (s shown) add(t *testing.T, g prometheus.Gatherer) {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "promhttp_") {
			continue // of the page itself
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName())
			}
			slices.Sort(labels)
			text := strings.ToLower(f.GetType().String()) + " " + strings.Join(labels, ",")
			if had, ok := s[f.GetName()]; ok && had != text {
				t.Errorf("%s has %q and %q", f.GetName(), had, text)
			}
			s[f.GetName()] = text
		}
	}
	if problems, err := testutil.GatherAndLint(g); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

// exercise has routers do all that is counted, and gathers what they then show.
func exercise(t *testing.T) shown {
	t.Helper()
	all := shown{}
	play := func(sites []site, change func(*routerpb.Table), asks func(*world)) {
		t.Helper()
		w := newWorld(t, sites, change)
		stop := w.run()
		asks(w)
		w.idle()
		stop()
		for _, n := range w.routers {
			all.add(t, n.registry)
			n.described(t, all)
		}
	}
	at := func(id string, weight float64, all ...*stub) site {
		return site{id: id, region: us, weight: weight, endpoints: all}
	}
	told := func(rw http.ResponseWriter, _ *http.Request) {
		send(rw, role, content, content, finish, `data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":5}}}`+"\n\n", done)
	}
	found := filepath.Join(t.TempDir(), "found.yaml")
	if err := os.WriteFile(found, []byte("- {id: found, url: 'http://127.0.0.1:9'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	gone := newStub(t, answers)
	gone.Close()

	// Requests, two regions, copies, splits, quotas, discovery, credentials, a page that can't be read.
	play([]site{at("us-a", 1, newStub(t, told)), at("us-b", 0, gone), {id: "eu-a", region: eu, endpoints: []*stub{newStub(t, answers)}}}, func(pb *routerpb.Table) {
		pb.Clusters[2].Drained = true
		pb.Clusters[1].ModelHealth = []*routerpb.ModelHealth{{Model: "llama", Health: "RAMPING", HealthCap: 0.5}}
		pb.Clusters[1].Auth = []*routerpb.Credential{{Type: "bearer", File: "/nowhere/at/all"}}
		pb.Clusters[1].Discovery = &routerpb.Discovery{Kind: "file", Name: t.TempDir() + "/none.yaml"}
		pb.Clusters[0].Discovery = &routerpb.Discovery{Kind: "file", Name: found}
		pb.Tenants[1].Jwt = []*routerpb.JwtRule{{Issuer: "https://id.example", Audiences: []string{"llm"}, JwksUrl: "http://127.0.0.1:9/keys"}}
		pb.Rules = []*routerpb.Rule{
			{Id: "split", Class: "interactive", Arms: []*routerpb.Arm{{Id: "only", Weight: 1}}, Match: []*routerpb.Match{{Tenants: []string{"acme"}}}, Shadow: &routerpb.Shadow{Share: 1}},
			{Id: "nowhere", Class: "interactive", Match: []*routerpb.Match{{Tenants: []string{"globex"}}}, Shadow: &routerpb.Shadow{Share: 1, Clusters: []string{"eu-a"}}},
		}
	}, func(w *world) {
		n := w.routers[us]
		w.ask(us, "acme", askStream)
		w.ask(us, "globex", askStream)
		w.eventually("copies, scrapes and looks are counted", func() bool {
			now := shown{}
			now.add(t, n.registry)
			for _, name := range []string{
				"anabranch_router_shadow_requests_total", "anabranch_router_scrape_seconds", "anabranch_router_scrape_failures_total",
				"anabranch_discovery_age_seconds", "anabranch_router_signal_age_seconds", "anabranch_router_cluster_saturation", "anabranch_router_jwks_fetches_total",
			} {
				if now[name] == "" {
					return false
				}
			}
			return true
		})
	})
	// A copy that wins, and one that has nowhere to go.
	play([]site{at("us-a", 1, newStub(t, hangs)), at("us-b", 0, newStub(t, answers))}, hedged(20, 1), func(w *world) { w.ask(us, "acme", askStream) })
	late := func(rw http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(60 * time.Millisecond):
		case <-r.Context().Done():
		}
		answers(rw, r)
	}
	play([]site{at("us-a", 1, newStub(t, late))}, hedged(5, 1), func(w *world) { w.ask(us, "acme", askStream) })
	// A stream that breaks and is continued.
	play([]site{at("us-a", 1, newStub(t, func(rw http.ResponseWriter, _ *http.Request) {
		words(rw, "first", 0, 4)
		cut()
	})), at("us-b", 0, newStub(t, func(rw http.ResponseWriter, _ *http.Request) { continues(rw, 4) }))}, rescued, func(w *world) { w.ask(us, "acme", askStream) })
	// One that waits and is refused.
	var full atomic.Bool
	var refused atomic.Int64
	full.Store(true)
	play([]site{at("us-a", 1, newStub(t, refuses(&full, 30, &refused)))}, waits(50), func(w *world) { w.ask(us, "acme", askWhole) })
	// One that the table sheds, and one that it sheds a part of.
	play([]site{at("us-a", 1, newStub(t, answers))}, sheds(50, 1e-9), func(w *world) {
		w.ask(us, "acme", askWhole, "X-Anabranch-Priority", "0")
		w.ask(us, "globex", askWhole)
	})
	// Attempts that a drill has fail.
	play([]site{at("us-a", 1, newStub(t, answers)), at("us-b", 0, newStub(t, answers))}, drilling("hard", "", "us-a"), func(w *world) {
		w.lease(1, 30*time.Second, dead)
		w.ask(us, "acme", askWhole)
	})
	// More retries than a budget allows.
	play([]site{at("us-a", 1, newStub(t, says(http.StatusInternalServerError))), at("us-b", 0, newStub(t, answers))}, func(pb *routerpb.Table) {
		pb.Classes[0].Ejection.MinRequests = 10_000
	}, func(w *world) {
		for range 2*dispatch.BudgetFloor + 10 {
			w.ask(us, "acme", askWhole)
		}
	})
	// A connection that its place has closed.
	closing := &patient{stub: newStub(t, answers), came: make(chan struct{}, 64)}
	play([]site{at("us-a", 1, closing.stub)}, nil, func(w *world) {
		w.moved("us-a", kept(true)(t, closing))
		w.ask(us, "acme", askWhole)
		w.idle()
		closing.breaks()
		w.ask(us, "acme", askWhole)
	})
	// What a router has beside the data plane.
	registry := prometheus.NewRegistry()
	if _, err := override.New(override.Options{Dir: t.TempDir(), Registerer: registry, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	if _, err := subscribe.New(subscribe.Options{
		Router: "r", Region: us, Holder: &table.Holder{}, Report: func(time.Time) *routerpb.Report { return nil }, Registerer: registry,
	}); err != nil {
		t.Fatal(err)
	}
	all.add(t, registry)
	return all
}

var descName = regexp.MustCompile(`fqName: "([^"]+)"`)

// described adds an empty entry for each metric that a router has and the scenarios don't show.
func (n *node) described(t *testing.T, all shown) {
	t.Helper()
	descs := make(chan *prometheus.Desc, 100)
	for _, c := range n.series.all {
		c.Describe(descs)
	}
	close(descs)
	for d := range descs {
		name := descName.FindStringSubmatch(d.String())
		if name == nil {
			t.Fatalf("no name in %s", d)
		}
		if _, ok := all[name[1]]; !ok {
			all["never: "+name[1]] = ""
		}
	}
}

var row = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (counter|gauge|histogram) \\|([^|]*)\\| ([^|]+) \\|$")

// documented is what README.md says.
func documented(t *testing.T) (all shown, text string) {
	t.Helper()
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	all = shown{}
	for _, m := range row.FindAllStringSubmatch(string(raw), -1) {
		var labels []string
		for label := range strings.SplitSeq(strings.TrimSpace(m[3]), ",") {
			if label = strings.Trim(label, " `"); label != "" {
				labels = append(labels, label)
			}
		}
		slices.Sort(labels)
		if _, twice := all[m[1]]; twice {
			t.Errorf("README.md has %s twice", m[1])
		}
		all[m[1]] = m[2] + " " + strings.Join(labels, ",")
	}
	return all, string(raw)
}

func TestReadmeSaysWhatIsMeasured(t *testing.T) {
	want, text := documented(t)
	got := exercise(t)
	if len(want) < 60 {
		t.Errorf("only %d metrics were found in README.md", len(want))
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		never, unplayed := strings.CutPrefix(name, "never: ")
		switch {
		case unplayed && got[never] == "":
			t.Errorf("no scenario shows %s", never)
		case unplayed:
		case want[name] == "":
			t.Errorf("README.md lacks %s: %s", name, got[name])
		case want[name] != got[name]:
			t.Errorf("README.md says of %s %q, it has %q", name, want[name], got[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] == "" {
			t.Errorf("README.md has %s, which no router shows", name)
		}
	}
	// The queries speak of metrics and labels that there are.
	queries := regexp.MustCompile("(?s)```promql\n(.*?)```").FindAllStringSubmatch(text, -1)
	if len(queries) < 5 {
		t.Errorf("%d queries", len(queries))
	}
	for _, q := range queries {
		for _, m := range regexp.MustCompile(`((?:anabranch|gen_ai)_[a-z_]+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(q[1], -1) {
			is := want[m[1]]
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				if base := strings.TrimSuffix(m[1], suffix); is == "" {
					is = want[base]
				}
			}
			if is == "" {
				t.Errorf("a query asks for %s", m[1])
				continue
			}
			_, labels, _ := strings.Cut(is, " ")
			for _, l := range regexp.MustCompile(`([a-z_]+)(?:=|!)`).FindAllStringSubmatch(m[2], -1) {
				if l[1] != "le" && !slices.Contains(strings.Split(labels, ","), l[1]) {
					t.Errorf("a query asks %s for %s", m[1], l[1])
				}
			}
		}
	}
}

func TestLabelsOfStatusesAndCodesAreFew(t *testing.T) {
	for status, want := range map[int]string{200: "200", 404: "404", 499: "499", 503: "503", 599: "5xx", 299: "2xx", 0: "0xx", 999: "9xx", 1000: none, -1: none} {
		if got := statusLabel(status); got != want {
			t.Errorf("%d: %s, want %s", status, got, want)
		}
	}
	for code, want := range map[string]string{"": "ok", "no_capacity": "no_capacity", "418": "upstream_status"} {
		if got := codeLabel(code); got != want {
			t.Errorf("%q: %s, want %s", code, got, want)
		}
	}
	labels := map[string]bool{}
	for status := range 1000 {
		labels[statusLabel(status)] = true
	}
	if len(labels) > 80 {
		t.Errorf("%d labels", len(labels))
	}
}
