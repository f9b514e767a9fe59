package ratelimit_test

import (
	"testing"

	"anabranch/ratelimit"
	"anabranch/ratelimit/ratelimittest"
)

func TestLendingIsALender(t *testing.T) {
	ratelimittest.RunLender(t, 110_000, 3000, func(_ *testing.T, clock *ratelimittest.Clock) ratelimit.Lender {
		return ratelimit.NewLending(clock.Now)
	})
}
