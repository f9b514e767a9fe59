package ours

import (
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/admit"
	"anabranch/dataplane/dispatch"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/inference"
	"anabranch/dataplane/pick"
	"anabranch/dataplane/queue"
	"anabranch/dataplane/route"
	"anabranch/dataplane/table"
	"anabranch/sim"
	"anabranch/sim/workload"
	"anabranch/sim/world"
)

// trip is one request at one router: as dataplane's of the name.
type trip struct {
	request workload.Request
	asker   *hop // of whom it comes; nil: of a client

	table    *table.Table
	tenant   *table.Tenant
	priority int32
	model    *table.Model
	class    *table.Class
	rule     *table.Rule
	arm      *table.Arm
	only     []fleet.ClusterID
	key      uint64
	prefix   uint64
	prompt   int64
	output   int64
	load     endpoint.Load
	// reservation of its quotas; nil: it has none yet, or was refused.
	reservation *admit.Reservation

	choice route.Choice
	trail  dispatch.Trail
	walk   dispatch.Walk
	spot   spot
	pass   *queue.Pass
	wait   *queue.Wait
	came   time.Time
	until  time.Time
	// returns is how often it has come back from places without room, rests until when it does before it
	// asks again; zero: it does not.
	returns int
	rests   time.Time
	made    int // attempts
	before  int // of these, before the present round
	// reached: a place may have seen it.
	reached bool
	blocks  []uint64
}

// spot is where an attempt goes: dataplane's place.
type spot struct {
	target   *route.Target
	cluster  *endpoint.Cluster
	endpoint *endpoint.Endpoint // nil: in another region
	reason   pick.Reason
	among    int
}

// newTrip is an empty one.
func (ro *router) newTrip(r *workload.Request, asker *hop) *trip {
	var t *trip
	if n := len(ro.idle); n > 0 {
		t = ro.idle[n-1]
		ro.idle = ro.idle[:n-1]
		t.trail.Again()
		*t = trip{choice: t.choice, trail: t.trail, blocks: t.blocks[:0]}
	} else {
		t = &trip{}
	}
	t.request, t.asker, t.table = *r, asker, ro.table
	return t
}

// drop lets a trip be used again. Nobody may speak of it any more.
func (ro *router) drop(t *trip) {
	t.pass, t.wait = nil, nil
	ro.idle = append(ro.idle, t)
}

// perBlock is how many blocks of an engine one block of the router's chain stands for.
const perBlock = inference.BlockBytes / (sim.BlockSize * sim.BytesPerToken)

// read makes of a request what dataplane/inference makes of its body: the chain of the beginning of its
// prompt, block by block of 1 KiB of text and salted by tenant.
func (ro *router) read(t *trip) {
	r := &t.request
	ro.allHash = r.Chain(ro.allHash[:0])
	salt := route.Salt(t.tenant.ID)
	for i := perBlock - 1; i < len(ro.allHash) && len(t.blocks) < inference.MaxBlocks; i += perBlock {
		t.blocks = append(t.blocks, world.Mix(ro.allHash[i]^salt))
	}
	t.load.PromptBytes = r.PromptTokens * sim.BytesPerToken
}

// beginning is a hash of the first bytes of the prompt that was read last, in whole blocks of an engine.
func (ro *router) beginning(bytes int) uint64 {
	n := min(bytes/(sim.BlockSize*sim.BytesPerToken), len(ro.allHash))
	if n == 0 {
		return 0
	}
	return pick.Key(ro.allHash[n-1], "")
}

// asks is the name that places know what is asked for by.
func (t *trip) asks() string {
	if t.request.Adapter != "" {
		return t.request.Adapter
	}
	return string(t.model.ID)
}

// path is what rules see of the simulated requests.
const path = "/v1/chat/completions"

// obey finds what policy says of a request: its rule, the arm of a split, and its class. False: the
// table has no such model. Wanted is the class that a peer tells; empty: none does.
func (ro *router) obey(t *trip, told *hop) bool {
	asked, _, ok := t.table.Model(string(t.request.Model))
	if !ok {
		return false
	}
	t.model = asked
	switch {
	case told == nil:
		if t.rule = t.table.Rule(asked, t.tenant, path, nil); t.rule != nil {
			if i := route.Draw(t.rule.Arms, t.key); i >= 0 {
				t.arm = &t.rule.Arms[i]
			}
		}
	case told.policy != "":
		if t.rule = t.table.RuleOf(told.policy); t.rule == nil {
			return false // a newer table or an older one: what it narrows is not known here
		}
		if told.arm != "" {
			if t.arm = t.rule.Arm(told.arm); t.arm == nil {
				return false
			}
		}
	}
	_, t.only = t.rule.Wants(t.arm)
	t.class = t.table.ClassOf(t.rule, asked.ID)
	wanted := t.request.Class
	if told != nil {
		wanted = told.class
	}
	if c, ok := t.table.ClassNamed(wanted, asked.ID); ok && wanted != "" {
		t.class = c
	}
	return true
}

// begin takes in a request: whose it is, what policy says of it, and what it is to an endpoint.
func (ro *router) begin(t *trip, told *hop) bool {
	t.tenant = ro.tenant(t.request.Tenant)
	t.priority = max(min(t.request.Priority, t.tenant.Priority), lowest)
	ro.read(t)
	t.key = ro.affinity.Key(t.blocks, ro.random.Uint64(), ro.now)
	if !ro.obey(t, told) {
		return false
	}
	if t.class.PickMode == pick.PrefixHash.String() {
		t.prefix = ro.beginning(t.class.PrefixLength)
	}
	route.Under(t.asks(), t.blocks)
	t.prompt = admit.InputTokens(t.load.PromptBytes)
	t.output = admit.OutputTokens(0)
	t.load = endpoint.Load{
		Tenant: t.tenant.ID, Model: t.model.ID, Adapter: t.request.Adapter,
		PromptTokens: t.prompt, PromptBytes: t.load.PromptBytes, Blocks: t.blocks, Stream: true,
	}
	t.trail.Tenant, t.trail.Adapter = t.tenant.ID, t.request.Adapter != ""
	t.came, t.until = ro.now, ro.now.Add(t.class.Queue)
	return true
}

// lowest priority that a request can ask for.
const lowest = -10

// choose picks the clusters.
func (ro *router) choose(t *trip) {
	stale, alone := ro.believes()
	ro.input = route.Input{
		Table: t.table, Region: ro.region, Model: t.model, Class: t.class, Tenant: t.tenant, Only: t.only,
		Key: t.key, Hop: t.asker != nil, Ceiling: queue.Ceiling(t.priority), Local: ro.local, Stale: stale, Alone: alone,
	}
	if t.rule != nil {
		ro.input.Residency = t.rule.Residency
	}
	ro.sight.Choose(&t.choice, &ro.input, &t.load)
}
