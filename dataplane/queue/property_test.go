package queue

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var epoch = time.Unix(1_764_400_000, 0)

// names of items, for messages.
func names(items []*Item) []any {
	out := make([]any, len(items))
	for i, it := range items {
		out[i] = it.Value
	}
	return out
}

// world bounds what items are like: narrow ones share lanes and levels.
type world struct {
	lanes      uint64
	priorities []int32
}

func (w world) item(t *rapid.T, n int, now time.Time) *Item {
	it := &Item{
		Lane:     rapid.Uint64Range(1, w.lanes).Draw(t, "lane"),
		Priority: rapid.SampledFrom(w.priorities).Draw(t, "priority"),
		Tenant:   rapid.SampledFrom([]string{"acme", "globex", "initech", "umbrella"}).Draw(t, "tenant"),
		Flow:     rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "flow"),
		Cost:     rapid.Int64Range(-1, 40).Draw(t, "cost"),
		Bytes:    rapid.Int64Range(-1, 30).Draw(t, "bytes"),
		Arrived:  now, Value: n,
		Came: now.Add(-time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 5}).Draw(t, "came before")) * time.Second),
	}
	if rapid.Bool().Draw(t, "has a deadline") {
		it.Deadline = now.Add(time.Duration(rapid.IntRange(-1, 20).Draw(t, "deadline")) * time.Second)
	}
	return it
}

// TestQueueDoesAsTheSlowOne runs any sequence of calls on both queues, and holds the account of every
// item: each ends exactly once, and the limits hold all the time.
func TestQueueDoesAsTheSlowOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := Limits{
			Items:       rapid.IntRange(1, 24).Draw(t, "items"),
			Bytes:       rapid.Int64Range(1, 300).Draw(t, "bytes"),
			Tokens:      rapid.Int64Range(1, 400).Draw(t, "tokens"),
			TenantShare: rapid.SampledFrom([]float64{0.01, 0.5, 0.75, 1}).Draw(t, "share"),
		}
		w := world{
			lanes:      rapid.Uint64Range(1, 3).Draw(t, "lanes"),
			priorities: rapid.SampledFrom([][]int32{{50}, {0, 50}, {-10, -10, 0, 7, 50, 100}}).Draw(t, "priorities"),
		}
		q, s := NewQueue(limits), newSlow(limits)
		now := epoch
		var all []*Item
		ended := map[*Item]string{}
		end := func(how string, items ...*Item) {
			for _, it := range items {
				if was := ended[it]; was != "" {
					t.Fatalf("%v was %s and is %s", it.Value, was, how)
				}
				ended[it] = how
			}
		}
		same := func(what string, got, want []*Item) {
			if !slices.Equal(got, want) {
				t.Fatalf("%s: %v, the slow one says %v", what, names(got), names(want))
			}
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			lane := rapid.Uint64Range(1, w.lanes).Draw(t, "of lane")
			switch rapid.SampledFrom([]string{"push", "push", "push", "push", "pop", "pop", "remove", "expire", "below"}).Draw(t, "step") {
			case "push":
				it := w.item(t, len(all), now)
				want, why := s.Push(it)
				got, cause := q.Push(it)
				if cause != why {
					t.Fatalf("push: %q, the slow one says %q", cause, why)
				}
				same("shed", got, want)
				end("shed", got...)
				all = append(all, it)
				if cause != "" {
					end("refused", it)
				}
				for _, x := range got {
					if x.Priority > it.Priority || x.Priority == it.Priority && x.Tenant == it.Tenant {
						t.Fatalf("%v made room for %v", x, it)
					}
				}
			case "pop":
				if got, want := q.Peek(lane), s.Peek(lane); got != want {
					t.Fatalf("next is %v, the slow one says %v", got, want)
				}
				if it := q.Pop(lane); it != s.Pop(lane) {
					t.Fatalf("popped %v, the slow one another", it.Value)
				} else if it != nil {
					end("popped", it)
				}
			case "remove":
				if len(all) == 0 {
					continue
				}
				it := rapid.SampledFrom(all).Draw(t, "which")
				got := q.Remove(it)
				if want := s.Remove(it); got != want {
					t.Fatalf("removed: %v, the slow one says %v", got, want)
				}
				if got {
					end("removed", it)
				}
			case "expire":
				now = now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "seconds")) * time.Second)
				got := q.Expire(now, nil)
				same("expired", got, s.Expire(now))
				end("expired", got...)
			case "below":
				p := rapid.SampledFrom([]int32{-10, 0, 50}).Draw(t, "below")
				got := q.Below(p, nil)
				same("below", got, s.Below(p))
				end("shed", got...)
			}
			check(t, q, s)
		}
		end("drained", q.Drain(nil)...)
		for _, it := range all {
			if ended[it] == "" || it.Waits() {
				t.Fatalf("%v has not ended", it.Value)
			}
		}
		if q.Len() != 0 || q.Bytes() != 0 || q.Tokens() != 0 || len(q.lanes)+len(q.bands)+len(q.tenants)+q.deadlines.len() != 0 {
			t.Fatalf("an empty queue holds something: %+v", q)
		}
	})
}

// check compares all that can be asked, and the limits.
func check(t *rapid.T, q *Queue, s *slow) {
	held := sizeOf(s.items)
	if got := (amount{int64(q.Len()), q.Bytes(), q.Tokens()}); got != held {
		t.Fatalf("%v wait, the slow one says %v", got, held)
	}
	if !held.within(q.limits.whole()) {
		t.Fatalf("%v is over the limits %v", held, q.limits)
	}
	for _, it := range s.items {
		if mine := sizeOf(having(s.items, ofTenant(it.Tenant))); !mine.within(q.limits.share()) {
			t.Fatalf("%s holds %v, over its share of %v", it.Tenant, mine, q.limits)
		}
	}
	heads := q.Heads(nil)
	for i, it := range heads {
		if it != s.Peek(it.Lane) {
			t.Fatalf("%v is no head", it.Value)
		}
		if i > 0 && heads[i-1].Priority < it.Priority {
			t.Fatalf("heads out of order: %v", names(heads))
		}
	}
	for lane := uint64(1); lane <= 3; lane++ {
		n, c := q.Ahead(lane, 7)
		if wantN, wantC := s.Ahead(lane, 7); n != wantN || c != wantC {
			t.Fatalf("ahead: %d of %d tokens, the slow one says %d of %d", n, c, wantN, wantC)
		}
		if n, _ := q.Ahead(lane, math.MinInt32); (n > 0) != slices.ContainsFunc(heads, func(it *Item) bool { return it.Lane == lane }) {
			t.Fatalf("lane %d has %d and heads are %v", lane, n, names(heads))
		}
	}
}

var wide = Limits{Items: 1 << 20, Bytes: 1 << 40, Tokens: 1 << 50, TenantShare: 1}

// TestBackloggedTenantsAndFlowsGetEqualTokens: from when both have something waiting until one has
// nothing, the service of two differs by no more than one request of the largest size; over any part
// of that time by no more than one of each.
func TestBackloggedTenantsAndFlowsGetEqualTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := NewQueue(wide)
		byFlow := rapid.Bool().Draw(t, "flows of one tenant")
		parties := rapid.IntRange(2, 5).Draw(t, "parties")
		each := rapid.IntRange(5, 30).Draw(t, "requests")
		largest := make([]int64, parties)
		left := make([]int, parties)
		for i := range parties * each {
			p := i % parties
			it := &Item{Tenant: fmt.Sprint("t", p), Cost: rapid.Int64Range(1, 1000).Draw(t, "cost"), Value: p}
			if byFlow {
				it.Tenant, it.Flow = "t", fmt.Sprint("f", p)
			}
			largest[p] = max(largest[p], it.Cost)
			left[p]++
			q.Push(it)
		}
		service := [][]int64{make([]int64, parties)}
		for slices.Min(left) > 0 {
			it := q.Pop(0)
			now := slices.Clone(service[len(service)-1])
			now[it.Value.(int)] += it.Cost
			left[it.Value.(int)]--
			service = append(service, now)
		}
		from := rapid.IntRange(0, len(service)-1).Draw(t, "from")
		for a := range parties {
			for b := range a {
				for _, now := range service {
					if d := now[a] - now[b]; max(d, -d) > max(largest[a], largest[b]) {
						t.Fatalf("service %v, largest requests %v", now, largest)
					}
				}
				for _, now := range service[from:] {
					if d := now[a] - service[from][a] - now[b] + service[from][b]; max(d, -d) > largest[a]+largest[b] {
						t.Fatalf("service from %v to %v, largest requests %v", service[from], now, largest)
					}
				}
			}
		}
	})
}

// TestNobodyStarvesWithinAPriority: whatever other tenants and flows send, each request's turn comes
// within a number of others that its tenants and flows bound.
func TestNobodyStarvesWithinAPriority(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := NewQueue(wide)
		victim := &Item{Tenant: "victim", Flow: "f", Cost: 1000}
		if rapid.Bool().Draw(t, "of the same tenant") {
			victim.Tenant = "t0"
		}
		served := rapid.IntRange(0, 50).Draw(t, "before")
		const tenants, most = 4, 100
		flood := func(i int) {
			// Each with a flow of its own: a new one always looks as if it had had nothing.
			q.Push(&Item{Tenant: fmt.Sprint("t", i%tenants), Flow: fmt.Sprint(i), Cost: rapid.Int64Range(1, most).Draw(t, "cost")})
		}
		n := 0
		for range 20 {
			flood(n)
			n++
		}
		for range served {
			q.Pop(0)
			flood(n)
			n++
		}
		q.Push(victim)
		bound := (tenants + flowSlots) * (1000 + most)
		for i := 0; ; i++ {
			if i > bound {
				t.Fatalf("not served within %d others", bound)
			}
			if q.Pop(0) == victim {
				return
			}
			flood(n)
			n++
		}
	})
}

// TestHeapOrders: whatever is pushed, removed and changed, the top comes before all others.
func TestHeapOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h heap[*payer]
		var in []*payer
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(in) == 0 || rapid.Bool().Draw(t, "push") {
				p := &payer{tag: tag{start: rapid.Int64Range(0, 9).Draw(t, "start"), turn: uint64(i)}}
				h.push(p)
				in = append(in, p)
			} else {
				k := rapid.IntRange(0, len(in)-1).Draw(t, "which")
				if rapid.Bool().Draw(t, "remove") {
					h.remove(in[k])
					if in[k].at != 0 {
						t.Fatal("a removed one has a slot")
					}
					in = slices.Delete(in, k, k+1)
				} else {
					in[k].start = rapid.Int64Range(0, 9).Draw(t, "start")
					h.fix(in[k])
				}
			}
			if h.len() != len(in) {
				t.Fatalf("%d in the heap, want %d", h.len(), len(in))
			}
			for k, p := range h.things {
				if p.at != k+1 || p.before(h.top()) {
					t.Fatalf("%d is at %d, top starts at %d", p.start, p.at, h.top().start)
				}
			}
		}
	})
}
