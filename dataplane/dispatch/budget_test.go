package dispatch

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
)

func TestTheRetryBudget(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	for name, c := range map[string]struct {
		requests int
		later    time.Duration
		want     int // retries allowed
	}{
		"a quiet place":                {0, 0, BudgetFloor},
		"a few requests":               {50, 0, BudgetFloor},
		"as many as the floor covers":  {200, 0, BudgetFloor},
		"a tenth of many":              {1000, 0, 100},
		"within ten seconds":           {1000, 9 * time.Second, 100},
		"older than ten seconds":       {1000, 10 * time.Second, BudgetFloor},
		"long ago":                     {1000, time.Hour, BudgetFloor},
		"the clock was set back a bit": {1000, -5 * time.Second, 100},
	} {
		t.Run(name, func(t *testing.T) {
			b := &Budget{}
			for range c.requests {
				b.Sent("a", start)
			}
			now := start.Add(c.later)
			got := 0
			for got < 2000 && b.Retry("a", false, now) {
				got++
			}
			if got != c.want {
				t.Errorf("%d retries, want %d", got, c.want)
			}
		})
	}
}

func TestTheBudgetIsThatOfTheDestination(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	b := &Budget{}
	for b.Retry("a", false, now) {
	}
	if !b.Retry("b", false, now) {
		t.Error("what went to a is held against b")
	}
	if !b.Retry("a", true, now) {
		t.Error("an exempt retry was refused")
	}
	b.Keep(func(id fleet.ClusterID) bool { return id == "b" })
	left := 0
	b.places.Range(func(any, any) bool { left++; return true })
	if left != 1 {
		t.Errorf("remembers %d places", left)
	}
	if !b.Retry("a", false, now.Add(budgetSpan)) {
		t.Error("the budget did not come back")
	}
}

// Over any ten seconds retries stay within a tenth of requests, or the floor. Checked against a
// list of everything that happened.
func TestTheBudgetHoldsOverEveryWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type event struct {
			second int64
			retry  bool
		}
		b, now := &Budget{}, time.Unix(1_700_000_000, 0)
		var all []event
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 4).Draw(t, "seconds")) * time.Second)
			for range rapid.IntRange(0, 80).Draw(t, "requests") {
				b.Sent("a", now)
				all = append(all, event{now.Unix(), false})
			}
			for range rapid.IntRange(0, 40).Draw(t, "retries") {
				requests, retries := 0, 0
				for _, e := range all {
					if now.Unix()-e.second < 10 {
						if e.retry {
							retries++
						} else {
							requests++
						}
					}
				}
				want := retries < max(20, requests/10)
				if got := b.Retry("a", false, now); got != want {
					t.Fatalf("%d requests and %d retries in the window: allowed %v", requests, retries, got)
				}
				if want {
					all = append(all, event{now.Unix(), true})
				}
			}
		}
	})
}
