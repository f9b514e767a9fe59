package queue

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestLimitsSayWhatIsWrong(t *testing.T) {
	good := Limits{Items: 1, Bytes: 1, Tokens: 1, TenantShare: 1}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Limits){
		"Items":       func(l *Limits) { l.Items = 0 },
		"Bytes":       func(l *Limits) { l.Bytes = -1 },
		"Tokens":      func(l *Limits) { l.Tokens = 0 },
		"TenantShare": func(l *Limits) { l.TenantShare = 1.01 },
	} {
		l := good
		spoil(&l)
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, share := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		l := good
		if l.TenantShare = share; l.Validate() == nil {
			t.Errorf("a share of %v is taken", share)
		}
	}
}

func TestATenantMayAlwaysHaveOneWaiting(t *testing.T) {
	q := NewQueue(Limits{Items: 3, Bytes: 10, Tokens: 10, TenantShare: 0.01})
	if _, cause := q.Push(&Item{Tenant: "acme", Cost: 1, Bytes: 1}); cause != "" {
		t.Errorf("the first is refused: %s", cause)
	}
	if _, cause := q.Push(&Item{Tenant: "acme"}); cause != TenantShare {
		t.Errorf("the second: %q", cause)
	}
}

func TestSumsOfAbsurdCostsStayWithinLimits(t *testing.T) {
	q := NewQueue(Limits{Items: 10, Bytes: math.MaxInt64, Tokens: 3 * maxCost, TenantShare: 1})
	for i, want := range []Cause{"", "", "", QueueFull} {
		tenant := fmt.Sprint("t", i)
		if _, cause := q.Push(&Item{Tenant: tenant, Cost: math.MaxInt64, Bytes: math.MinInt64}); cause != want {
			t.Errorf("%d: %q, want %q", i, cause, want)
		}
	}
	if q.Tokens() != 3*maxCost || q.Bytes() != 0 {
		t.Errorf("%d tokens, %d bytes", q.Tokens(), q.Bytes())
	}
}

func TestAPoppedItemCanWaitAgain(t *testing.T) {
	q := NewQueue(wide)
	it := &Item{Tenant: "acme", Deadline: epoch}
	for range 3 {
		if _, cause := q.Push(it); cause != "" || !it.Waits() {
			t.Fatalf("not in: %q", cause)
		}
		if q.Pop(0) != it || it.Waits() {
			t.Fatal("not out")
		}
	}
}

// TestIdleTenantsAreForgotten: a level remembers those that come and go only as long as that can
// make a difference.
func TestIdleTenantsAreForgotten(t *testing.T) {
	q := NewQueue(wide)
	for range 3 {
		q.Push(&Item{Tenant: "steady", Cost: 1})
	}
	v := q.lanes[0].levels[0]
	most := 0
	for i := range 10_000 {
		q.Push(&Item{Tenant: fmt.Sprint("passing", i), Cost: int64(i%7 + 1)})
		q.Push(&Item{Tenant: "steady", Cost: 3})
		q.Pop(0)
		q.Pop(0)
		most = max(most, len(v.payers))
	}
	if most > 100 {
		t.Errorf("%d tenants are remembered where at most %d wait", most, v.waiting.len())
	}
}
