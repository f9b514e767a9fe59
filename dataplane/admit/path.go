package admit

import (
	"log/slog"

	"anabranch/dataplane/table"
	"anabranch/ratelimit"
)

// step is one charge of a path with the policy for when the authority is away.
type step struct {
	charge   ratelimit.Charge
	degraded string  // share | open | closed
	share    float64 // 0..1: this router's part of the limit
}

// path lists what a ticket's request costs at each of its quotas.
func (a *Admitter) path(t *table.Table, ticket Ticket) []step {
	quotas := t.Quotas(ticket.Tenant, ticket.Model)
	if len(quotas) == 0 {
		return nil
	}
	routers := 1
	if r := t.Regions[a.region]; r != nil {
		routers = max(1, len(r.PeerURLs))
	}
	steps := make([]step, 0, len(quotas))
	for _, q := range quotas {
		l := ratelimit.Limit{
			ID:       q.ID,
			Kind:     ratelimit.Kind(q.Kind),
			Amount:   q.Limit,
			PeriodMs: q.PeriodMs,
			Burst:    q.Burst,
		}
		if err := l.Validate(); err != nil || len(steps) == ratelimit.MaxPath {
			a.metrics.uncounted()
			a.log.Debug("quota can't be counted and limits nothing", slog.String("quota", q.ID), slog.Any("error", err))
			continue
		}
		steps = append(steps, step{
			charge:   ratelimit.Charge{Limit: l, Cost: Cost(l.Kind, 1, ticket.Input, ticket.Output)},
			degraded: q.Degraded,
			share:    q.Share / float64(routers),
		})
	}
	return steps
}

func charges(steps []step) []ratelimit.Charge {
	if len(steps) == 0 {
		return nil
	}
	out := make([]ratelimit.Charge, len(steps))
	for i := range steps {
		out[i] = steps[i].charge
	}
	return out
}
