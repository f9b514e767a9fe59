package ours

import (
	"context"
	"fmt"
	"time"

	"anabranch/ratelimit"
)

// store is the quota store that all routers ask. It can be away.
type store struct {
	lending *ratelimit.Lending
	now     time.Time
	away    bool
}

var errAway = fmt.Errorf("simulated outage: %w", ratelimit.ErrAway)

func newStore() *store {
	s := &store{}
	s.lending = ratelimit.NewLending(func() time.Time { return s.now })
	return s
}

// LeaseAll implements [admit.Store].
func (s *store) LeaseAll(ctx context.Context, calls []ratelimit.In) []ratelimit.Result {
	if !s.away {
		return s.lending.LeaseAll(ctx, calls)
	}
	out := make([]ratelimit.Result, len(calls))
	for i := range out {
		out[i].Err = errAway
	}
	return out
}

// Healthy implements [admit.Store].
func (s *store) Healthy(string) error {
	if s.away {
		return errAway
	}
	return nil
}
