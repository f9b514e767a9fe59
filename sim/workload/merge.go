package workload

import "time"

// Merge puts sources side by side in order of time. Request i of source k of n gets the ID i·n + k.
// What sources share by their seeds, they share here too.
func Merge(sources ...Source) Source {
	m := &merged{}
	for _, s := range sources {
		m.sources = append(m.sources, Ahead(s))
	}
	return m
}

type merged struct {
	sources []Peeker
	last    time.Duration
}

// first is the source whose request comes next; of several at one time, the first. -1: none.
func (m *merged) first() (int, time.Duration) {
	best, when := -1, time.Duration(0)
	for i, s := range m.sources {
		if at, ok := s.Peek(); ok && (best < 0 || at < when) {
			best, when = i, at
		}
	}
	return best, max(when, m.last)
}

// Peek is the time of the next request.
func (m *merged) Peek() (time.Duration, bool) {
	i, at := m.first()
	if i < 0 {
		return 0, false
	}
	return at, true
}

// Next is the next request of all sources.
func (m *merged) Next() (Request, bool) {
	i, at := m.first()
	if i < 0 {
		return Request{}, false
	}
	r, ok := m.sources[i].Next()
	if !ok {
		return Request{}, false
	}
	r.At, m.last = at, at
	r.ID = r.ID*uint64(len(m.sources)) + uint64(i)
	return r, true
}

// Done tells the source that the request is of.
func (m *merged) Done(id uint64, at time.Duration, ok bool) {
	if n := uint64(len(m.sources)); n > 0 {
		m.sources[id%n].Done(id/n, at, ok)
	}
}

// Ended says that all sources have ended.
func (m *merged) Ended() bool {
	for _, s := range m.sources {
		if !s.Ended() {
			return false
		}
	}
	return true
}

// Err is the first source's that has one.
func (m *merged) Err() error {
	for _, s := range m.sources {
		if err := Err(s); err != nil {
			return err
		}
	}
	return nil
}

// Ahead is the source itself if it can peek, or one that does so by taking a request early.
func Ahead(s Source) Peeker {
	if p, ok := s.(Peeker); ok {
		return p
	}
	return &ahead{Source: s}
}

// ahead holds the request that comes next.
type ahead struct {
	Source
	held  Request
	holds bool
}

func (a *ahead) Peek() (time.Duration, bool) {
	if !a.holds {
		a.held, a.holds = a.Source.Next()
	}
	return a.held.At, a.holds
}

func (a *ahead) Next() (Request, bool) {
	_, ok := a.Peek()
	a.holds = false
	return a.held, ok
}

func (a *ahead) Ended() bool { return !a.holds && a.Source.Ended() }

func (a *ahead) Err() error { return Err(a.Source) }
