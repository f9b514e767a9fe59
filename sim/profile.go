package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// gpu is one accelerator: data sheet figures of the dense BF16 variant, and the share of its peak
// that prefill reaches.
type gpu struct {
	flops     float64 // peak, FLOP/s
	bandwidth float64 // peak, bytes/s
	memory    float64 // bytes
	mfu       float64 // model FLOP utilisation in prefill
}

// Figures from NVIDIA's data sheets; utilisation of 0.45 to 0.50 is the middle of what public
// benchmarks of vLLM and TensorRT-LLM imply.
var gpus = map[string]gpu{
	"l40s":    {flops: 181e12, bandwidth: 0.864e12, memory: 48e9, mfu: 0.45},
	"a100-80": {flops: 312e12, bandwidth: 2.039e12, memory: 80e9, mfu: 0.50},
	"h100":    {flops: 989e12, bandwidth: 3.35e12, memory: 80e9, mfu: 0.45},
	"h200":    {flops: 989e12, bandwidth: 4.8e12, memory: 141e9, mfu: 0.45},
}

// network is one dense transformer in BF16, from its published configuration.
type network struct {
	params    float64
	layers    float64
	attention float64        // query heads × head size
	kvBytes   float64        // per token: 2 × layers × KV heads × head size × 2 bytes
	parallel  map[string]int // tensor parallel degree by GPU when the class names none
}

var networks = map[string]network{
	"llama-3.1-8b": {
		params: 8.03e9, layers: 32, attention: 4096, kvBytes: 131072,
		parallel: map[string]int{"l40s": 1, "a100-80": 1, "h100": 1, "h200": 1},
	},
	"llama-3.1-70b": {
		params: 70.6e9, layers: 80, attention: 8192, kvBytes: 327680,
		parallel: map[string]int{"l40s": 8, "a100-80": 8, "h100": 4, "h200": 4},
	},
	"qwen3-32b": {
		params: 32.8e9, layers: 64, attention: 8192, kvBytes: 262144,
		parallel: map[string]int{"l40s": 4, "a100-80": 2, "h100": 2, "h200": 1},
	},
}

// Efficiencies of the roofline.
const (
	bandwidthEfficiency = 0.7                     // share of peak bandwidth that decode reaches
	parallelEfficiency  = 0.9                     // of prefill, when tensor parallel
	memoryShare         = 0.9                     // vLLM's gpu_memory_utilization
	activationBytes     = 2e9                     // per GPU, kept out of the KV cache
	stepOverhead        = 800 * time.Microsecond  // scheduling and launch
	parallelOverhead    = 1500 * time.Microsecond // the same with all-reduce across GPUs
)

// Profile is how fast one pod is: one model on GPUs of one class. It is a roofline estimate,
// ± 30 %, not a measurement. With W the bytes of the weights, B the effective bandwidth and F the
// effective FLOP/s of all its GPUs,
//
//	step = overhead + max(W/B, compute/F) + context × KV bytes per token / B
//
// where compute is 2 × parameters for each new token, and 4 × layers × query heads × head size for
// each token that a prefill token attends to. F is peak × MFU (0.45–0.50) × GPUs (× 0.9 when tensor
// parallel), but the peak for decode tokens, which ride along with the reading of the weights
// until their number makes even that the bottleneck; B is peak × 0.7 × GPUs.
//
// With nothing but Overhead, and Bandwidth and both FLOPS above 0, every step takes the same time: an
// engine is then the servers of queueing theory behind one queue, as many as it has batch slots, and a
// prompt of one token is served for as many steps as it has output tokens.
type Profile struct {
	// Class and Model are the canonical names; Parallel is the number of GPUs.
	Class    string
	Model    string
	Parallel int
	// WeightBytes are read once in each step.
	WeightBytes float64
	// Bandwidth (bytes/s) and FLOPS (FLOP/s, of prefill) are effective, PeakFLOPS is not; all
	// are of all GPUs together.
	Bandwidth float64
	FLOPS     float64
	PeakFLOPS float64
	// TokenFLOPs is the work of a new token, AttentionFLOPs that of attending to one more.
	TokenFLOPs     float64
	AttentionFLOPs float64
	// KVBytes is the KV cache of one token, KVTokens the tokens that fit.
	KVBytes  float64
	KVTokens int
	// Overhead is the fixed time of a step.
	Overhead time.Duration
}

// Lookup gives the profile of a model on a GPU class. Classes are L40S, A100-80, H100 and H200 in
// any case, optionally followed by the number of GPUs ("h100x8"); without it the usual number for
// the model. Models are llama-3.1-8b, llama-3.1-70b and qwen3-32b in any case, with or without the
// vendor's prefix and the suffix -instruct. The error lists what is known, or says what doesn't fit.
func Lookup(class, model string) (Profile, error) {
	name, degree := splitClass(strings.ToLower(class))
	g, ok := gpus[name]
	if !ok {
		return Profile{}, fmt.Errorf("GPU class %q is not one of a100-80, h100, h200, l40s", class)
	}
	m := strings.ToLower(model)
	m = strings.TrimSuffix(m[strings.LastIndexByte(m, '/')+1:], "-instruct")
	n, ok := networks[m]
	if !ok {
		return Profile{}, fmt.Errorf("model %q is not one of llama-3.1-8b, llama-3.1-70b, qwen3-32b", model)
	}
	if degree == 0 {
		degree = n.parallel[name]
	}
	p := profile(g, n, degree)
	p.Class, p.Model = name, m
	if p.KVTokens < BlockSize {
		return Profile{}, fmt.Errorf("%s does not fit on %d × %s", m, degree, name)
	}
	return p, nil
}

func profile(g gpu, n network, degree int) Profile {
	p := Profile{
		Parallel:       degree,
		WeightBytes:    2 * n.params,
		Bandwidth:      g.bandwidth * bandwidthEfficiency * float64(degree),
		FLOPS:          g.flops * g.mfu * float64(degree),
		PeakFLOPS:      g.flops * float64(degree),
		TokenFLOPs:     2 * n.params,
		AttentionFLOPs: 4 * n.layers * n.attention,
		KVBytes:        n.kvBytes,
		Overhead:       stepOverhead,
	}
	if degree > 1 {
		p.FLOPS *= parallelEfficiency
		p.Overhead = parallelOverhead
	}
	free := float64(degree)*(g.memory*memoryShare-activationBytes) - p.WeightBytes
	p.KVTokens = max(0, int(free/n.kvBytes))
	return p
}

// splitClass parts "h100x8" into "h100" and 8; the number is 0 if absent or not 1 to 64.
func splitClass(class string) (string, int) {
	i := strings.LastIndexByte(class, 'x')
	if i < 0 {
		return class, 0
	}
	n, err := strconv.Atoi(class[i+1:])
	if err != nil || n < 1 || n > 64 {
		return class, 0
	}
	return class[:i], n
}

// Load is what one step has to do.
type Load struct {
	// Prefill and Decode are new tokens.
	Prefill, Decode int
	// Attended is, summed over the prefill tokens, how many tokens each attends to.
	Attended float64
	// Context is the total length of the sequences that decode, in tokens.
	Context int
}

// Step is how long a step with this load takes.
func (p *Profile) Step(l Load) time.Duration {
	compute := (float64(l.Prefill)*p.TokenFLOPs+l.Attended*p.AttentionFLOPs)/p.FLOPS +
		float64(l.Decode)*p.TokenFLOPs/p.PeakFLOPS
	seconds := max(p.WeightBytes/p.Bandwidth, compute) + float64(l.Context)*p.KVBytes/p.Bandwidth
	return p.Overhead + time.Duration(seconds*float64(time.Second))
}

// PrefillRate is tokens per second of a prompt of so many tokens with nothing else to do, without
// the fixed times.
func (p *Profile) PrefillRate(tokens int) float64 {
	return p.FLOPS / (p.TokenFLOPs + float64(tokens)/2*p.AttentionFLOPs)
}
