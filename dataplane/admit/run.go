package admit

import (
	"context"
	"log/slog"
	"time"

	"anabranch/ratelimit"
)

// Run looks for an authority that is away, and when it is back charges it with what was spent in
// its absence before it is asked for decisions again. It blocks until ctx ends, then tries once
// more to bring the accounts home. Stop whoever settles first.
func (a *Admitter) Run(ctx context.Context) error {
	ticks := time.NewTicker(a.probe)
	defer ticks.Stop()
	every := max(1, int(pulse/a.probe))
	for round := 0; ; round++ {
		a.Look(ctx, round%every == 0)
		select {
		case <-ticks.C:
		case <-ctx.Done():
			a.Look(ctx, false)
			if left := a.fallback.owing(); left > 0 {
				a.log.Warn("spending without the quota store was never charged", slog.Int("buckets", left))
			}
			return nil
		}
	}
}

// Look makes one round: a sign of life if asked for or if the last call failed, then the accounts.
// [Admitter.Run] makes them by itself.
func (a *Admitter) Look(ctx context.Context, pulse bool) {
	open := a.breaker.open()
	if open || pulse || a.breaker.doubtful() {
		if err := a.call(ctx, func(ctx context.Context) error { return a.authority.Adjust(ctx, "", nil) }); err != nil {
			return
		}
	}
	if !a.settle(ctx) {
		return
	}
	if open && a.breaker.close() {
		a.log.Info("quota store is back")
		// What was spent between the accounts and the closing.
		a.settle(ctx)
	}
	a.fallback.forget(a.now())
}

// settle charges the authority with all that is owed to it, and says whether it could.
func (a *Admitter) settle(ctx context.Context) bool {
	for _, due := range a.fallback.due() {
		err := a.call(ctx, func(ctx context.Context) error { return a.authority.Adjust(ctx, due.tenant, due.path) })
		if err == nil {
			a.fallback.paid(due.tenant, due.path)
			continue
		}
		if forgone := without(due.path, a.repeatable(due.path, err)); len(forgone) > 0 {
			a.fallback.paid(due.tenant, forgone)
		}
		return false
	}
	return true
}

// without is the part of path that is not kept. Kept is a subsequence of path.
func without(path, kept []ratelimit.Charge) []ratelimit.Charge {
	var out []ratelimit.Charge
	for _, c := range path {
		if len(kept) > 0 && kept[0] == c {
			kept = kept[1:]
			continue
		}
		out = append(out, c)
	}
	return out
}
