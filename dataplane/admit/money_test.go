package admit

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/routerpb"
	"anabranch/ratelimit"
)

func TestTheLedgerIsToldOfWhatWasSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newAsker(t, newLink(), tables(t, moneyOf(1_000_000, "share"), shadowed(moneyOf(5, "share"))))
		w, err := ratelimit.Daily.Window(time.Now(), nil)
		if err != nil {
			t.Fatal(err)
		}
		r, _ := k.take(1000, 256)
		if spent := k.a.TakeSpent(); spent != nil {
			t.Errorf("a request that is under way is told of: %v", spent)
		}
		r.Settle(1, 900, 300) // 45 + 24
		r, _ = k.take(1000, 256)
		r.Settle(1, 20, 0) // 1
		spent := k.a.TakeSpent()
		if len(spent) != 1 || spent[0].Organisation != "acme" || spent[0].Limit != "money" || spent[0].Micros != 70 || spent[0].WindowUnixUs != w.FromUs {
			t.Errorf("%v, want 70 of today's window, and nothing of a budget that would have denied", spent)
		}
		if spent := k.a.TakeSpent(); spent != nil {
			t.Errorf("%v is told of twice", spent)
		}
	})
}

func TestABudgetStartsFromTheLedgerAndEndsWithItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, moneyOf(1_000_000, "share")))
		w, err := ratelimit.Daily.Window(time.Now(), nil)
		if err != nil {
			t.Fatal(err)
		}
		k.a.Ledger(true, []*routerpb.Spent{{Organisation: "acme", Limit: "money", WindowUnixUs: w.FromUs, Micros: 990_000}})
		if _, d := k.take(100_000, 0); !d.Allowed { // 5,000
			t.Fatalf("%+v", d)
		}
		_, d := k.take(200_000, 0) // 10,000
		if d.Allowed || d.Limit.Kind != ratelimit.Money || d.Remaining != 5000 {
			t.Fatalf("%+v, want 5,000 left", d)
		}
		end := time.UnixMicro(w.NextUs)
		if left := time.Until(end).Milliseconds(); d.ResetMs < left-1000 || d.ResetMs > left || d.RetryAfterMs < left-1000 {
			t.Errorf("reset in %d ms and again in %d, the window ends in %d", d.ResetMs, d.RetryAfterMs, left)
		}
		words := Deny(d)
		if words.Code != "insufficient_quota" || words.Status != 429 || !strings.Contains(words.Message, "$1.00") || !strings.Contains(words.Message, "renewed in") {
			t.Errorf("%+v", words)
		}
		pass(time.Until(end) + time.Second)
		k.take(1, 0) // has the store learn of the new window
		pass(time.Second)
		if _, d := k.take(200_000, 0); !d.Allowed {
			t.Errorf("in a new window %+v", d)
		}
	})
}

func TestWhatTheLedgerKnows(t *testing.T) {
	var a Admitter
	known := func(limit string, window int64) int64 { return a.ledger.spent("acme", limit, window) }
	if known("a", 1) != -1 {
		t.Error("nothing was heard, and something is known")
	}
	tell := func(whole bool, limit string, window, micros int64) {
		a.Ledger(whole, []*routerpb.Spent{{Organisation: "acme", Limit: limit, WindowUnixUs: window, Micros: micros}})
	}
	tell(false, "a", 10, 7)
	if known("a", 10) != 7 || known("a", 20) != -1 || known("b", 10) != -1 {
		t.Error("a part of the ledger is taken for all")
	}
	tell(true, "a", 10, 8)
	if known("a", 10) != 8 || known("a", 20) != 0 || known("b", 10) != 0 {
		t.Error("of what all of the ledger does not name, nothing is spent")
	}
	tell(false, "a", 20, 3)
	tell(false, "a", 10, 9)
	if known("a", 20) != 3 || known("a", 10) != 9 {
		t.Error("of two windows only one is known")
	}
	tell(false, "a", 30, -5)
	tell(false, "a", 10, 10)
	if known("a", 10) != -1 {
		t.Error("a window that is over comes back")
	}
	if known("a", 30) != 0 {
		t.Error("less than nothing is spent")
	}
}

func TestPricesAreRoundedUpAndBounded(t *testing.T) {
	for name, c := range map[string]struct {
		u    use
		want int64
	}{
		"nothing":            {use{}, 0},
		"a millionth":        {use{input: 1, inputMicros: 1}, 1},
		"exactly one":        {use{input: 1_000_000, inputMicros: 1}, 1},
		"a bit more":         {use{input: 1_000_001, inputMicros: 1}, 2},
		"both, rounded once": {use{input: 1, output: 1, inputMicros: 500_000, outputMicros: 500_000}, 1},
		"beyond all":         {use{input: maxTokens, output: maxTokens, inputMicros: 1<<64 - 1, outputMicros: 1<<64 - 1}, maxMoney},
	} {
		if got := c.u.money(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestABudgetIsKnownThoughAnotherRoutersClockIsAhead(t *testing.T) {
	told := func(windowUs, micros int64) []*routerpb.Spent {
		return []*routerpb.Spent{{Organisation: "acme", Limit: "money", WindowUnixUs: windowUs, Micros: micros}}
	}
	k := newStill(t, Options{Stores: Own(newLink())}, tables(t))
	for _, s := range [][2]int64{{100, 5}, {200, 7}, {300, 1}, {200, 9}, {200, 8}, {100, 50}} { // in any order
		k.a.Ledger(s[0] == 100, told(s[0], s[1]))
	}
	for window, want := range map[int64]int64{100: -1, 200: 9, 250: -1, 300: 1, 400: 0} {
		if got := k.a.ledger.spent("acme", "money", window); got != want {
			t.Errorf("%d is spent in the window from %d, want %d", got, window, want)
		}
	}
	if got := k.a.ledger.spent("acme", "another", 200); got != 0 {
		t.Errorf("%d is spent of a budget that the ledger does not name", got)
	}
}
