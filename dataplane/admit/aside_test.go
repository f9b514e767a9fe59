package admit

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestWhatTheStoreSetAsideIsNotCharged spends ten requests of each of two models in a second, which is all that
// flows in, before, during and after an absence of the store. It sets aside what flows in from 1.5 s on;
// what was spent beyond that is charged, once, whichever lane is answered first and however much it was.
func TestWhatTheStoreSetAsideIsNotCharged(t *testing.T) {
	for name, seconds := range map[string]int{"twenty seconds": 20, "until several bursts are spent": 300} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				small, large := quota("requests", 600, "share", 1), quota("requests", 600, "share", 1)
				small.Id, small.Model = "small", "llama-3.1-8b"
				large.Id, large.Model = "large", "llama-3.1-70b"
				store := newLink()
				k := newAsker(t, store, tables(t, small, large))
				spend := func(seconds int) (passed int64) {
					for range 10 * seconds {
						for _, m := range []string{"llama-3.1-8b", "llama-3.1-70b"} {
							if r, d := k.takeModel(m, 1, 1); d.Allowed {
								r.Settle(1, 1, 1)
								passed++
							}
						}
						pass(100 * time.Millisecond)
					}
					return passed / 2
				}
				before := spend(2)
				store.set(away)
				alone := spend(seconds)
				store.set(up)
				after := spend(2)
				pass(3 * time.Second)
				// The lease in hand at the beginning is told too.
				most := before + after + alone - 10*(int64(seconds)-3)
				for _, limit := range []string{"small", "large"} {
					charged := store.charged(limit)
					if charged < before+after || charged > most {
						t.Errorf("%s: %d charged of %d, %d and %d, want %d at most", limit, charged, before, alone, after, most)
					}
					level, held, _ := store.Left("acme", limit)
					if there := level + held; there > 600-charged+45+15+30 {
						t.Errorf("%s: %d are there, and %d were charged", limit, there, charged)
					}
				}
			})
		})
	}
}
