package main

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/controlplane/forward"
	"anabranch/controlplane/rest"
	"anabranch/controlplane/state/statepb"
)

// Without a majority no node can say that what it has is the newest, and it is all that there is to look at.
func TestReadsWithoutALeaderTakeStale(t *testing.T) {
	leaderless := false
	s := begin(t, func(o *rest.Options) {
		o.ReadBarrier = func(context.Context) error {
			if leaderless {
				return forward.ErrNoLeader
			}
			return nil
		}
	})
	s.node.Apply(&statepb.Command{Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}}})
	s.do(0, eu+"---\n"+acme, "apply", "-f", "-")
	s.do(0, "", "token", "create", "ci")
	leaderless = true
	for _, args := range []string{
		"get tenants", "get tenant acme", "describe tenant acme", "history tenant acme --diff", "history tables",
		"audit list", "audit show 1", "rollout list", "key list acme", "token list", "token get ci", "proposal list",
	} {
		t.Run(args, func(t *testing.T) {
			if out, _ := s.do(0, "", append(strings.Fields(args), "--stale")...); out == "" {
				t.Error("nothing is shown")
			}
		})
	}
	for _, args := range []string{"get routers", "get sources"} {
		s.do(0, "", append(strings.Fields(args), "--stale")...)
	}
	// The hint is what somebody sees who doesn't know the flag.
	_, errs := s.do(exitRefused, "", "get", "tenants")
	if !strings.Contains(errs, "commands that read take --stale") {
		t.Errorf("hint: %s", errs)
	}
}

// Who reads without a leader is told how old what they see may be, once.
func TestStaleReadsSayHowOldTheyMayBe(t *testing.T) {
	var age atomic.Int64 // nanoseconds
	s := begin(t, func(o *rest.Options) {
		o.Staleness = func() time.Duration { return time.Duration(age.Load()) }
	})
	s.do(0, eu+"---\n"+acme, "apply", "-f", "-")
	for name, tt := range map[string]struct {
		age  time.Duration
		args []string
		note string // empty: nothing is said
	}{
		"a list":             {42 * time.Second, []string{"get", "tenants", "--stale"}, "last heard of a leader 42s ago"},
		"several reads":      {42 * time.Second, []string{"describe", "tenant", "acme", "--stale"}, "last heard of a leader 42s ago"},
		"never heard":        {-1, []string{"get", "tenants", "--stale"}, "has not heard of a leader since it started"},
		"heard just now":     {time.Second, []string{"get", "tenants", "--stale"}, ""},
		"from the leader":    {time.Minute, []string{"get", "tenants"}, ""},
		"what is always new": {time.Minute, []string{"get", "routers", "--stale"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			age.Store(int64(tt.age))
			_, errs := s.do(0, "", tt.args...)
			if tt.note == "" && errs != "" || !strings.Contains(errs, tt.note) || strings.Count(errs, "note:") > 1 {
				t.Errorf("said %q, want %q", errs, tt.note)
			}
		})
	}
}
