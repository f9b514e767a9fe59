package prices

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel/pricelist"
)

// group is the memory of one Group while its node leads. Only its own goroutine uses it.
type group struct {
	Group
	keeper *Keeper

	asking   bool // since this node began to lead
	revision uint64
	needs    []Need
	list     *pricelist.List // nil: there is nobody to ask
	due      time.Time
	failures int
	unsaid   bool // answers are there that are not committed
}

// step asks if it is time to, and commits what is new.
func (g *group) step(ctx context.Context) {
	k := g.keeper
	if !k.leads() || ctx.Err() != nil {
		k.forgetAsked(g.list)
		*g = group{Group: g.Group, keeper: k}
		return
	}
	view := k.o.View()
	if !g.asking || view.ResourcesRevision() != g.revision {
		g.revision = view.ResourcesRevision()
		if needs := Needs(view); !g.asking || !slices.Equal(needs, g.needs) {
			g.prepare(view, needs)
		}
	}
	if g.list == nil {
		return
	}
	if now := k.o.Now(); !now.Before(g.due) {
		g.list.Refresh(ctx)
		if ctx.Err() != nil {
			return
		}
		g.schedule(k.o.Now())
		g.unsaid = true
	}
	if g.unsaid {
		g.unsaid = !g.commit(ctx)
	}
}

// prepare finds who is to be asked for what clusters need now, and when: at once for what nobody has asked
// for so far, else when it is time again.
func (g *group) prepare(view *state.View, needs []Need) {
	k := g.keeper
	k.forgetAsked(g.list)
	first := !g.asking
	g.asking, g.needs, g.list, g.failures = true, needs, nil, 0
	sources, err := g.Sources(needs)
	if err != nil {
		k.logger.Error("sources of prices can't be asked", "group", g.Name, "error", err)
		return
	}
	if len(sources) == 0 {
		return
	}
	if g.list, err = pricelist.New(pricelist.Options{Sources: sources, Now: k.o.Now, Logger: k.o.Logger}); err != nil {
		k.logger.Error("sources of prices can't be asked", "group", g.Name, "error", err)
		return
	}
	g.due = k.o.Now().Add(time.Duration(k.o.Random() * float64(min(firstWait, g.Every))))
	if first {
		if at, all := lastAsked(view, sources, fingerprint(needs)); all && at.Add(g.Every).After(g.due) {
			g.due = at.Add(g.Every)
		}
	}
	k.note(g.list, g.due)
}

// lastAsked is when the first of the sources was asked last for all that is needed; false: not each of them
// has been.
func lastAsked(view *state.View, sources []pricelist.Source, needs uint64) (at time.Time, all bool) {
	for _, s := range sources {
		known := view.PriceSource(s.Name())
		asked := time.UnixMilli(known.GetAskedUnixMs())
		if known == nil || known.GetNeeds() != needs || known.GetStanding() != string(pricelist.Good) {
			return time.Time{}, false
		}
		if at.IsZero() || asked.Before(at) {
			at = asked
		}
	}
	return at, true
}

// schedule says when to ask again: soon after a failure.
func (g *group) schedule(now time.Time) {
	wait := g.Every
	g.failures++
	failing := false
	for _, s := range g.list.States() {
		if s.Standing == pricelist.Failing {
			failing = true
			g.keeper.metrics.failed(s.Source)
		}
	}
	if failing {
		wait = min(wait, firstRetry<<min(g.failures-1, 10))
	} else {
		g.failures = 0
	}
	wait += time.Duration(float64(wait) * spread * (2*g.keeper.o.Random() - 1))
	g.due = now.Add(wait)
	g.keeper.note(g.list, g.due)
}

// commit proposes what is worth it of the answers; false: that failed.
func (g *group) commit(ctx context.Context) bool {
	k := g.keeper
	for _, a := range g.list.Answers() {
		if a.Standing == pricelist.Unasked {
			continue
		}
		view := k.o.View()
		now := k.o.Now()
		before := view.PriceSource(a.Source)
		next := settle(before, a, g.needs, g.Every, now)
		if !worth(before, next) {
			continue
		}
		k.tellDoubts(before, next)
		put := &statepb.PutPrices{Sources: []*statepb.PriceSource{next}, Repricings: repricings(view, next, now)}
		if sameOffers(before, next) {
			next.Offers, next.SameOffers = nil, len(next.GetOffers()) > 0
		}
		if !k.propose(ctx, put, now) {
			return false
		}
	}
	return true
}

// worth says whether something has changed but ages, or these are not recorded for long.
func worth(before, next *statepb.PriceSource) bool {
	since := func(a, b int64) bool { return b-a >= recordEvery.Milliseconds() }
	return before == nil || before.GetStanding() != next.GetStanding() || before.GetNeeds() != next.GetNeeds() ||
		before.GetEveryMs() != next.GetEveryMs() || (before.GetError() == "") != (next.GetError() == "") ||
		since(before.GetAskedUnixMs(), next.GetAskedUnixMs()) || since(before.GetReadUnixMs(), next.GetReadUnixMs()) ||
		!sameOffers(before, next)
}

func sameOffers(before, next *statepb.PriceSource) bool {
	return slices.EqualFunc(before.GetOffers(), next.GetOffers(), func(a, b *statepb.PriceOffer) bool { return a == b || proto.Equal(a, b) })
}

// propose commits prices; false: it was not possible, and is tried again.
func (k *Keeper) propose(ctx context.Context, put *statepb.PutPrices, now time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c := &statepb.Command{
		Actor: &statepb.Actor{Name: actor, Role: "admin"}, AtUnixMs: now.UnixMilli(), Op: &statepb.Command_PutPrices{PutPrices: put},
	}
	c.Format = state.FormatOf(c)
	out, err := k.o.Propose(ctx, c)
	switch {
	case err != nil:
		k.logger.Info("prices are not committed", "error", err)
		return false
	case out.GetCode() != "": // once more would be refused once more
		k.logger.Error("prices refused", "code", out.GetCode(), "field", out.GetField(), "reason", out.GetMessage())
	}
	return true
}

// actor is who changes prices in the audit trail.
const actor = "system/prices"

// note remembers what the sources of a list say and when they are asked again.
func (k *Keeper) note(list *pricelist.List, next time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range list.States() {
		k.asks[s.Source] = Asked{s, next}
	}
}

// forgetAsked forgets the sources of a list; nil: of none.
func (k *Keeper) forgetAsked(list *pricelist.List) {
	if list == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range list.States() {
		delete(k.asks, s.Source)
	}
}

// tidy forgets sources that this leader does not know, once nobody needs their prices or they are old.
func (k *Keeper) tidy(ctx context.Context) {
	if !k.leads() || ctx.Err() != nil {
		return
	}
	view, now, asked := k.o.View(), k.o.Now(), k.Asked()
	var gone []string
	var needs []Need
	for _, s := range view.PriceSources() {
		if _, known := asked[s.GetName()]; known {
			continue
		}
		if needs == nil {
			needs = Needs(view)
		}
		wanted := slices.ContainsFunc(s.GetOffers(), func(o *statepb.PriceOffer) bool { return needed(needs, state.OfferOf(s, o)) })
		last := max(s.GetReadUnixMs(), s.GetAskedUnixMs())
		settled := now.UnixMilli()-last >= time.Minute.Milliseconds() // a new leader's groups have begun to ask
		if settled && !wanted || now.UnixMilli()-last >= forgetAfter.Milliseconds() {
			gone = append(gone, s.GetName())
		}
	}
	if len(gone) > 0 && k.propose(ctx, &statepb.PutPrices{Gone: gone}, now) {
		k.logger.Info("sources of prices forgotten", "sources", gone)
	}
}
