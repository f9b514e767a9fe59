package admit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/ratelimit"
)

// trips counts the round trips to a store.
type trips struct {
	*link
	calls []int // of each
}

func (s *trips) LeaseAll(ctx context.Context, calls []ratelimit.In) []ratelimit.Result {
	s.calls = append(s.calls, len(calls))
	return s.link.LeaseAll(ctx, calls)
}

func TestCallsThatAreDueSoonGoAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := quota("requests", 60_000, "share", 1)
		other := quota("requests", 60_000, "share", 1)
		q.Id, q.Model = "small/requests", "llama-3.1-8b"
		other.Id, other.Model = "large/requests", "llama-3.1-70b"
		store := &trips{link: newLink()}
		k := newStill(t, Options{Stores: Own(store), Region: "us-east-1", Inline: true}, tables(t, q, other))
		turn := func() { k.a.Turn(t.Context(), time.Now()) }
		turn() // the organisation is met
		for range 2 {
			k.takeModel("llama-3.1-8b", 1, 1)
			<-time.After(150 * time.Millisecond)
			k.takeModel("llama-3.1-70b", 1, 1)
		}
		store.calls = nil
		// Half of a lease's time after the first was renewed, the other has a good quarter behind it.
		for range 40 {
			<-time.After(25 * time.Millisecond)
			turn()
		}
		both := 0
		for _, n := range store.calls {
			if n == 2 {
				both++
			}
		}
		if len(store.calls) == 0 || len(store.calls) > 4 || both != len(store.calls) {
			t.Errorf("in a second there were round trips with %v calls, want both paths in each", store.calls)
		}
	})
}

// TestWhatWasSetAsideIsChargedForNoPath has two paths whose limits are their own spend alone, and the store
// answer about one after the other.
func TestWhatWasSetAsideIsChargedForNoPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, other := quota("requests", 6000, "share", 1), quota("requests", 6000, "share", 1)
		q.Id, q.Model = "small/requests", "llama-3.1-8b"
		other.Id, other.Model = "large/requests", "llama-3.1-70b"
		l := newLink()
		k := newAsker(t, l, tables(t, q, other))
		models := map[string]string{"small/requests": "llama-3.1-8b", "large/requests": "llama-3.1-70b"}
		for _, model := range models {
			k.takeModel(model, 1, 1)
		}
		l.set(frozen)
		<-time.After(2 * time.Second)
		spent := map[string]int64{}
		for range 400 { // fifty a second of each
			<-time.After(20 * time.Millisecond)
			for limit, model := range models {
				if _, d := k.takeModel(model, 1, 1); d.Allowed {
					spent[limit]++
				}
			}
		}
		l.set(up)
		<-time.After(2 * time.Second)
		for limit, n := range spent {
			// A hundred a second were set aside for all of that time but the first second and a half.
			if got := l.charged(limit); n < 390 || got > 100 {
				t.Errorf("%s: %d were spent alone, and %d charged", limit, n, got)
			}
		}
	})
}
