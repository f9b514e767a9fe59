package exposition

import "math"

// Load is what a page says of the place that wrote it.
type Load struct {
	// Waiting and Running are requests queued and in the batch; sums over the pool for a gateway,
	// with those that it holds back itself.
	Waiting, Running float64
	// KV is the share 0..1 of the KV cache in use; the mean over the pool for a gateway.
	KV float64
	// KVTokens is how many tokens the KV cache has room for, MaxBatch how many requests the batch
	// takes; 0 if not told.
	KVTokens, MaxBatch float64
	// MaxLoRA is how many adapters fit, 0 if not told; Adapters are those in use, the first InBatch
	// of them by requests in the batch.
	MaxLoRA  int
	Adapters []string
	InBatch  int
	// Ready is how many endpoints a gateway's pool has ready; -1 if it isn't told, or no gateway.
	Ready int
	// Saturation is what the gateway itself calls so; -1 if not told or not to be believed.
	Saturation float64
	// Generated tokens so far, to see progress; -1 if not told.
	Generated float64
	// PrefixAsked and PrefixFound are prompt tokens looked up in the prefix cache so far, and found;
	// 0 if not told.
	PrefixAsked, PrefixFound float64
	// Mark differs where anything read has.
	Mark uint64
}

// MaxLoRA bounds what is believed of how many adapters fit.
const MaxLoRA = 1024

// maxReady bounds what is believed of how many endpoints are ready.
const maxReady = 1e6

// Load turns what was read into a load. A gateway's means are turned into sums, but without a ready
// endpoint they are frozen at what they were last, and worth nothing. A saturation of exactly 1 may
// mean that the pool is empty or its signals old, so it counts only with a queue beside it, and none
// does while the gateway finds the signals of all its endpoints too old.
func (r *Page) Load() Load {
	l := Load{
		Waiting: r.sums[waiting], Running: r.sums[running], KV: min(r.sums[kvUsage], 1),
		MaxBatch: r.sums[maxBatch], KVTokens: r.sums[kvTokens],
		Ready: -1, Saturation: -1, Generated: -1,
	}
	var read [signals + 1]float64
	copy(read[:], r.sums[:])
	read[signals] = r.loraAt
	l.Mark = Mark(read[:]...)
	if !r.found[kvTokens] {
		l.KVTokens = r.sums[kvBlocks] * r.sums[blockTokens]
	}
	inBatch := names(r.inBatch)
	l.MaxLoRA, l.InBatch, l.Adapters = min(r.maxLoRA, MaxLoRA), len(inBatch), append(inBatch, names(r.queued)...)
	if r.found[tokensOut] {
		l.Generated = r.sums[tokensOut]
	}
	if r.found[prefixFound] {
		l.PrefixAsked, l.PrefixFound = r.sums[prefixAsked], r.sums[prefixFound]
	}
	if !r.found[poolReady] && !r.found[poolWaiting] {
		return l
	}
	servers := 1.0
	if r.found[poolReady] {
		l.Ready = int(min(r.sums[poolReady], maxReady))
		servers = float64(l.Ready)
	}
	l.Waiting, l.Running = r.sums[poolWaiting]*servers+r.sums[poolHeld], r.sums[poolRunning]*servers
	l.KV = min(r.sums[poolKV], 1)
	blind := r.sums[poolStale] > 0 && r.sums[poolStale] >= servers
	if v := r.sums[poolSaturation]; r.found[poolSaturation] && !blind && (v != 1 || l.Waiting > 0) {
		l.Saturation = v
	}
	return l
}

// Mark is a hash of numbers in their order, to tell pages apart on which something that is read has
// changed.
func Mark(values ...float64) uint64 {
	h := uint64(fnvBasis)
	for i, v := range values {
		h = (h ^ math.Float64bits(v) ^ uint64(i)) * fnvPrime
	}
	return h
}
