package meter

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"anabranch/api/fleet"
)

const (
	// BytesPerToken is what a token is taken for until something is known: the usual length in English.
	BytesPerToken = 4
	// leastPerToken and mostPerToken bound what is learned of it. A byte is a token at the most; text of
	// which a token has more than twice the usual bytes is made to be so, and whoever sends it shall not have
	// his next prompts, which need not be such, counted as less than half of what anybody's would be.
	leastPerToken, mostPerToken = 1, 8
	// LeastOutput is what is set aside for an answer at the least, in tokens, unless its request allows less.
	LeastOutput = 256
	// reserved is the share of answers that what is set aside is enough for.
	reserved = 0.9
	// mostChoices is for how many answers to one request something is set aside.
	mostChoices = 128
	// longest is the longest answer that is told from longer ones, in tokens.
	longest = 1 << 20
	// shortest prompt, in bytes, of which the tokens say something of the text: in shorter ones it is what
	// chat templates put around it that counts.
	shortest = 512
	// enoughAnswers and enoughPrompts are how many must have been seen to go by them.
	enoughAnswers, enoughPrompts = 16, 8
	// vote is how often one tenant's prompts count for what is known of the model. Who sends a hundred times
	// as many as others has no more to say about everybody's.
	vote = time.Second
	// maxCells bounds how many pairs of tenant and model are remembered, at some 800 bytes each.
	maxCells = 16 << 10
	// chains of cells; a power of two.
	chains = 4 << 10
)

// Estimates is what requests are expected to use, learned from what they did use: how many bytes of a
// prompt make a token, and how long answers are. It is kept for each tenant and model; a tenant's prompts
// are judged by its own, and before there are enough by those of all that ask for the model, of whom each
// has one word a second at the most. So nobody can make others' estimates wrong, and who makes his own too
// low goes into debt by it.
//
// Reading takes neither locks nor memory. Make it with [NewEstimates].
type Estimates struct {
	seed  maphash.Seed
	heads [chains]atomic.Pointer[cell]

	mu    sync.Mutex // guards changes of the chains, and count
	count int
}

// cell is what is known of a tenant and a model; of all tenants, if the tenant is empty.
type cell struct {
	tenant fleet.TenantID
	model  fleet.ModelID
	next   atomic.Pointer[cell]

	output   atomic.Int64  // tokens that most answers don't exceed; 0: not known
	perToken atomic.Uint64 // bytes, as bits of a double; 0: not known
	learned  atomic.Int64  // when, in Unix nanoseconds

	mu      sync.Mutex // guards the rest
	answers sketch
	prompts sketch
	voted   time.Time
}

// Seen is what a request turned out to use.
type Seen struct {
	Tenant fleet.TenantID
	Model  fleet.ModelID
	// PromptBytes is the size of its prompt's text, and Prompt its tokens. 0: not known.
	PromptBytes int
	Prompt      int64
	// Completion is the tokens of its answers, of which there were Choices, 0 like 1. 0: it has none, or
	// was cut short.
	Completion, Choices int64
}

// NewEstimates knows nothing.
func NewEstimates() *Estimates { return &Estimates{seed: maphash.MakeSeed()} }

// Input is how many tokens a prompt of so many bytes of text has, at least 1.
func (e *Estimates) Input(tenant fleet.TenantID, model fleet.ModelID, promptBytes int) int64 {
	per := 0.0
	if c := e.find(tenant, model); c != nil {
		per = math.Float64frombits(c.perToken.Load())
	}
	if per == 0 {
		if c := e.find("", model); c != nil {
			per = math.Float64frombits(c.perToken.Load())
		}
	}
	if per == 0 {
		per = BytesPerToken
	}
	return max(1, int64(math.Ceil(float64(promptBytes)/per)))
}

// Output is what to set aside for the answers to a request, in tokens: as many as nine in ten of the
// tenant's answers by the model have at the most, but at least [LeastOutput], and no more than the request
// allows (0: it doesn't say), for each of the choices that it asks for. Longer answers are topped up, or go
// into debt.
func (e *Estimates) Output(tenant fleet.TenantID, model fleet.ModelID, maxTokens, choices int64) int64 {
	n := int64(LeastOutput)
	if c := e.find(tenant, model); c != nil {
		n = max(n, c.output.Load())
	}
	return forAll(n, maxTokens, choices)
}

// Least is what [Estimates.Output] answers at the least.
func Least(maxTokens, choices int64) int64 { return forAll(LeastOutput, maxTokens, choices) }

// forAll is n tokens for each of the choices, of which none may have more than maxTokens.
func forAll(n, maxTokens, choices int64) int64 {
	if maxTokens > 0 {
		n = min(n, maxTokens)
	}
	return n * min(max(choices, 1), mostChoices)
}

// More is what to set aside in all when an answer has come to what was: a quarter more, at least 64 tokens.
func More(output int64) int64 { return output + max(output/4, 64) }

// Learn takes in what a request used. Now is the time on any clock that doesn't go back.
func (e *Estimates) Learn(s Seen, now time.Time) {
	prompt := s.PromptBytes >= shortest && s.Prompt > 0
	if !prompt && s.Completion <= 0 {
		return
	}
	c := e.cell(s.Tenant, s.Model, now)
	votes := c.learn(&s, prompt, now)
	if votes && s.Tenant != "" {
		e.cell("", s.Model, now).learn(&Seen{PromptBytes: s.PromptBytes, Prompt: s.Prompt}, true, now)
	}
}

// learn says whether the prompt may count for the model too.
func (c *cell) learn(s *Seen, prompt bool, now time.Time) (votes bool) {
	c.learned.Store(now.UnixNano())
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.Completion > 0 {
		if c.answers.weights == nil {
			c.answers = newSketch(20, 4)
		}
		c.answers.learn(float64(min(s.Completion/max(s.Choices, 1), longest)))
		if c.answers.seen >= enoughAnswers {
			c.output.Store(int64(math.Ceil(c.answers.quantile(reserved))))
		}
	}
	if !prompt {
		return false
	}
	if c.prompts.weights == nil {
		c.prompts = newSketch(3, 16)
	}
	c.prompts.learn(min(max(float64(s.PromptBytes)/float64(s.Prompt), leastPerToken), mostPerToken))
	if c.prompts.seen >= enoughPrompts {
		c.perToken.Store(math.Float64bits(c.prompts.quantile(0.5)))
	}
	if now.Sub(c.voted) < vote {
		return false
	}
	c.voted = now
	return true
}

// Keep forgets tenants and models that aren't there any more.
func (e *Estimates) Keep(tenant func(fleet.TenantID) bool, model func(fleet.ModelID) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drop(func(c *cell) bool { return !model(c.model) || c.tenant != "" && !tenant(c.tenant) })
}

// chain is where a pair is.
func (e *Estimates) chain(tenant fleet.TenantID, model fleet.ModelID) *atomic.Pointer[cell] {
	h := maphash.String(e.seed, string(tenant)) ^ 3*maphash.String(e.seed, string(model))
	return &e.heads[(h^h>>32)%chains]
}

func (e *Estimates) find(tenant fleet.TenantID, model fleet.ModelID) *cell {
	for c := e.chain(tenant, model).Load(); c != nil; c = c.next.Load() {
		if c.tenant == tenant && c.model == model {
			return c
		}
	}
	return nil
}

// cell finds or makes the cell of a pair.
func (e *Estimates) cell(tenant fleet.TenantID, model fleet.ModelID, now time.Time) *cell {
	if c := e.find(tenant, model); c != nil {
		return c
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.find(tenant, model); c != nil {
		return c
	}
	if e.count >= maxCells {
		e.age()
	}
	c := &cell{tenant: tenant, model: model}
	c.learned.Store(now.UnixNano())
	head := e.chain(tenant, model)
	c.next.Store(head.Load())
	head.Store(c)
	e.count++
	return c
}

// age forgets the eighth that has learned nothing for the longest; mu is held.
func (e *Estimates) age() {
	all := make([]*cell, 0, e.count)
	for i := range e.heads {
		for c := e.heads[i].Load(); c != nil; c = c.next.Load() {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *cell) int { return cmp.Compare(a.learned.Load(), b.learned.Load()) })
	old := make(map[*cell]bool, len(all)/8+1)
	for _, c := range all[:len(all)/8+1] {
		old[c] = true
	}
	e.drop(func(c *cell) bool { return old[c] })
}

// drop takes cells out of their chains; mu is held. Who reads one of them goes on from there.
func (e *Estimates) drop(gone func(*cell) bool) {
	for i := range e.heads {
		at := &e.heads[i]
		for c := at.Load(); c != nil; c = c.next.Load() {
			if gone(c) {
				at.Store(c.next.Load())
				e.count--
			} else {
				at = &c.next
			}
		}
	}
}
