package admit

import (
	"context"

	"anabranch/api/fleet"
	"anabranch/ratelimit"
)

// Store keeps the levels of organisations and leases parts of them. redisbucket.Lender is one for a
// fleet, ratelimit.Lending one within the process. It is safe for concurrent use.
type Store interface {
	// LeaseAll makes several calls; an answer is for the call at the same place. After an error a call
	// may have been carried out or not, and is repeated as it was. It takes at most the store's own budget.
	LeaseAll(ctx context.Context, calls []ratelimit.In) []ratelimit.Result
	// Healthy is nil while calls about the organisation are worth making, else the reason why not.
	Healthy(org string) error
}

// Stores are those that a router knows. It is safe for concurrent use and answers at once.
type Stores interface {
	// Of finds the store of a region that is some organisation's home; of the empty one it is the
	// router's own. Nil: none is known, and the degraded policies hold.
	Of(home fleet.RegionID) Store
}

// Own are the stores of a router that knows none but its own.
func Own(s Store) Stores { return own{s} }

type own struct{ store Store }

// Of implements Stores.
func (o own) Of(home fleet.RegionID) Store {
	if home != "" {
		return nil
	}
	return o.store
}
