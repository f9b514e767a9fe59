package queue

import (
	"context"
	"fmt"
	"testing"
)

// BenchmarkEnterStraight is what flow control costs a request while there is room.
func BenchmarkEnterStraight(b *testing.B) {
	for name, slots := range map[string]float64{"slots known": 1e9, "slots unknown": 0} {
		b.Run(name, func(b *testing.B) {
			g, err := New(Options{})
			if err != nil {
				b.Fatal(err)
			}
			ctx, room := context.Background(), fixed(0.5)
			r := Request{Lane: 7, Priority: 50, Tenant: "acme", Flow: "acme/chat", Cost: 1000, Bytes: 4000, Slots: slots}
			b.ReportAllocs()
			for b.Loop() {
				pass, refusal := g.Enter(ctx, r, room)
				if refusal != nil {
					b.Fatal(refusal.Reason)
				}
				pass.Begun()
			}
		})
	}
}

// BenchmarkPushPop is one request through a queue that stays 4,096 deep, of 200 flows.
func BenchmarkPushPop(b *testing.B) {
	for name, tenants := range map[string]int{"200 tenants": 200, "200 flows of 2 tenants": 2} {
		b.Run(name, func(b *testing.B) {
			q := NewQueue(Limits{Items: 5000, Bytes: 1 << 40, Tokens: 1 << 50, TenantShare: 1})
			items := make([]*Item, 4096)
			for i := range items {
				items[i] = &Item{
					Lane: uint64(i % 4), Priority: []int32{0, 50}[i/4%2], Tenant: fmt.Sprint("t", i%tenants), Flow: fmt.Sprint("f", i%200),
					Cost: int64(i*7919%4000 + 1), Bytes: 2000, Deadline: epoch.Add(1 << 30),
				}
				q.Push(items[i])
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				it := q.Pop(uint64(i % 4))
				it.Deadline = it.Deadline.Add(1 << 20)
				q.Push(it)
				i++
			}
			if q.Len() != 4096 {
				b.Fatalf("%d wait", q.Len())
			}
		})
	}
}

// BenchmarkDisplace is a request that finds the queue full and takes the place of another.
func BenchmarkDisplace(b *testing.B) {
	q := NewQueue(Limits{Items: 4096, Bytes: 1 << 40, Tokens: 1 << 50, TenantShare: 1})
	for i := range 4096 {
		q.Push(&Item{Tenant: fmt.Sprint("t", i%200), Cost: 10})
	}
	high := &Item{Priority: 100, Tenant: "top", Cost: 10}
	b.ReportAllocs()
	for b.Loop() {
		shed, cause := q.Push(high)
		if cause != "" || len(shed) != 1 {
			b.Fatal(cause, shed)
		}
		q.Remove(high)
		q.Push(shed[0])
	}
}
