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
			e := r.Of("a")[0]
			e.Begin(l, *now).Done(Result{Outcome: failover.Ignored, Busy: true, RetryAfter: c.says}, *now)
			e.Begin(l, *now).Done(Result{Outcome: failover.Ignored, Busy: true, RetryAfter: time.Millisecond}, *now)
			e.Begin(l, *now).Done(Result{Outcome: failover.OK, FirstToken: 1}, *now)
			if !e.Busy(*now) || names() == everyone {
				t.Errorf("it is among %s", names())
			}
			for _, sibling := range r.Of("a")[1:] {
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
