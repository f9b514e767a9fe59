package endpoint

import (
	"sync"

	"anabranch/api/fleet"
)

// answers is how long the answers of each model are, wherever they come from: what requests will cost
// that don't bound theirs. Its zero value has seen none.
type answers struct {
	models sync.Map // of *lengths, by fleet.ModelID
}

// lengths is what is known of one model.
type lengths struct {
	mu   sync.Mutex // guards seen
	seen mean
	next atomicFloat // one more than the mean; 0: nothing is known
}

// learn takes in an answer of so many tokens.
func (a *answers) learn(model fleet.ModelID, tokens float64) {
	l, ok := a.models.Load(model)
	if !ok {
		l, _ = a.models.LoadOrStore(model, &lengths{})
	}
	x := l.(*lengths)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seen.learn(tokens)
	x.next.store(x.seen.value + 1)
}

// keep forgets the models that aren't served any more.
func (a *answers) keep(served func(fleet.ModelID) bool) {
	a.models.Range(func(id, _ any) bool {
		if !served(id.(fleet.ModelID)) {
			a.models.Delete(id)
		}
		return true
	})
}

// Answer is how many tokens an answer of a model has, as a mean over some fifty of the last; otherwise
// while none has been seen.
func (r *Registry) Answer(model fleet.ModelID, otherwise int64) int64 {
	if l, ok := r.answers.models.Load(model); ok {
		if n := l.(*lengths).next.load(); n > 0 {
			return int64(n - 0.5) // rounded
		}
	}
	return otherwise
}
