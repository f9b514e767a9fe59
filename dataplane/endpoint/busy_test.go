package endpoint

import (
	"testing"
	"time"

	"anabranch/failover"
)

func TestABusyEndpointComesOnlyWhereNoOtherIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		says, want time.Duration
	}{
		"does not say": {0, time.Second},
		"says":         {5 * time.Second, 5 * time.Second},
		"asks a lot":   {time.Hour, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			r, now := still(t)
			cluster := r.Cluster("a")
			l := prompt(1)
			names := func() (ids string) {
				list, _ := cluster.Candidates(&l, *now, nil, nil, nil)
				for _, e := range list {
					ids += string(e.ID) + " "
				}
				return ids
			}
			everyone := names()
			e := r.of("a")[0]
			e.Begin(l, *now).Done(Result{Outcome: failover.Ignored, Busy: true, RetryAfter: c.says}, *now)
			e.Begin(l, *now).Done(Result{Outcome: failover.Ignored, Busy: true, RetryAfter: time.Millisecond}, *now)
			e.Begin(l, *now).Done(Result{Outcome: failover.OK, FirstToken: 1}, *now)
			if !e.Busy(*now) || names() == everyone {
				t.Errorf("it is among %s", names())
			}
			for _, sibling := range r.of("a")[1:] {
				sibling.Begin(l, *now).Done(Result{Outcome: failover.Ignored, Busy: true, RetryAfter: time.Minute}, *now)
			}
			if names() != everyone {
				t.Errorf("with all busy there are %s, want %s", names(), everyone)
			}
			if out, _ := e.Ejected(); out {
				t.Error("it is ejected")
			}
			if e.Busy(now.Add(c.want)) || !e.Busy(now.Add(c.want-1)) {
				t.Errorf("it is not busy for %s", c.want)
			}
		})
	}
}

func TestDoubt(t *testing.T) {
	r, now := still(t)
	e := r.of("a")[0]
	floor := e.floor()
	short, long := Load{Model: "m", PromptTokens: 10}, Load{Model: "m", PromptTokens: 1_000_000}
	after := func(l *Load, d time.Duration) bool { return e.Doubtful(l, now.Add(d)) }
	if after(&short, time.Hour) {
		t.Error("nothing is there, and yet it is in doubt")
	}
	first := e.Begin(short, *now)
	for d, want := range map[time.Duration]bool{0: false, floor/4 - 1: false, floor / 4: true, time.Hour: true} {
		if after(&short, d) != want {
			t.Errorf("in doubt after %s: %v", d, !want)
		}
	}
	if after(&long, floor/2-1) || !after(&long, floor/2) {
		t.Error("where more is expected to take longer, half of the floor is given")
	}
	*now = now.Add(floor)
	second := e.Begin(short, *now)
	if !e.Doubtful(&short, *now) {
		t.Error("one more request took the doubt away")
	}
	first.FirstToken(*now)
	if e.Doubtful(&short, *now) {
		t.Error("a token did not take the doubt away")
	}
	first.Done(Result{Outcome: failover.OK, FirstToken: floor}, *now)
	second.Done(Result{Outcome: failover.Ignored}, *now)
	if after(&short, time.Hour) {
		t.Error("all have ended, and it is in doubt")
	}
	e.Begin(short, *now).Done(Result{Outcome: failover.Silence}, *now)
	if !after(&short, 0) {
		t.Error("the last one waited for nothing, and it is not in doubt")
	}
	e.Begin(short, *now).Done(Result{Outcome: failover.OK, FirstToken: 1}, *now)
	if after(&short, time.Hour) {
		t.Error("it has answered since, and is in doubt")
	}
}
