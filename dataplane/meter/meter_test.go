package meter

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"anabranch/api/routerpb"
	"anabranch/dataplane/admit"
	"anabranch/dataplane/table"
	"anabranch/ratelimit"
)

// desk admits requests of a tenant with a limit of each kind.
type desk struct {
	t      testing.TB
	admit  *admit.Admitter
	store  *ratelimit.Lending
	table  *table.Table
	tenant *table.Tenant
}

func newDesk(t testing.TB) *desk {
	t.Helper()
	pb := &routerpb.Table{
		Ref:     &routerpb.TableRef{ClusterId: "c", Epoch: 1, Revision: 1},
		Regions: []*routerpb.Region{{Id: "us-east-1", Zone: "us"}},
		Clusters: []*routerpb.Cluster{{
			Id: "use1-h100", Region: "us-east-1", Kind: "endpoints", Models: []string{"llama-3.1-8b"}, HealthCap: 1,
			Endpoints: []*routerpb.Endpoint{{Id: "e", Url: "http://127.0.0.1:9101", Class: "h100"}},
		}},
		Models:  []*routerpb.Model{{Id: "llama-3.1-8b", OutputWeight: 6}},
		Tenants: []*routerpb.Tenant{{Id: "acme", Tier: "top", Priority: 100}},
	}
	for _, kind := range []string{"requests", "input-tokens", "output-tokens", "total-tokens"} {
		pb.Quotas = append(pb.Quotas, &routerpb.Quota{Id: kind, Tenant: "acme", Kind: kind, Limit: 1, PeriodMs: 86_400_000, Burst: 1e6})
	}
	d := &desk{t: t, store: ratelimit.NewLending(nil)}
	var err error
	if d.table, err = table.Build(pb); err != nil {
		t.Fatal(err)
	}
	d.tenant, _ = d.table.Tenant("acme")
	if d.admit, err = admit.New(admit.Options{Stores: admit.Own(d.store), Inline: true}); err != nil {
		t.Fatal(err)
	}
	return d
}

// reserve admits a request that reserves 1,000 input and 256 output tokens.
func (d *desk) reserve() *admit.Reservation {
	d.t.Helper()
	r, said := d.admit.Take(d.t.Context(), d.table, admit.Request{Tenant: d.tenant, Input: 1000, Output: 256})
	if r == nil {
		d.t.Fatalf("%+v", said)
	}
	return r
}

// used is what is gone of a limit when all that was held has come back.
func (d *desk) used(limit string) int64 {
	level, held, _ := d.store.Left("acme", limit)
	return 1e6 - level - held
}

func subject() Subject {
	return Subject{Tenant: "acme", Model: "llama-3.1-8b", Cluster: "use1-h100", InputMicros: 50_000, OutputMicros: 80_000}
}

func TestWhatIsChargedInTheEnd(t *testing.T) {
	used := Usage{Prompt: 900, Cached: 512, Completion: 300}
	for name, c := range map[string]struct {
		usage                         Usage
		fate                          Fate
		requests, input, output, both int64
	}{
		"used as told":                           {used, Completed, 1, 900, 300, 1200},
		"as reserved":                            {Usage{Prompt: 1000, Completion: 256}, Completed, 1, 1000, 256, 1256},
		"no prompt told: the estimate stands":    {Usage{Completion: 56}, Completed, 1, 1000, 56, 1056},
		"broken after content: what was counted": {Usage{Completion: 10}, Broken, 1, 1000, 10, 1010},
		"broken after the server told":           {used, Broken, 1, 900, 300, 1200},
		"failed before content":                  {used, FailedBeforeContent, 1, 0, 0, 0},
		"never sent":                             {Usage{}, NotSent, 0, 0, 0, 0},
		"nonsense from a server":                 {Usage{Prompt: -5, Completion: -5}, Completed, 1, 1000, 0, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t)
				m, err := New(Options{})
				if err != nil {
					t.Fatal(err)
				}
				r := d.reserve()
				m.Settle(r, subject(), c.usage, c.fate)
				m.Settle(r, subject(), used, Completed) // says nothing any more
				// The admitter's last words.
				ended, end := context.WithCancel(t.Context())
				end()
				if err := d.admit.Run(ended); err != nil {
					t.Fatal(err)
				}
				for limit, want := range map[string]int64{
					"requests": c.requests, "input-tokens": c.input, "output-tokens": c.output, "total-tokens": c.both,
				} {
					if got := d.used(limit); got != want {
						t.Errorf("%s: %d, want %d", limit, got, want)
					}
				}
			})
		})
	}
}

func TestMetricsOfUse(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	d := newDesk(t)
	m, err := New(Options{Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	m.Settle(d.reserve(), subject(), Usage{Prompt: 1_000_000, Cached: 600_000, Completion: 500_000}, Completed)
	d = newDesk(t)
	m.Settle(d.reserve(), subject(), Usage{Prompt: 10, Cached: 99, Completion: 1}, Broken)
	m.Settle(d.reserve(), subject(), Usage{}, FailedBeforeContent)
	unsent := subject()
	unsent.Cluster = ""
	m.Settle(d.reserve(), unsent, Usage{}, NotSent)
	got := exposed(t, registry)
	where := `cluster="use1-h100",` // labels are shown in the order of their names
	for _, line := range []string{
		`anabranch_requests_total{` + where + `fate="completed",model="llama-3.1-8b",tenant="acme"} 1`,
		`anabranch_requests_total{` + where + `fate="broken",model="llama-3.1-8b",tenant="acme"} 1`,
		`anabranch_requests_total{` + where + `fate="failed",model="llama-3.1-8b",tenant="acme"} 1`,
		`anabranch_requests_total{cluster="",fate="not_sent",model="llama-3.1-8b",tenant="acme"} 1`,
		`anabranch_tokens_total{` + where + `model="llama-3.1-8b",tenant="acme",token_type="input"} 1.00001e+06`,
		`anabranch_tokens_total{` + where + `model="llama-3.1-8b",tenant="acme",token_type="output"} 500001`,
		`anabranch_cached_input_tokens_total{` + where + `model="llama-3.1-8b",tenant="acme"} 600010`,
		// 50,000 + 40,000 for the first; 10 × 0.05 + 0.08 for the second.
		`anabranch_cost_microdollars_total{` + where + `model="llama-3.1-8b",tenant="acme"} 90000.58`,
	} {
		if !slices.Contains(got, line) {
			t.Errorf("want %s in\n%s", line, strings.Join(got, "\n"))
		}
	}
	if _, err := New(Options{Registerer: registry}); err == nil {
		t.Error("two meters share a registry")
	}
}

// exposed is what the registry shows, line by line.
func exposed(t *testing.T, registry *prometheus.Registry) []string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Split(text.String(), "\n")
}

func TestFatesHaveNames(t *testing.T) {
	for f, want := range map[Fate]string{Completed: "completed", Broken: "broken", FailedBeforeContent: "failed", NotSent: "not_sent", 9: "fate 9"} {
		if f.String() != want {
			t.Errorf("%d: %s, want %s", int(f), f, want)
		}
	}
}

func BenchmarkSettle(b *testing.B) {
	d := newDesk(b)
	m, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		r := d.reserve()
		b.StartTimer()
		m.Settle(r, subject(), Usage{Prompt: 900, Completion: 300}, NotSent)
	}
}
