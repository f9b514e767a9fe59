package ours

import (
	"context"
	"fmt"
	"time"

	"anabranch/ratelimit"
)

// store is the quota store that all routers ask. It can be away.
type store struct {
	memory *ratelimit.Memory
	now    time.Time
	away   bool
}

var errAway = fmt.Errorf("simulated outage: %w", ratelimit.ErrAway)

// Take implements [ratelimit.Authority].
func (s *store) Take(ctx context.Context, tenant string, path []ratelimit.Charge) (ratelimit.Decision, error) {
	if s.away {
		return ratelimit.Decision{}, errAway
	}
	return s.memory.Take(ctx, tenant, path)
}

// Adjust implements [ratelimit.Authority].
func (s *store) Adjust(ctx context.Context, tenant string, path []ratelimit.Charge) error {
	if s.away {
		return errAway
	}
	return s.memory.Adjust(ctx, tenant, path)
}
