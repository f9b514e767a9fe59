package ratelimit

import (
	"errors"
	"strings"
	"testing"
)

func TestValidateNamesWhatIsWrong(t *testing.T) {
	good := Limit{ID: "rpm", Kind: Requests, Amount: 60, PeriodMs: 60_000, Burst: 60}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Limit){
		"id is 0 bytes":        func(l *Limit) { l.ID = "" },
		"id is 600 bytes":      func(l *Limit) { l.ID = strings.Repeat("x", 600) },
		`kind "" is not known`: func(l *Limit) { l.Kind = "" },
		"amount 0":             func(l *Limit) { l.Amount = 0 },
		"period -1 ms":         func(l *Limit) { l.PeriodMs = -1 },
		"burst 0":              func(l *Limit) { l.Burst = 0 },
		"burst 75100000000":    func(l *Limit) { l.Burst = 75_100_000_000 },
		"over 60000 ms":        func(l *Limit) { l.Amount = 1 << 53 },
	} {
		l := good
		change(&l)
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", l, err, want)
		}
	}
	large := good
	large.Burst = 1 << 50
	if err := large.Validate(); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v, want ErrTooLarge", err)
	}
}

func TestMicrosecondsWhileTheyAreExact(t *testing.T) {
	for _, c := range []struct {
		burst, unit int64
	}{
		{60, 1},
		{75_000_000, 1},
		{75_100_000, 1000},
		{75_000_000_000, 1000},
	} {
		l := Limit{ID: "x", Kind: TotalTokens, Amount: c.burst, PeriodMs: 60_000, Burst: c.burst}
		if err := l.Validate(); err != nil || l.Unit() != c.unit {
			t.Errorf("burst %d: unit %d (error %v), want %d", c.burst, l.Unit(), err, c.unit)
		}
		if l.Period()*l.Unit() != 60_000_000 {
			t.Errorf("burst %d: a period of %d × %d µs", c.burst, l.Period(), l.Unit())
		}
		// The largest product of a refill.
		if most := float64(2*c.burst+1)*float64(l.Period()) + float64(l.Amount); most >= exact {
			t.Errorf("burst %d: a product of %g", c.burst, most)
		}
	}
}

func TestFillIsFromTheDeepestDebt(t *testing.T) {
	l := Limit{ID: "x", Kind: Requests, Amount: 60, PeriodMs: 60_000, Burst: 90}
	if got := l.FillMs(); got != 180_000 {
		t.Errorf("%d ms, want 180,000", got)
	}
	b := Full(l, 0).Charge(l, 1000)
	if got := b.WaitMs(l, l.Burst); got != l.FillMs() {
		t.Errorf("a bucket in deepest debt says %d ms", got)
	}
}

func TestKinds(t *testing.T) {
	for kind, tokens := range map[Kind]bool{Requests: false, InputTokens: true, OutputTokens: true, TotalTokens: true} {
		if !kind.Valid() || kind.Tokens() != tokens {
			t.Errorf("%s: valid %v, tokens %v", kind, kind.Valid(), kind.Tokens())
		}
	}
	if Kind("concurrency").Valid() {
		t.Error("a kind that is not counted here is valid")
	}
}
