package table

import (
	"math"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/failover/brownout"
)

func TestNumbersOfAClass(t *testing.T) {
	pb := good()
	pb.Classes[2] = &routerpb.Class{
		Id: "bulk", Policy: "p-bulk", Models: []string{"llama"}, PickMode: "prefix-hash", PrefixLength: 65536, ConcurrencyThreshold: 1024,
		FirstByteFloorMs: 90_000, StallMs: 20_000, QueueMs: -1, Rescue: true, Hedge: &routerpb.Hedge{MaxShare: 0.1, MaxSaturation: 0.5, AfterMs: 400},
	}
	pb.Classes[2].Brownout = &routerpb.Brownout{EnterAt: 0.95, EnterMs: 2000, BatchTokens: 64, Weights: map[string]float64{"acme": 2}}
	pb.Classes[1].Hedge = &routerpb.Hedge{}
	pb.Classes[1].QueueMs, pb.Classes[1].FirstByteDeadlineMs = 500, 7000
	tab := build(t, pb)
	c, _ := tab.ClassNamed("bulk", "llama")
	if c.PickMode != "prefix-hash" || c.PrefixLength != 65536 || c.Concurrency != 1024 || !c.Rescue {
		t.Errorf("got %+v", c)
	}
	if c.FirstByteFloor != 90*time.Second || c.FirstByteDeadline != 90*time.Second || c.Stall != 20*time.Second || c.Queue != 0 {
		t.Errorf("times: %+v; want a deadline that is not before the floor, and no queue", c)
	}
	if c.Brownout != (brownout.Config{EnterAt: 0.95, Enter: 2 * time.Second, BatchTokens: 64}) || c.Weights["acme"] != 2 {
		t.Errorf("brown-out: %+v, weights %v", c.Brownout, c.Weights)
	}
	if *c.Hedge != (Hedge{MaxShare: 0.1, MaxSaturation: 0.5, After: 400 * time.Millisecond}) {
		t.Errorf("hedge: %+v", c.Hedge)
	}
	c, _ = tab.ClassNamed("interactive", "big")
	if *c.Hedge != (Hedge{MaxShare: 0.02, MaxSaturation: 0.7}) || c.Queue != 500*time.Millisecond || c.FirstByteDeadline != 7*time.Second {
		t.Errorf("got %+v, %+v", c, c.Hedge)
	}
	c, _ = tab.ClassNamed("interactive", "llama")
	if c.Hedge != nil || c.Queue != 10*time.Second || c.FirstByteDeadline != time.Minute || c.Stall != 0 || c.PrefixLength != 4096 || c.Concurrency != 32 || c.Rescue {
		t.Errorf("where nothing is said: %+v", c)
	}
	if builtIn.Hedge != nil {
		t.Error("the built-in class was changed")
	}
}

func TestClassesThatAreRefused(t *testing.T) {
	class := func(f func(*routerpb.Class)) func(*routerpb.Table) {
		return func(p *routerpb.Table) {
			p.Classes[0].Hedge = &routerpb.Hedge{}
			f(p.Classes[0])
		}
	}
	tests := []struct {
		name  string
		spoil func(*routerpb.Table)
		code  string
		field string
	}{
		{"a short prefix", class(func(c *routerpb.Class) { c.PrefixLength = 1023 }), CodeValue, "classes[0].prefix_length"},
		{"a long prefix", class(func(c *routerpb.Class) { c.PrefixLength = 65537 }), CodeValue, "classes[0].prefix_length"},
		{"a high threshold", class(func(c *routerpb.Class) { c.ConcurrencyThreshold = 1025 }), CodeValue, "classes[0].concurrency_threshold"},
		{"a negative deadline", class(func(c *routerpb.Class) { c.FirstByteDeadlineMs = -1 }), CodeValue, "classes[0].first_byte_deadline_ms"},
		{"a deadline before the floor", class(func(c *routerpb.Class) { c.FirstByteFloorMs, c.FirstByteDeadlineMs = 10, 9 }), CodeValue, "classes[0].first_byte_deadline_ms"},
		{"a negative stall", class(func(c *routerpb.Class) { c.StallMs = -1 }), CodeValue, "classes[0].stall_ms"},
		{"a queue of a month", class(func(c *routerpb.Class) { c.QueueMs = 1 << 40 }), CodeValue, "classes[0].queue_ms"},
		{"hedging more than all", class(func(c *routerpb.Class) { c.Hedge.MaxShare = 1.1 }), CodeValue, "classes[0].hedge.max_share"},
		{"hedging a share that is no number", class(func(c *routerpb.Class) { c.Hedge.MaxShare = math.NaN() }), CodeValue, "classes[0].hedge.max_share"},
		{"hedging onto what is overloaded", class(func(c *routerpb.Class) { c.Hedge.MaxSaturation = 2 }), CodeValue, "classes[0].hedge.max_saturation"},
		{"hedging before the request", class(func(c *routerpb.Class) { c.Hedge.AfterMs = -1 }), CodeValue, "classes[0].hedge.after_ms"},
		{"a brown-out that is left before it is entered", class(func(c *routerpb.Class) { c.Brownout = &routerpb.Brownout{EnterAt: 0.5} }), CodeValue, "classes[0].brownout"},
		{"a brown-out entered in the past", class(func(c *routerpb.Class) { c.Brownout = &routerpb.Brownout{EnterMs: -1} }), CodeValue, "classes[0].brownout.enter_ms"},
		{"a tenant without weight", class(func(c *routerpb.Class) { c.Brownout = &routerpb.Brownout{Weights: map[string]float64{"a": 0}} }), CodeValue, "classes[0].brownout.weights"},
		{"a standby with weight", func(p *routerpb.Table) { p.Weights[0].Clusters[1].Standby = true }, CodeValue, "weights[0].clusters[1].standby"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { refused(t, good(), tt.spoil, tt.code, tt.field) })
	}
}

func TestStandby(t *testing.T) {
	pb := good()
	pb.Weights[0].Clusters[0].Weight = 1
	pb.Weights[0].Clusters[1].Weight, pb.Weights[0].Clusters[1].Standby = 0, true
	w, _ := build(t, pb).Weights("llama", "interactive", "us-east-1")
	if w[0].Standby || !w[1].Standby {
		t.Errorf("got %+v", w)
	}
}
