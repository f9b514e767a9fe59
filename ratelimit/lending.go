package ratelimit

import (
	"context"
	"sync"
	"time"
)

// Lending is a Lender within one process: for one router without a quota store, for tests and for
// simulation. It keeps an account for every organisation that it was ever asked about.
type Lending struct {
	now func() time.Time

	mu       sync.Mutex // guards the rest
	accounts map[string]*Account
	calls    int
}

// NewLending makes a Lender that has never heard of any organisation. A nil now is time.Now.
func NewLending(now func() time.Time) *Lending {
	if now == nil {
		now = time.Now
	}
	return &Lending{now: now, accounts: make(map[string]*Account)}
}

// Lease implements Lender.
func (m *Lending) Lease(ctx context.Context, in In) (Out, error) {
	if err := in.Validate(); err != nil {
		return Out{}, err
	}
	if err := ctx.Err(); err != nil {
		return Out{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.accounts[in.Org]
	if a == nil {
		a = &Account{}
		m.accounts[in.Org] = a
	}
	if m.calls++; m.calls%sweepEvery == 0 {
		for _, a := range m.accounts {
			a.forget()
		}
	}
	return a.Lease(&in, m.now().UnixMicro()), nil
}

// LeaseAll makes several calls; an answer is for the call at the same place.
func (m *Lending) LeaseAll(ctx context.Context, calls []In) []Result {
	out := make([]Result, len(calls))
	for i := range calls {
		out[i].Out, out[i].Err = m.Lease(ctx, calls[i])
	}
	return out
}

// Healthy answers nil: a Lender within the process is always there.
func (m *Lending) Healthy(string) error { return nil }

// sweepEvery is after how many calls silent routers are forgotten.
const sweepEvery = 4096

// Left is what is there of an organisation's limit and what routers hold of it, as after the last
// call about it.
func (m *Lending) Left(org, limit string) (level, held int64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.accounts[org]
	if a == nil {
		return 0, 0, false
	}
	return a.Left(limit)
}

var _ Lender = (*Lending)(nil)
