package rls

import (
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"anabranch/ratelimit"
)

// FuzzCall makes calls of whatever a caller may send: each is answered, with a status for each
// descriptor and a code that Envoy knows, or is an error that says why; nothing is kept beyond its bound.
func FuzzCall(f *testing.F) {
	for _, q := range []*rlsv3.RateLimitRequest{
		{Domain: DefaultDomain, Descriptors: []*ratelimitv3.RateLimitDescriptor{entries("tenant", "acme")}},
		{Domain: DefaultDomain, HitsAddend: 7, Descriptors: []*ratelimitv3.RateLimitDescriptor{
			entries("tenant", "acme", "request_id", "1", "output_tokens", "40"), hits(0, entries("tenant", "acme", "unit", "total-tokens", "model", "llama")),
		}},
		{Domain: DefaultDomain, Descriptors: []*ratelimitv3.RateLimitDescriptor{done("1", 1<<63, "total-tokens"), done("1", 5, "input-tokens")}},
		{Domain: DefaultDomain, Descriptors: []*ratelimitv3.RateLimitDescriptor{{IsNegativeHits: true}, entries("key_sha256", hexSum("k-acme"), "shadow", "true")}},
		{Domain: "elsewhere"},
	} {
		b, err := proto.Marshal(q)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	d := opened(f, ratelimit.NewLending(nil), limits(f,
		quota("requests", "requests", 1000), quota("tokens", "total-tokens", 100_000), quota("llama", "output-tokens", 50_000, ofModel("llama")),
	), func(o *Options) { o.MostOpen = 16 })
	f.Fuzz(func(t *testing.T, message []byte) {
		q := &rlsv3.RateLimitRequest{}
		if len(message) > maxMessage || proto.Unmarshal(message, q) != nil {
			return
		}
		out, err := d.server.ShouldRateLimit(t.Context(), q)
		switch {
		case err != nil && out != nil:
			t.Errorf("both an answer and %v", err)
		case status.Code(err) == codes.Internal:
			t.Error("a defect")
		case err != nil:
		case len(out.Statuses) != len(q.Descriptors):
			t.Errorf("%d statuses for %d descriptors", len(out.Statuses), len(q.Descriptors))
		case out.OverallCode == rlsv3.RateLimitResponse_UNKNOWN:
			t.Error("the code is unknown")
		default:
			over := false
			for _, s := range out.Statuses {
				over = over || s.Code == rlsv3.RateLimitResponse_OVER_LIMIT
			}
			if over != (out.OverallCode == rlsv3.RateLimitResponse_OVER_LIMIT) {
				t.Errorf("overall %v, statuses %v", out.OverallCode, out.Statuses)
			}
		}
		if n := d.server.open.len(); n > 16 {
			t.Errorf("%d requests are open", n)
		}
		if d.server.atOnce.Load() != 0 {
			t.Error("a call is still being judged")
		}
	})
}
