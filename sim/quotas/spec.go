package quotas

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"anabranch/ratelimit"
)

// Region is where routers are.
type Region struct {
	Name string
	// RoundTrip to the quota store and back.
	RoundTrip time.Duration
	// Routers in it; each request meets one of them by chance.
	Routers int
	// Share of the demand, of the sum of all.
	Share float64
}

// Tenant of the organisation.
type Tenant struct {
	Name string
	// Share of the demand, of the sum of all.
	Share float64
	// Part of the organisation's limits that the tenant's own are.
	Part float64
}

// Spec is what is simulated.
type Spec struct {
	Regions []Region
	Tenants []Tenant
	// Requests and Tokens per second are the organisation's limits.
	Requests, Tokens int64
	// Burst of every limit, as the time in which it flows in.
	Burst time.Duration
	// Demand in tokens, as a multiple of the organisation's limit.
	Demand float64
	// MeanTokens of a request. They are spread log-normally with a σ of 1.
	MeanTokens float64
	// Time that passes. Warm of it, in which full buckets run dry, does not count for Used.
	Time, Warm time.Duration
	Fault      Fault
	Seed       uint64
}

// Default is five regions with four routers each, an organisation of 800,000 tokens a second in
// requests of 400 on average, and three tenants, of which two may use more than is left for them.
func Default() Spec {
	s := Spec{
		Tenants:  []Tenant{{"one", 0.5, 0.5}, {"two", 0.3, 0.4}, {"three", 0.2, 0.4}},
		Requests: 2500, Tokens: 800_000, Burst: time.Second,
		Demand: 2, MeanTokens: 400,
		Time: 60 * time.Second, Warm: 10 * time.Second,
		Seed: 1,
	}
	for i, ms := range []int{1, 70, 90, 150, 210} {
		s.Regions = append(s.Regions, Region{
			Name: "region " + strconv.Itoa(i+1), RoundTrip: time.Duration(ms) * time.Millisecond, Routers: 4, Share: 1,
		})
	}
	return s
}

// Validate says what is wrong, or nil.
func (s *Spec) Validate() error {
	switch {
	case len(s.Regions) == 0 || len(s.Tenants) == 0:
		return errors.New("quota simulation: give at least one region and one tenant")
	case s.Demand <= 0 || s.MeanTokens < 1:
		return fmt.Errorf("quota simulation: demand %v and mean tokens %v must be above 0", s.Demand, s.MeanTokens)
	case s.Warm < 0 || s.Time <= s.Warm:
		return fmt.Errorf("quota simulation: time %v must be longer than its warm-up of %v", s.Time, s.Warm)
	}
	for _, r := range s.Regions {
		if r.Routers < 1 || r.Share <= 0 || r.RoundTrip <= 0 {
			return fmt.Errorf("quota simulation: %s: routers, share and round trip must be above 0", r.Name)
		}
	}
	for _, l := range s.limits() {
		if err := l.Validate(); err != nil {
			return fmt.Errorf("quota simulation: %w", err)
		}
	}
	return s.Fault.validate(s)
}

// limits are the organisation's requests and tokens, then each tenant's.
func (s *Spec) limits() []ratelimit.Limit {
	const minute = 60
	limit := func(id string, kind ratelimit.Kind, perSecond float64) ratelimit.Limit {
		return ratelimit.Limit{
			ID: id + "/" + string(kind), Kind: kind, PeriodMs: minute * 1000,
			Amount: int64(perSecond * minute), Burst: max(int64(perSecond*s.Burst.Seconds()), 1),
		}
	}
	limits := []ratelimit.Limit{
		limit("all", ratelimit.Requests, float64(s.Requests)),
		limit("all", ratelimit.TotalTokens, float64(s.Tokens)),
	}
	for _, t := range s.Tenants {
		limits = append(limits,
			limit(t.Name, ratelimit.Requests, float64(s.Requests)*t.Part),
			limit(t.Name, ratelimit.TotalTokens, float64(s.Tokens)*t.Part))
	}
	return limits
}

// shares of the regions, by their demand.
func (s *Spec) shares() []ratelimit.Share {
	usage := make([]int64, len(s.Regions))
	for i, r := range s.Regions {
		usage[i] = int64(r.Share * 1e6)
	}
	shares := make([]ratelimit.Share, len(s.Regions))
	for i, parts := range ratelimit.Shares(usage, 0) {
		shares[i] = ratelimit.Share{Region: s.Regions[i].Name, Parts: parts}
	}
	return shares
}

// The limits' places in limits and in a path.
const (
	orgRequests = iota
	orgTokens
	levels = 4 // of a path: the organisation's and the tenant's
)

// path is the places in limits that a tenant's request passes.
func path(tenant int) [levels]int {
	return [levels]int{orgRequests, orgTokens, 2 + 2*tenant, 3 + 2*tenant}
}
