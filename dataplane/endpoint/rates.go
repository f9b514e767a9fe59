package endpoint

import (
	"cmp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

// Beliefs until something has been learned: an 8 B model on an A100, the middle of what is in
// use; a few requests correct them.
const (
	believedOverhead = 0.020    // s of the first-token time that doesn't depend on the prompt
	believedPrefill  = 8000.0   // prompt tokens per second
	believedStep     = 0.012    // s of a decode step with one request
	believedStepMore = 0.000_19 // s more for each further request in the batch
	believedHold     = 3.0      // s that a request keeps its place in the batch
	believedPrompt   = 1000.0   // tokens
	believedOutput   = 200.0    // tokens
	believedAdapter  = 0.5      // s to load a LoRA adapter
	mostAdapter      = 10.0     // s that loading one is ever taken for
)

// Rates are what has been learned of one GPU class serving one model, shared by all endpoints of
// that kind that this router sends to, or of one cluster of another region. Prefill rates come from first-token times against the prompt
// tokens to be computed until then, a request's own and those sent before it, without what was
// cached; only from requests that found room in the batch, since others waited for more than
// prompts. Decode steps come from the time between tokens, less what prompts that were computed
// meanwhile take at the prefill rate, against the requests in the batch.
type Rates struct {
	mu     sync.Mutex // guards what is learned, up to load
	first  line       // first-token time (s) over prompt tokens to compute until then
	step   decode     // time between tokens
	hold   mean       // s from first token to the end
	prompt mean       // tokens
	fresh  mean       // prompt tokens that weren't cached
	output mean       // tokens
	load   mean       // s that the first token came later where an adapter had to be loaded

	now atomic.Pointer[Learned]
}

// Learned is a moment's view of [Rates].
type Learned struct {
	Overhead float64 // s of the first-token time that doesn't depend on the prompt
	Prefill  float64 // uncached prompt tokens per second
	Step     float64 // s of a decode step, with nothing in the batch
	StepMore float64 // s more for each request in the batch
	// StepPrompt is s that a prompt token costs those that decode; 0: not known.
	StepPrompt float64
	Hold       float64 // s that a request keeps its place in the batch
	Adapter    float64 // s to load a LoRA adapter
	// The mix of requests seen, in tokens per request.
	Prompt, Uncached, Output float64
	// Known: enough has been seen to go by; until then these are beliefs.
	Known bool
}

func newRates() *Rates {
	r := &Rates{
		first: line{base: believedOverhead, slope: 1 / believedPrefill, anchor: believedOverhead},
		step:  decode{base: believedStep, more: believedStepMore},
	}
	r.publish()
	return r
}

// Learned is what is known now. It never blocks.
func (r *Rates) Learned() Learned { return *r.now.Load() }

// finished is one request that was answered.
type finished struct {
	prompt, uncached, output float64       // tokens
	ahead                    float64       // prompt tokens that were computed before its own, and
	since                    time.Duration // how long before its beginning that began
	room                     bool          // the batch had room, so that only those were waited for
	loads                    bool          // its adapter was not there
	ttft                     time.Duration // 0: not known
	decode                   time.Duration // first token to the end; 0: not known
	hold                     time.Duration // its place in the batch was taken
	batch                    float64       // requests that decoded while it did, itself among them, and
	beside                   float64       // prompt tokens of others that were computed then
	exact                    bool          // which were counted and not estimated
}

// enough samples of first-token and step times, weighted, to believe a capacity.
const enough = 3

// shortest is how few prompt tokens still say something of the prefill rate.
const shortest = 64

func (r *Rates) learn(f finished) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := f.ahead + f.uncached
	switch {
	case !f.room || f.ttft <= 0:
	case f.loads:
		// What it took beyond its prompt, within what is no queue behind other adapters.
		r.load.learn(min(max((f.since+f.ttft).Seconds()-r.first.at(x), 0), mostAdapter))
	case x >= shortest:
		r.first.learn(x, (f.since + f.ttft).Seconds())
	}
	if f.decode > 0 && f.output >= 8 && (f.beside == 0 || r.first.w >= enough) {
		r.step.learn(gap{f.decode.Seconds() / (f.output - 1), max(f.batch, 1), f.beside / (f.output - 1), f.exact}, r.first.slope)
	}
	if f.hold > 0 {
		r.hold.learn(f.hold.Seconds())
	}
	if f.prompt > 0 {
		r.prompt.learn(f.prompt)
		r.fresh.learn(max(f.uncached, 0))
		r.output.learn(f.output)
	}
	r.publish()
}

func (r *Rates) publish() {
	prompt := r.prompt.or(believedPrompt)
	r.now.Store(&Learned{
		Overhead: r.first.base, Prefill: 1 / max(r.first.slope, 1e-7),
		Step: max(r.step.base, 1e-5), StepMore: r.step.more, StepPrompt: r.step.prompt,
		Hold: r.hold.or(believedHold), Adapter: r.load.or(believedAdapter),
		Prompt: prompt, Uncached: r.fresh.or(prompt), Output: max(r.output.or(believedOutput), 1),
		Known: r.first.w >= enough && r.step.long.w >= enough,
	})
}

// Capacity is the work per second that one endpoint does with so many requests in its batch, at
// the mix of requests seen. A request costs the engine what its uncached prompt costs those that decode,
// or while that isn't known takes at the prefill rate, and its output's share of as many decode steps:
//
//	seconds = uncached × stepPrompt + output × (step + stepMore × batch) / batch
//	work    = prompt + outputWeight × output
//
// in work units: prompt tokens, cached or not, and output tokens times the model's weight.
func (l Learned) Capacity(batch, outputWeight float64) float64 {
	batch = max(batch, 1)
	seconds := l.Uncached*cmp.Or(l.StepPrompt, 1/l.Prefill) + l.Output*(l.Step+l.StepMore*batch)/batch
	return (l.Prompt + outputWeight*l.Output) / seconds
}

// kind is what rates are learned for.
type kind struct {
	class string
	model fleet.ModelID
}

// ownClass and its name is the class of what a cluster hides.
const ownClass = "cluster "

// library keeps the rates of every kind.
type library struct {
	mu    sync.Mutex // guards kinds
	kinds map[kind]*Rates
}

// keep forgets the kinds of models that no cluster of the table serves, and of clusters that it does
// not have. What was learned of a class of GPU stays, whether or not there is any now.
func (l *library) keep(t *table.Table) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k := range l.kinds {
		id, own := strings.CutPrefix(k.class, ownClass)
		if len(t.Serving(k.model)) == 0 || own && t.Clusters[fleet.ClusterID(id)] == nil {
			delete(l.kinds, k)
		}
	}
}

func (l *library) of(k kind) *Rates {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.kinds[k]
	if r == nil {
		if l.kinds == nil {
			l.kinds = make(map[kind]*Rates)
		}
		r = newRates()
		l.kinds[k] = r
	}
	return r
}
