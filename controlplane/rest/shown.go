package rest

import (
	"crypto/sha256"
	"sync"
	"time"
)

// maxShown bounds how many ID tokens are remembered, of 40 bytes each.
const maxShown = 10_000

// shownTokens remembers ID tokens that were good, by their hashes, until they expire: whoever has signed
// in goes on working where somebody else behind the same address tries tokens. They are checked on
// every request all the same. The zero value is empty.
type shownTokens struct {
	mu    sync.Mutex // guards until
	until map[[sha256.Size]byte]time.Time
}

// remember one. Of too many none are added until some have expired.
func (s *shownTokens) remember(token string, until, now time.Time) {
	sum := sha256.Sum256([]byte(token))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil {
		s.until = map[[sha256.Size]byte]time.Time{}
	}
	if _, known := s.until[sum]; !known && len(s.until) >= maxShown {
		for sum, until := range s.until {
			if !now.Before(until) {
				delete(s.until, sum)
			}
		}
		if len(s.until) >= maxShown {
			return
		}
	}
	s.until[sum] = until
}

// has says whether a token was good and has not expired by now.
func (s *shownTokens) has(token string, now time.Time) bool {
	sum := sha256.Sum256([]byte(token))
	s.mu.Lock()
	defer s.mu.Unlock()
	until, known := s.until[sum]
	return known && now.Before(until)
}
