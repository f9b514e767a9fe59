package rls

import (
	"math"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"anabranch/dataplane/admit"
	"anabranch/dataplane/proxy"
	"anabranch/ratelimit"
)

// verdict is what was found of an ask.
type verdict struct {
	*ask
	ratelimit.Decision
}

// refused says whether the ask's requests are to be kept from going on.
func (v *verdict) refused() bool { return !v.Allowed && !v.shadow }

// nothing answers a call of so many descriptors none of which has a limit.
func nothing(descriptors int) *rlsv3.RateLimitResponse {
	statuses := make([]rlsv3.RateLimitResponse_DescriptorStatus, descriptors)
	out := &rlsv3.RateLimitResponse{
		OverallCode: rlsv3.RateLimitResponse_OK,
		Statuses:    make([]*rlsv3.RateLimitResponse_DescriptorStatus, descriptors),
	}
	for i := range statuses {
		statuses[i].Code = rlsv3.RateLimitResponse_OK
		out.Statuses[i] = &statuses[i]
	}
	return out
}

// answer puts the verdicts on a call into words. A descriptor that no verdict is about is OK and has no
// limit.
func answer(wishes []wish, verdicts []verdict) *rlsv3.RateLimitResponse {
	out := nothing(len(wishes))
	var tell *verdict // the one whose headers the client sees
	for i := range verdicts {
		v := &verdicts[i]
		v.tell(out.Statuses, wishes)
		if v.Tightest >= 0 && (tell == nil || v.refused() && !tell.refused()) {
			tell = v
		}
		if v.refused() {
			out.OverallCode = rlsv3.RateLimitResponse_OVER_LIMIT
		}
	}
	if tell == nil {
		return out
	}
	seen := tell.Decision
	seen.Allowed = !tell.refused()
	out.ResponseHeadersToAdd = headers(&seen)
	if !seen.Allowed {
		out.RawBody = body(seen)
	}
	return out
}

// tell fills in the statuses of the ask's descriptors. Of one that was refused those are over their
// limit whose sort of limit refused; if no descriptor is of that sort, all are.
func (v *verdict) tell(statuses []*rlsv3.RateLimitResponse_DescriptorStatus, wishes []wish) {
	named := false
	for i, s := range statuses {
		if !v.has(i) {
			continue
		}
		standing := &v.Requests
		if wishes[i].unit != UnitRequests {
			standing = &v.Tokens
		}
		if standing.Limit.Amount != 0 {
			s.CurrentLimit = rate(standing.Limit)
			s.LimitRemaining = saturated(standing.Remaining)
			s.DurationUntilReset = durationpb.New(time.Duration(standing.ResetMs) * time.Millisecond)
		}
		if v.refused() && standing.Limit == v.Limit {
			s.Code, s.LimitRemaining, named = rlsv3.RateLimitResponse_OVER_LIMIT, 0, true
		}
	}
	if v.refused() && !named {
		for i, s := range statuses {
			if v.has(i) {
				s.Code, s.LimitRemaining = rlsv3.RateLimitResponse_OVER_LIMIT, 0
			}
		}
	}
}

// spans are the units of time that an answer may name, the largest first. Months and years have no
// fixed length.
var spans = []struct {
	ms   int64
	unit rlsv3.RateLimitResponse_RateLimit_Unit
}{
	{7 * 24 * 3600 * 1000, rlsv3.RateLimitResponse_RateLimit_WEEK},
	{24 * 3600 * 1000, rlsv3.RateLimitResponse_RateLimit_DAY},
	{3600 * 1000, rlsv3.RateLimitResponse_RateLimit_HOUR},
	{60 * 1000, rlsv3.RateLimitResponse_RateLimit_MINUTE},
	{1000, rlsv3.RateLimitResponse_RateLimit_SECOND},
}

// rate is a limit in the terms of the protocol: a period that is a multiple of a unit has a
// multiplier; one with a fraction of a second has no unit, nor has one without a period.
func rate(l ratelimit.Limit) *rlsv3.RateLimitResponse_RateLimit {
	r := &rlsv3.RateLimitResponse_RateLimit{Name: l.ID, RequestsPerUnit: saturated(l.Amount)}
	for _, s := range spans {
		if l.PeriodMs > 0 && l.PeriodMs%s.ms == 0 {
			r.Unit = s.unit
			if n := l.PeriodMs / s.ms; n > 1 {
				r.UnitMultiplier = wrapperspb.UInt32(saturated(n))
			}
			break
		}
	}
	return r
}

func saturated(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// lower are the names of headers as HTTP/2 writes them.
var lower = map[string]string{}

func init() {
	for _, name := range []string{
		"X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests",
		"X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens",
		"Ratelimit-Policy", "Ratelimit", "Retry-After", "Retry-After-Ms", "X-Should-Retry",
	} {
		lower[name] = strings.ToLower(name)
	}
}

// headers are those that the router answers clients with. Envoy adds them to its own answer.
func headers(d *ratelimit.Decision) []*corev3.HeaderValue {
	all := make([]corev3.HeaderValue, 0, 10)
	admit.EachHeader(d, func(name, value string) {
		key, ok := lower[name]
		if !ok {
			key = strings.ToLower(name)
		}
		all = append(all, corev3.HeaderValue{Key: key, Value: value})
	})
	if !d.Allowed {
		// Of the body, in place of Envoy's text/plain.
		all = append(all, corev3.HeaderValue{Key: "content-type", Value: "application/json"})
	}
	out := make([]*corev3.HeaderValue, len(all))
	for i := range all {
		out[i] = &all[i]
	}
	return out
}

// body is the refusal as OpenAI's clients read it.
func body(d ratelimit.Decision) []byte {
	words := admit.Deny(d)
	return (&proxy.Error{Type: words.Type, Code: words.Code, Message: words.Message, Origin: proxy.FromQuota}).JSON()
}
