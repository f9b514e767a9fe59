package proxy

import "sync"

// Race lets several attempts be under way for one client, as a request that is sent to a second
// place because the first is late: the first with content answers the client, the others end at
// once with [Result.Lost], and their places are told. The zero value is ready.
type Race struct {
	mu      sync.Mutex // guards what follows
	entered []*Attempt
	winner  *Attempt
}

// Enter adds an attempt, before its call of [Relay.Do]; it sets its Claim. One that enters a race
// that has been won loses it at once.
func (r *Race) Enter(a *Attempt) {
	a.Claim, a.race = func() bool { return r.claim(a) }, r
	r.mu.Lock()
	r.entered = append(r.entered, a)
	r.mu.Unlock()
}

// Won says whether an attempt answers the client.
func (r *Race) Won() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.winner != nil
}

func (r *Race) claim(a *Attempt) bool {
	r.mu.Lock()
	if r.winner != nil {
		r.mu.Unlock()
		return false
	}
	r.winner = a
	others := r.entered
	r.mu.Unlock()
	for _, other := range others {
		if other != a {
			other.end(errLost)
		}
	}
	return true
}
