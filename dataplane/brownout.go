package dataplane

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/queue"
	"anabranch/dataplane/route"
	"anabranch/dataplane/subscribe"
	"anabranch/dataplane/table"
	"anabranch/failover/brownout"
)

// The brown-out: what is given up, step by step, while capacity for a model is short. It goes by what this router sees of
// the places that its requests may go to and of who waits, and by what the table sheds; the ladder is package brownout's.

const (
	// brownoutEvery is the time between two looks at a model.
	brownoutEvery = 500 * time.Millisecond
	// headerBrownout tells a client the step that its model has reached; unset: none.
	headerBrownout = "X-Anabranch-Brownout"
)

// brown is where a model stands.
type brown struct {
	step  atomic.Uint32
	short atomic.Bool                                  // somebody who is not to wait had to, since the last look
	parts atomic.Pointer[map[string]map[int32]float64] // of their requests that tenants may have; nil: all

	mu     sync.Mutex // guards what follows
	ladder brownout.Ladder
	shares brownout.Shares
}

// at is the step that it has reached; of nil none.
func (b *brown) at() brownout.Step {
	if b == nil {
		return brownout.None
	}
	return brownout.Step(b.step.Load())
}

// brownouts are those of all models of the table. The zero brownouts have none.
type brownouts struct {
	all atomic.Pointer[map[fleet.ModelID]*brown] // replaced, never changed
}

// of a model; nil: it is not in the table.
func (b *brownouts) of(model fleet.ModelID) *brown {
	if all := b.all.Load(); all != nil {
		return (*all)[model]
	}
	return nil
}

// applied takes in the models of a table; those that stay stand where they stood.
func (b *brownouts) applied(t *table.Table) {
	all := map[fleet.ModelID]*brown{}
	for _, m := range t.Models() {
		if all[m.ID] = b.of(m.ID); all[m.ID] == nil {
			all[m.ID] = &brown{}
		}
	}
	b.all.Store(&all)
}

// highest is the highest step that a model has reached.
func (b *brownouts) highest() brownout.Step {
	highest := brownout.None
	for _, x := range b.steps() {
		highest = max(highest, x)
	}
	return highest
}

// steps by model.
func (b *brownouts) steps() map[fleet.ModelID]brownout.Step {
	out := map[fleet.ModelID]brownout.Step{}
	if all := b.all.Load(); all != nil {
		for id, x := range *all {
			out[id] = x.at()
		}
	}
	return out
}

// brownOut looks at all models again and again, until ctx ends.
func (r *Router) brownOut(ctx context.Context) error {
	tick := time.NewTicker(brownoutEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			r.lookAround(r.now())
		}
	}
}

// lookAround moves the ladders of all models by what is to be seen now.
func (r *Router) lookAround(now time.Time) {
	t := r.tables.Load()
	if t == nil {
		return
	}
	current := r.o.Sight(now) == subscribe.Current
	for _, m := range t.Models() {
		b, class := r.brown.of(m.ID), t.Class(m.ID)
		if b == nil {
			continue // a table that is about to be taken in has it
		}
		b.look(brownout.Signs{
			Saturation: r.sight.Room(r.legal(t, m.ID), ""),
			Waiting:    b.short.Swap(false),
			Shed:       current && t.Shed(m.ID, class.ID, r.region).Part > 0,
		}, class, now)
	}
}

// legal are the places that the table sends requests for a model to; where it sends none, all that serve it.
func (r *Router) legal(t *table.Table, model fleet.ModelID) []route.Target {
	var out []route.Target
	weights, _ := t.Weights(model, t.Class(model).ID, r.region)
	for _, w := range weights {
		if w.Share > 0 {
			out = append(out, route.Target{Cluster: w.Cluster})
		}
	}
	if len(out) == 0 {
		for _, c := range t.Serving(model) {
			out = append(out, route.Target{Cluster: c})
		}
	}
	return out
}

// look moves the ladder by what is seen.
func (b *brown) look(s brownout.Signs, class *table.Class, now time.Time) {
	if math.IsInf(s.Saturation, 1) { // all are dead: that is for failover, and nothing here would help
		s.Saturation = math.NaN()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ladder = b.ladder.Next(s, class.Brownout, now)
	step := b.ladder.Step()
	b.step.Store(uint32(step))
	if step == brownout.None {
		b.shares.Forget()
		b.parts.Store(nil)
		return
	}
	parts := b.shares.Parts(step, class.Brownout, class.Weights, now)
	b.parts.Store(&parts)
}

// part of its requests that a tenant may have at a tier, 0..1.
func (b *brown) part(tenant fleet.TenantID, priority int32) float64 {
	if parts := b.parts.Load(); parts != nil {
		if x, bound := (*parts)[string(tenant)][priority]; bound {
			return x
		}
	}
	return 1
}

// shorten bounds the answer of a request where answers are cut short. It is never more than what the client asked for.
func (r *Router) shorten(x *trip) {
	step := x.brown.at()
	if step < brownout.ShortBatch || x.hop || x.shadow {
		return
	}
	asked := x.request.MaxTokens
	if most := step.Tokens(x.priority, asked, x.table.Class(x.model.ID).Brownout); most != asked {
		x.most, x.request.MaxTokens = most, most
	}
}

// brownedOut refuses a request whose tenant has had its part while capacity is short, and says in the answer and the
// record how short it is. False: it may go on. As with what the table sheds, quotas come first.
func (r *Router) brownedOut(x *trip) bool {
	step := x.brown.at()
	if step == brownout.None {
		return false
	}
	x.w.Header()[headerBrownout] = []string{strconv.Itoa(int(step))}
	x.record.Brownout = fmt.Sprintf("step %d: %s", step, step)
	if x.most > 0 {
		x.record.Brownout += fmt.Sprintf("; at most %d tokens", x.most)
	}
	tier := queue.Counts(x.priority)
	x.brown.count(&x.brown.shares, (*brownout.Shares).Asked, x, tier)
	switch step.Treats(x.priority) {
	case brownout.Floor, brownout.Fair:
		part := x.brown.part(x.tenant.ID, tier)
		if float64(r.random()>>11)/(1<<53) < part {
			return false
		}
		x.record.Brownout += fmt.Sprintf("; the tenant may have %.0f %% of what it asks for", 100*part)
		x.shed(r.gate.Over(x.priority))
		return true
	}
	return false
}

// count counts what a request asks for, or was let in with.
func (b *brown) count(s *brownout.Shares, how func(*brownout.Shares, string, int32, float64), x *trip, tier int32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	how(s, string(x.tenant.ID), tier, float64(x.prompt+2*x.output))
}

// letIn notes how the gate took a request: one that is not to wait and had to is a sign of a shortage.
func (x *trip) letIn(in, waited bool) {
	b := x.brown
	if b == nil {
		return
	}
	if tier := queue.Counts(x.priority); in && b.at() != brownout.None {
		b.count(&b.shares, (*brownout.Shares).Taken, x, tier)
	}
	if waited && queue.Ceiling(x.priority) >= 0.9 && !b.short.Load() {
		b.short.Store(true)
	}
}

// hold is how a batch request is queued while it is held back.
func (r *Router) hold(x *trip, q *queue.Request) {
	if x.brown.at().Treats(x.priority) == brownout.Held {
		q.Ceiling, q.Held = x.table.Class(x.model.ID).Brownout.WithDefaults().BatchCeiling, true
	}
}
