package workload

import (
	"time"

	"anabranch/api/fleet"
	"anabranch/sim"
)

// Request is one arrival.
type Request struct {
	// ID tells the requests of a source apart.
	ID uint64
	// At is when it arrives, since the start of the workload.
	At time.Duration
	// Region is where its client is. Empty: the workload names no regions.
	Region fleet.RegionID
	// Tenant is who pays, and Model what is asked for. Empty: the workload names none.
	Tenant fleet.TenantID
	Model  fleet.ModelID
	// Adapter is the LoRA adapter. Empty: the base model.
	Adapter string
	// Priority is on the scale of the tiers: -10 batch, 0 best effort, 50 standard, 100 top.
	Priority int32
	// Class is the traffic class. Empty: the tenant's default.
	Class fleet.ClassID
	// Session is the conversation that it is a turn of. 0: none, or the workload doesn't say.
	Session uint64
	// PromptTokens and OutputTokens are lengths, at least 1 each.
	PromptTokens, OutputTokens int
	// Blocks is the hash chain over full blocks of [sim.BlockSize] tokens, as in [sim.Request]: equal
	// hashes mean equal beginnings. Shorter than the prompt: the rest is not shareable. Requests may
	// share the array behind it, which never changes.
	Blocks []uint64
}

// Chain appends the hash chain of the whole prompt: Blocks, and then blocks that are this request's
// own. It is what a server's prefix cache stores, for it can't know what nobody will ask again.
func (r *Request) Chain(to []uint64) []uint64 {
	full := r.PromptTokens / sim.BlockSize
	shared := r.Blocks[:min(len(r.Blocks), full)]
	to = append(to, shared...)
	own := mix(tagOwn, r.ID)
	if n := len(shared); n > 0 {
		own = mix(shared[n-1], own)
	}
	return extend(to, own, full-len(shared))
}
