package rls

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// charged is a reservation that notes how it was settled.
type charged struct {
	mu    sync.Mutex
	times int
	sums  [3]int64
}

func (c *charged) Settle(requests, input, output int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times++
	c.sums = [3]int64{requests, input, output}
}

func at(seconds int) time.Time {
	return time.Unix(1_800_000_000, 0).Add(time.Duration(seconds) * time.Second)
}

func request1(id string) *held {
	return &held{name: name{"acme", id}, of: &charged{}, requests: 1, input: 10, output: 20}
}

func TestAnOpenRequestIsFoundOnce(t *testing.T) {
	o := newOpen(time.Minute, 10)
	h := request1("1")
	if out, _ := o.put(h, at(0)); out != nil {
		t.Errorf("put something out: %+v", out)
	}
	if got := o.take(name{"evil", "1"}); got != nil {
		t.Error("another tenant finds it")
	}
	if got := o.take(name{"acme", "1"}); got != h {
		t.Errorf("got %+v", got)
	}
	if got := o.take(name{"acme", "1"}); got != nil {
		t.Error("it is found twice")
	}
}

func TestARequestThatIsNotHeardOfIsDue(t *testing.T) {
	o := newOpen(time.Minute, 10)
	for i := range 3 {
		o.put(request1(strconv.Itoa(i)), at(10*i))
	}
	o.take(name{"acme", "1"})
	if got := o.due(at(59)); len(got) != 0 {
		t.Errorf("due early: %d", len(got))
	}
	if got := o.due(at(60)); len(got) != 1 || got[0].name.id != "0" {
		t.Errorf("due after a minute: %+v", got)
	}
	if got := o.due(at(3600)); len(got) != 1 || got[0].name.id != "2" || o.len() != 0 {
		t.Errorf("due after an hour: %+v, left %d", got, o.len())
	}
}

func TestWhoBeginsTwiceIsReplaced(t *testing.T) {
	o := newOpen(time.Minute, 10)
	first, second := request1("1"), request1("1")
	o.put(first, at(0))
	if out, why := o.put(second, at(30)); out != first || why != endReplaced {
		t.Errorf("got %+v, %s", out, why)
	}
	if got := o.due(at(60)); len(got) != 0 {
		t.Error("the second is due at the first's time")
	}
	if got := o.take(name{"acme", "1"}); got != second {
		t.Errorf("got %+v", got)
	}
}

func TestWhereThereAreTooManyTheOldestGoes(t *testing.T) {
	o := newOpen(time.Minute, 2)
	first := request1("1")
	o.put(first, at(0))
	o.put(request1("2"), at(1))
	if out, why := o.put(request1("3"), at(2)); out != first || why != endCrowded || o.len() != 2 {
		t.Errorf("got %+v, %s, %d left", out, why, o.len())
	}
	if got := o.all(); len(got) != 2 || o.len() != 0 {
		t.Errorf("all are %d, %d left", len(got), o.len())
	}
}

func TestAnEstimateIsWhatWasReserved(t *testing.T) {
	h := request1("1")
	h.estimate()
	if c := h.of.(*charged); c.times != 1 || c.sums != [3]int64{1, 10, 20} {
		t.Errorf("settled %d times with %v", c.times, c.sums)
	}
}

// Whatever happens in whatever order, each request comes out exactly once, and the line and the names agree.
func TestEveryRequestComesOutOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newOpen(time.Minute, rapid.IntRange(1, 5).Draw(t, "most"))
		in, out := map[*held]bool{}, map[*held]bool{}
		left := func(hs ...*held) {
			for _, h := range hs {
				if h == nil {
					continue
				}
				if !in[h] || out[h] {
					t.Fatalf("%v came out twice, or never was in", h.name)
				}
				out[h] = true
			}
		}
		now := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			id := strconv.Itoa(rapid.IntRange(0, 7).Draw(t, "id"))
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				h := request1(id)
				in[h] = true
				before, _ := o.put(h, at(now))
				left(before)
			case 2:
				left(o.take(name{"acme", id}))
			default:
				now += rapid.IntRange(0, 40).Draw(t, "seconds")
				left(o.due(at(now))...)
			}
			line := 0
			for h := o.oldest; h != nil; h = h.newer {
				line++
				if o.named[h.name] != h || h.newer == nil && o.newest != h {
					t.Fatal("the line and the names differ")
				}
			}
			if line != o.len() || line > o.most || len(in) != len(out)+line {
				t.Fatalf("%d in line, %d named of at most %d, %d went in and %d came out", line, o.len(), o.most, len(in), len(out))
			}
		}
		left(o.all()...)
		if len(in) != len(out) {
			t.Fatalf("%d went in and %d came out", len(in), len(out))
		}
	})
}
