package ratelimit

import (
	"context"
	"errors"
	"fmt"
)

// MaxPath is the most limits that one request may pass.
const MaxPath = 32

// Charge is one step of a request's path: what it costs at one limit.
type Charge struct {
	Limit Limit
	// Cost in the limit's units. Take wants >= 0; for Adjust above 0 charges and below refunds.
	Cost int64
}

// Authority keeps the buckets of tenants. All callers of one authority see the same buckets.
// Implementations are safe for concurrent use.
type Authority interface {
	// Take charges every step of the path, or none if one of them lacks the units: a refused
	// request costs none of its siblings. The error tells that nobody decided; an [ErrAway] that
	// nothing was charged, any other error that it may have been.
	Take(ctx context.Context, tenant string, path []Charge) (Decision, error)
	// Adjust settles: it charges (down to a debt of the burst) and refunds (never above the
	// burst), and refuses nothing. An empty path changes nothing and asks whether the authority
	// is there and fit to decide. Errors are as for Take.
	Adjust(ctx context.Context, tenant string, path []Charge) error
}

// ErrAway is wrapped by errors of an Authority that could not be asked at all: the call surely
// changed nothing and may be repeated.
var ErrAway = errors.New("quota store is away")

// ErrUnfit is wrapped by errors of an Authority that answers but must not be relied on, such as a
// store that may forget buckets at will. The message says how to put it right.
var ErrUnfit = errors.New("quota store is unfit")

// CheckPath says what is wrong with a path, or nil: a limit that is not valid or stands in it
// twice, or too many of them.
func CheckPath(tenant string, path []Charge) error {
	if tenant == "" {
		return errors.New("tenant is empty")
	}
	if len(path) > MaxPath {
		return fmt.Errorf("path of %s has %d limits, at most %d are counted together", tenant, len(path), MaxPath)
	}
	for i := range path {
		if err := path[i].Limit.Validate(); err != nil {
			return fmt.Errorf("path of %s: %w", tenant, err)
		}
		for j := range i {
			if path[i].Limit.ID == path[j].Limit.ID {
				return fmt.Errorf("path of %s: limit %s stands in it twice", tenant, path[i].Limit.ID)
			}
		}
	}
	return nil
}

// CheckTake is [CheckPath] for a path to be taken: no cost may be below 0.
func CheckTake(tenant string, path []Charge) error {
	for i := range path {
		if path[i].Cost < 0 {
			return fmt.Errorf("path of %s: limit %s: cost %d is below 0", tenant, path[i].Limit.ID, path[i].Cost)
		}
	}
	return CheckPath(tenant, path)
}

// Bounded is the cost, cut to what can make a difference to the limit's bucket: a little more than
// from full to the deepest debt, either way. Costs so bounded multiply exactly.
func (c Charge) Bounded() int64 {
	most := 2*c.Limit.Burst + 1
	return min(max(c.Cost, -most), most)
}

// TakeAll is the pure form of Authority.Take on the buckets of a path, which it changes in place:
// refill all, then take all or none. buckets[i] belongs to path[i].
func TakeAll(path []Charge, buckets []Bucket, nowUs int64) bool {
	allowed := true
	for i := range path {
		buckets[i] = buckets[i].Refill(path[i].Limit, nowUs)
		allowed = allowed && buckets[i].Level >= path[i].Bounded()
	}
	if !allowed {
		return false
	}
	for i := range path {
		buckets[i], _ = buckets[i].Take(path[i].Bounded())
	}
	return true
}

// AdjustAll is the pure form of Authority.Adjust on the buckets of a path, which it changes in
// place.
func AdjustAll(path []Charge, buckets []Bucket, nowUs int64) {
	for i := range path {
		l, cost := path[i].Limit, path[i].Bounded()
		buckets[i] = buckets[i].Refill(l, nowUs)
		if cost < 0 {
			buckets[i] = buckets[i].Give(l, -cost)
		} else {
			buckets[i] = buckets[i].Charge(l, cost)
		}
	}
}
