package main

import (
	"context"
	"strings"
	"testing"

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
