package quotas

import (
	"math"
	"math/rand/v2"
	"time"
)

// Bursts of a stream: a tenth of the time four times as many requests come as on average, for half a
// second on average, and fewer in between.
const (
	burstFactor = 4
	burstPart   = 0.1
	burstTime   = 500 * time.Millisecond
	calmFactor  = (1 - burstPart*burstFactor) / (1 - burstPart)
	calmTime    = burstTime * 9 // (1 − burstPart) / burstPart
	mostTokens  = 16_384
)

// request is one, and what became of it.
type request struct {
	at      int64 // ns
	router  int
	tenant  int
	costs   [levels]int64
	decided bool
}

// stream is the requests of one tenant in one region: a Poisson process whose rate changes by chance
// between calm and burst. What it makes depends on the seed alone.
type stream struct {
	random       *rand.Rand
	first, count int // its routers
	tenant       int
	perSecond    float64 // on average
	mu           float64 // of the logarithm of the tokens
	bursting     bool
	changes      int64 // when the phase ends
}

// next is the stream's first request after now.
func (s *stream) next(now int64) *request {
	for {
		factor, lasts := calmFactor, calmTime
		if s.bursting {
			factor, lasts = burstFactor, burstTime
		}
		if s.changes == 0 {
			s.changes = now + int64(s.random.ExpFloat64()*float64(lasts))
		}
		at := now + int64(s.random.ExpFloat64()/(s.perSecond*factor)*float64(time.Second))
		if at < s.changes {
			tokens := int64(math.Exp(s.mu + s.random.NormFloat64()))
			tokens = min(max(tokens, 1), mostTokens)
			return &request{
				at: at, router: s.first + s.random.IntN(s.count), tenant: s.tenant,
				costs: [levels]int64{1, tokens, 1, tokens},
			}
		}
		now, s.changes, s.bursting = s.changes, 0, !s.bursting
	}
}

// streams are those of all regions and tenants.
func streams(s *Spec) []*stream {
	var all []*stream
	var regions, tenants float64
	for _, r := range s.Regions {
		regions += r.Share
	}
	for _, t := range s.Tenants {
		tenants += t.Share
	}
	total := s.Demand * float64(s.Tokens) / s.MeanTokens
	first := 0
	for i, r := range s.Regions {
		for j, t := range s.Tenants {
			all = append(all, &stream{
				random: rand.New(rand.NewPCG(s.Seed, uint64(i)<<32|uint64(j))),
				first:  first, count: r.Routers, tenant: j,
				perSecond: total * r.Share / regions * t.Share / tenants,
				mu:        math.Log(s.MeanTokens) - 0.5, // mean of a log-normal: exp(μ + σ²/2)
			})
		}
		first += r.Routers
	}
	return all
}
