package rest

import (
	"context"
	"time"
)

// patience is for how long a question that is dear waits for others to be answered: a page asks several at once, and most
// are answered within this time.
const patience = 2 * time.Second

// turns are for questions that take a processor for long: so many are answered at a time.
type turns struct {
	taken    chan struct{}
	patience time.Duration
	busy     string // what is said to whom no place came free
}

func newTurns(n int, busy string) *turns {
	return &turns{make(chan struct{}, n), patience, busy}
}

// take waits a moment for a place, which leave gives back. The error says that none came free, or is ctx's.
func (p *turns) take(ctx context.Context) (leave func(), err error) {
	leave = func() { <-p.taken }
	select {
	case p.taken <- struct{}{}:
		return leave, nil
	default:
	}
	wait := time.NewTimer(p.patience)
	defer wait.Stop()
	select {
	case p.taken <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-wait.C:
		return nil, newProblem(codeBusy, p.busy+" Try again, or another node.").after(time.Second)
	}
}
