package dataplane

import (
	"net/http"

	"anabranch/dataplane/admit"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/route"
	"anabranch/dataplane/subscribe"
	"anabranch/dataplane/table"
	"anabranch/dataplane/trace"
)

// obey finds what policy says of the request: its rule, the arm of a split, the model that is really
// asked for, and its class. False: it has been answered.
func (r *Router) obey(x *trip, q *http.Request, asked *table.Model, adapter string) bool {
	if x.hop {
		if !x.told(q.Header) {
			return false
		}
	} else if x.rule = x.table.Rule(asked, x.tenant, q.URL.Path, q.Header); x.rule != nil {
		if i := route.Draw(x.rule.Arms, x.key); i >= 0 {
			x.arm = &x.rule.Arms[i]
		}
	}
	name, only := x.rule.Wants(x.arm)
	if x.shadow {
		only = x.rule.Shadow.Clusters
	}
	model := asked
	if name != "" && !x.hop { // over a hop the body has the new name already
		var ok bool
		if model, adapter, ok = x.table.Model(name); !ok {
			x.refuse(unknownModel(name)) // can't be: the table was validated
			return false
		}
	}
	x.only = only
	r.models(x, model, adapter)
	route.Under(x.asks(), x.request.Blocks)
	return true
}

// told takes over the rule and the arm that the peer has found. False: this router's table has no such
// rule, being newer or older, so that what it narrows is not known here; the peer is told to go
// elsewhere.
func (x *trip) told(h http.Header) bool {
	policy, arm := h.Get(headerPolicy), h.Get(headerArm)
	if policy == "" {
		return true
	}
	if x.rule = x.table.RuleOf(policy); x.rule != nil && arm != "" {
		x.arm, x.shadow = x.rule.Arm(arm), arm == shadowArm && x.rule.Shadow != nil
	}
	if x.rule == nil || arm != "" && x.arm == nil && !x.shadow {
		x.refuse(unroutable(route.NoLegalTarget))
		return false
	}
	return true
}

// models fills in what follows from the model.
func (r *Router) models(x *trip, m *table.Model, adapter string) {
	x.model, x.adapter = m, adapter
	x.trail.Tenant, x.trail.Copy, x.trail.Adapter = x.tenant.ID, x.shadow, adapter != ""
	x.class = x.table.ClassOf(x.rule, m.ID)
	if c, ok := x.table.ClassNamed(x.wanted, m.ID); ok && x.wanted != "" {
		x.class = c
	}
	x.brown = r.brown.of(m.ID)
	r.shorten(x)
	x.expects = r.estimates
	x.prompt = r.estimates.Input(x.tenant.ID, m.ID, x.request.PromptBytes)
	x.output = admit.OutputTokens(x.request.MaxTokens)
	x.record.Model, x.record.Adapter, x.record.Class = m.ID, adapter, x.class.ID
	x.record.Policy, x.record.Arm = x.policy(), x.armID()
	x.span.Asked(&trace.Asked{
		ID: x.id, Tenant: string(x.record.Tenant), API: x.request.API, Model: x.asks(), Class: string(x.class.ID),
		Stream: x.request.Stream, MaxTokens: x.request.MaxTokens,
	})
	x.load = endpoint.Load{
		Tenant: x.tenant.ID, Model: m.ID, Adapter: adapter, PromptTokens: x.prompt, PromptBytes: x.request.PromptBytes,
		Blocks: x.request.Blocks, Stream: x.request.Stream,
	}
}

// answer is how many tokens the answer will have, as far as can be known: as many as usual, or as the
// request allows. Quotas reserve more, to be safe; demand is held against what places do.
func (r *Router) answer(x *trip) int64 {
	n := r.places.Answer(x.model.ID, x.output)
	if m := x.request.MaxTokens; m > 0 {
		n = min(n, m)
	}
	return n
}

// policy and armID name the rule and the arm; empty: there is none.
func (x *trip) policy() string {
	if x.rule == nil {
		return ""
	}
	return x.rule.Policy
}

func (x *trip) armID() string {
	if x.arm == nil {
		return ""
	}
	return x.arm.ID
}

// asks is the name that places know what is asked for by: the adapter's, or the base model's.
func (x *trip) asks() string {
	if x.adapter != "" {
		return x.adapter
	}
	return string(x.model.ID)
}

// bodyFor is the request as a place gets it: with the name that the model has there, and asking for
// usage. It is made once for each name. Another region's router is told the name that all routers know;
// what its cluster calls the model is for it to say.
func (x *trip) bodyFor(p *place) []byte {
	name := x.asks()
	if p.endpoint != nil {
		name = p.target.Cluster.NameOf(name)
	}
	if x.out == nil || x.outName != name {
		x.out, x.outName = x.request.Rewrite(x.body, name, true, x.most), name
	}
	return x.out
}

// choose picks the clusters.
func (r *Router) choose(x *trip) {
	in := route.Input{
		Table: x.table, Region: r.region, Model: x.model, Class: x.class, Tenant: x.tenant, Only: x.only,
		Key: x.key, Hop: x.hop, Ceiling: x.ceiling(), Local: r.local,
	}
	if sight := r.o.Sight(r.now()); sight != subscribe.Current {
		in.Stale, in.Alone = true, sight == subscribe.Alone
		x.record.Sight = sight.String()
	}
	if x.rule != nil {
		in.Residency = x.rule.Residency
	}
	x.orders(r.o.Orders(), &in)
	r.drilling(x, &in)
	r.sight.Choose(&x.choice, &in, &x.load)
	if x.choice.Code != "" && r.lift(x) {
		in.Drill, in.Rehearsed = nil, nil
		r.sight.Choose(&x.choice, &in, &x.load)
	}
	x.record.chose(&x.choice, r.signalAge)
}
