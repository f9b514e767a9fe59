package rls

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/status"

	"anabranch/api/routerpb"
	"anabranch/dataplane/admit"
	"anabranch/dataplane/table"
	"anabranch/ratelimit"
)

func TestRequestsAreRefusedOnceTheLimitIsReached(t *testing.T) {
	d := opened(t, ratelimit.NewLending(nil), limits(t, quota("requests", "requests", 20)))
	for range 20 {
		d.ok(entries("tenant", "acme"))
	}
	out := d.over(entries("tenant", "acme"), entries("remote_address", "192.0.2.1"))
	s := out.Statuses[0]
	if s.Code != rlsv3.RateLimitResponse_OVER_LIMIT || s.LimitRemaining != 0 || s.CurrentLimit.GetName() != "requests" ||
		s.CurrentLimit.GetRequestsPerUnit() != 20 || s.CurrentLimit.GetUnit() != rlsv3.RateLimitResponse_RateLimit_HOUR || s.DurationUntilReset.AsDuration() <= 0 {
		t.Errorf("status: %v", s)
	}
	if s := out.Statuses[1]; s.Code != rlsv3.RateLimitResponse_OK || s.CurrentLimit != nil {
		t.Errorf("status of what has no limit: %v", s)
	}
	headers := map[string]string{}
	for _, h := range out.ResponseHeadersToAdd {
		headers[h.Key] = h.Value
	}
	if headers["x-ratelimit-limit-requests"] != "20" || headers["x-ratelimit-remaining-requests"] != "0" || headers["retry-after"] == "" || headers["content-type"] != "application/json" {
		t.Errorf("headers: %v", headers)
	}
	var body struct {
		Error struct{ Message, Type, Code, Origin string }
	}
	if err := json.Unmarshal(out.RawBody, &body); err != nil || body.Error.Code != "rate_limit_exceeded" || body.Error.Origin != "quota" {
		t.Errorf("body %s: %v", out.RawBody, err)
	}
}

func TestAnAllowedRequestIsToldHowItStands(t *testing.T) {
	d := opened(t, ratelimit.NewLending(nil), limits(t, quota("requests", "requests", 20), quota("tokens", "total-tokens", 1000)))
	d.ok(entries("tenant", "acme"))
	out := d.ok(entries("tenant", "acme"), hits(100, entries("tenant", "acme", "unit", "total-tokens")))
	for i, want := range []string{"requests", "tokens"} {
		if s := out.Statuses[i]; s.CurrentLimit.GetName() != want || s.LimitRemaining == 0 {
			t.Errorf("status %d: %v", i, s)
		}
	}
	names := map[string]bool{}
	for _, h := range out.ResponseHeadersToAdd {
		names[h.Key] = true
		if h.Key != strings.ToLower(h.Key) {
			t.Errorf("header %s is not in small letters", h.Key)
		}
	}
	if !names["x-ratelimit-remaining-requests"] || !names["x-ratelimit-remaining-tokens"] || names["content-type"] || out.RawBody != nil {
		t.Errorf("headers %v, body %q", names, out.RawBody)
	}
}

func TestTheAPIKeyTellsTheTenantAndItsLimits(t *testing.T) {
	d := opened(t, ratelimit.NewLending(nil), limits(t, quota("key", "requests", 3, func(q *routerpb.Quota) { q.KeySha256 = [][]byte{sumOf("k-acme")} })))
	for range 3 {
		d.ok(entries("key_sha256", hexSum("k-acme")))
	}
	d.over(entries("key_sha256", hexSum("k-acme")))
	d.over(entries("key_sha256", hexSum("k-acme"), "tenant", "acme"))
	d.ok(entries("tenant", "acme"))                                   // another key, or none
	d.ok(entries("key_sha256", hexSum("k-acme"), "tenant", "free"))   // not that tenant's key
	d.ok(entries("key_sha256", hexSum("k-nobody"), "tenant", "acme")) // nobody's
}

func TestALimitOfAModelHoldsForItsNames(t *testing.T) {
	d := opened(t, ratelimit.NewLending(nil), limits(t, quota("llama", "requests", 2, ofModel("llama"))))
	d.ok(entries("tenant", "acme", "model", "llama"))
	d.ok(entries("tenant", "acme", "model", "default"))
	d.over(entries("tenant", "acme", "model", "llama"))
	d.ok(entries("tenant", "acme", "model", "qwen"))
	d.ok(entries("tenant", "acme", "model", "unheard-of"))
	d.ok(entries("tenant", "acme"))
}

func TestWhatNamesNoTenantIsNotLimited(t *testing.T) {
	d := opened(t, ratelimit.NewLending(nil), limits(t, quota("requests", "requests", 1)))
	d.ok(entries("tenant", "acme"))
	for _, x := range []*ratelimitv3.RateLimitDescriptor{
		entries("tenant", "nobody"), entries("tenant", "free"), entries("remote_address", "192.0.2.1"), entries(),
		{Entries: entries("tenant", "acme").Entries, IsNegativeHits: true},
	} {
		out := d.ok(x)
		if s := out.Statuses[0]; s.Code != rlsv3.RateLimitResponse_OK || s.CurrentLimit != nil || len(out.ResponseHeadersToAdd) != 0 {
			t.Errorf("%v: %v", x, out)
		}
	}
	out, err := d.client.ShouldRateLimit(t.Context(), &rlsv3.RateLimitRequest{Domain: "elsewhere", Descriptors: []*ratelimitv3.RateLimitDescriptor{entries("tenant", "acme")}})
	if err != nil || out.OverallCode != rlsv3.RateLimitResponse_OK || len(out.Statuses) != 1 {
		t.Errorf("another domain: %v, %v", out, err)
	}
}

func TestWhatCanNotBeJudgedIsAnError(t *testing.T) {
	d := opened(t, ratelimit.NewLending(nil), limits(t, quota("requests", "requests", 1)))
	many := make([]*ratelimitv3.RateLimitDescriptor, maxDescriptors+1)
	for i := range many {
		many[i] = entries("tenant", "acme")
	}
	for _, c := range []struct {
		name string
		q    *rlsv3.RateLimitRequest
		want codes.Code
	}{
		{"no domain", &rlsv3.RateLimitRequest{Descriptors: many[:1]}, codes.InvalidArgument},
		{"no descriptors", &rlsv3.RateLimitRequest{Domain: DefaultDomain}, codes.InvalidArgument},
		{"too many descriptors", &rlsv3.RateLimitRequest{Domain: DefaultDomain, Descriptors: many}, codes.InvalidArgument},
		{"more than a message may have", &rlsv3.RateLimitRequest{Domain: DefaultDomain, Descriptors: []*ratelimitv3.RateLimitDescriptor{entries("tenant", strings.Repeat("x", maxMessage))}}, codes.ResourceExhausted},
	} {
		if _, err := d.client.ShouldRateLimit(t.Context(), c.q); status.Code(err) != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	d.tables.Store(nil)
	if _, err := d.client.ShouldRateLimit(t.Context(), &rlsv3.RateLimitRequest{Domain: DefaultDomain, Descriptors: many[:1]}); status.Code(err) != codes.Unavailable {
		t.Errorf("no table: %v", err)
	}
}

func TestACallIsAllOrNothing(t *testing.T) {
	d := opened(t, ratelimit.NewLending(nil), limits(t, quota("llama", "requests", 2, ofModel("llama")), quota("qwen", "requests", 1, ofModel("qwen"))))
	d.ok(entries("tenant", "acme", "model", "qwen"))
	for range 5 {
		until(t, "the second model alone refuses", func() bool { // what is given back takes its way through the store
			out := d.over(entries("tenant", "acme", "model", "llama"), entries("tenant", "acme", "model", "qwen"))
			return out.Statuses[0].Code == rlsv3.RateLimitResponse_OK && out.Statuses[1].Code == rlsv3.RateLimitResponse_OVER_LIMIT
		})
	}
	for range 2 {
		until(t, "what was given back is there", func() bool {
			return d.call(entries("tenant", "acme", "model", "llama")).OverallCode == rlsv3.RateLimitResponse_OK
		})
	}
}

func TestALookTakesNothing(t *testing.T) {
	d := opened(t, ratelimit.NewLending(nil), limits(t, quota("tokens", "total-tokens", 100)))
	look := hits(0, entries("tenant", "acme", "unit", "total-tokens"))
	for range 200 {
		until(t, "a unit is there to be looked at", func() bool { return d.call(look).OverallCode == rlsv3.RateLimitResponse_OK })
	}
	// What a gateway tells of the end is charged though it is not there, and then a look finds nothing.
	d.ok(hits(150, entries("tenant", "acme", "unit", "total-tokens", "phase", "done")))
	until(t, "the debt is seen", func() bool { return d.call(look).OverallCode == rlsv3.RateLimitResponse_OVER_LIMIT })
}

func TestAShadowIsNeverRefused(t *testing.T) {
	d := opened(t, ratelimit.NewLending(nil), limits(t, quota("requests", "requests", 1)))
	d.ok(entries("tenant", "acme"))
	out := d.ok(entries("tenant", "acme", "shadow", "true"))
	if out.Statuses[0].Code != rlsv3.RateLimitResponse_OK || out.RawBody != nil {
		t.Errorf("a descriptor in shadow: %v", out)
	}
	if n := d.count("anabranch_rls_calls_total", "outcome", outcomeShadow); n != 1 {
		t.Errorf("counted %v that would be refused", n)
	}
	shadow := opened(t, ratelimit.NewLending(nil), limits(t, quota("requests~", "requests", 1, func(q *routerpb.Quota) { q.Shadow = true })))
	for range 3 {
		shadow.ok(entries("tenant", "acme"))
	}
}

// failing is quotas that fail, as a defect would have them.
type failing struct{ Quotas }

func (failing) Take(context.Context, *table.Table, admit.Request) (*admit.Reservation, ratelimit.Decision) {
	panic("a defect")
}

// failingThen is quotas of which every second fails.
type failingThen struct {
	Quotas
	calls *atomic.Int64
}

func (q failingThen) Take(ctx context.Context, t *table.Table, r admit.Request) (*admit.Reservation, ratelimit.Decision) {
	if q.calls.Add(1)%2 == 0 {
		panic("a defect")
	}
	return q.Quotas.Take(ctx, t, r)
}

func TestADefectKeepsNothingOfACall(t *testing.T) {
	lending := ratelimit.NewLending(nil)
	slots := quota("slots", "concurrent-requests", 5, func(q *routerpb.Quota) { q.PeriodMs = 0 })
	d := opened(t, lending, limits(t, slots), func(o *Options) { o.Quotas = failingThen{o.Quotas, &atomic.Int64{}} })
	q := &rlsv3.RateLimitRequest{Domain: DefaultDomain, Descriptors: []*ratelimitv3.RateLimitDescriptor{
		entries("tenant", "acme", "model", "llama", "request_id", "a"), entries("tenant", "acme", "model", "qwen", "request_id", "b"),
	}}
	for range 5 {
		if _, err := d.client.ShouldRateLimit(t.Context(), q); status.Code(err) != codes.Internal {
			t.Fatalf("got %v", err)
		}
	}
	until(t, "all slots are free again", func() bool {
		level, held, ok := lending.Left("acme", "slots")
		return ok && level == 5 && held == 0
	})
}

func TestADefectCostsOneCall(t *testing.T) {
	d := opened(t, ratelimit.NewLending(nil), limits(t, quota("requests", "requests", 1)), func(o *Options) { o.Quotas = failing{} })
	for range 2 {
		q := &rlsv3.RateLimitRequest{Domain: DefaultDomain, Descriptors: []*ratelimitv3.RateLimitDescriptor{entries("tenant", "acme")}}
		if _, err := d.client.ShouldRateLimit(t.Context(), q); status.Code(err) != codes.Internal || strings.Contains(err.Error(), "a defect") {
			t.Errorf("got %v", err)
		}
	}
	if n := d.server.atOnce.Load(); n != 0 {
		t.Errorf("%d calls are still counted as being judged", n)
	}
}

// done tells the end of a request of acme's.
func done(id string, n uint64, unit string) *ratelimitv3.RateLimitDescriptor {
	return hits(n, entries("tenant", "acme", "request_id", id, "phase", "done", "unit", unit))
}

func TestTheEndSettlesWhatTheBeginningReserved(t *testing.T) {
	lending := ratelimit.NewLending(nil)
	d := opened(t, lending, limits(t, quota("output", "output-tokens", 300), quota("slots", "concurrent-requests", 1, func(q *routerpb.Quota) { q.PeriodMs = 0 })))
	begin := func(id string) *ratelimitv3.RateLimitDescriptor { return entries("tenant", "acme", "request_id", id) }
	d.ok(begin("1"))
	if out := d.over(begin("2")); out.Statuses[0].Code != rlsv3.RateLimitResponse_OVER_LIMIT {
		t.Errorf("the second has room: %v", out)
	}
	if n := d.server.open.len(); n != 1 {
		t.Errorf("%d requests are open", n)
	}
	d.ok(done("1", 10, "output-tokens"))
	until(t, "the slot and the reserve are back", func() bool { return d.call(begin("3")).OverallCode == rlsv3.RateLimitResponse_OK })
	d.ok(done("3", 20, "output-tokens"))
	d.ok(done("3", 200, "input-tokens"), done("3", 0, "output-tokens")) // told again: the output charges nothing
	d.stop()
	if level, held, ok := lending.Left("acme", "output"); !ok || level != 270 || held != 0 {
		t.Errorf("left of 300 after 10 and 20: %d, held %d, %v", level, held, ok)
	}
	if level, held, _ := lending.Left("acme", "slots"); level != 1 || held != 0 {
		t.Errorf("slots: %d, held %d", level, held)
	}
}

func TestWhatIsNotHeardOfIsSettledByItsEstimate(t *testing.T) {
	now := at(0)
	lending := ratelimit.NewLending(nil)
	d := opened(t, lending, limits(t, quota("output", "output-tokens", 1000)), func(o *Options) {
		o.Keep = time.Hour
		o.MostOpen = 2
		o.Now = func() time.Time { return now }
	})

	for _, id := range []string{"1", "2", "3", "3"} { // 1 is crowded out, the first 3 is replaced
		d.ok(entries("tenant", "acme", "request_id", id, "output_tokens", "100"))
	}

	now = now.Add(2 * time.Hour)
	d.server.look(health.NewServer())
	if n := d.server.open.len(); n != 0 {
		t.Errorf("%d are still open", n)
	}
	d.stop()
	if level, _, _ := lending.Left("acme", "output"); level != 600 {
		t.Errorf("left of 1000 after four estimates of 100: %d", level)
	}
}
