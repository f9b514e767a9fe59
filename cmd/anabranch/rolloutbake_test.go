package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestABakeInWords(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		rollout string // as the server tells it
		want    []string
	}{
		"it has ended": {`{"stage":"settled"}`, nil},
		"the leader says": {
			`{"bake":{"have":3,"needed":2,"endsAt":"2026-12-01T12:00:41.4Z","judged":true,"errors":{"with":{"requests":200,"failures":3},"before":{"requests":0,"failures":0},"rest":{"requests":1000,"failures":10},"maxIncrease":0.02,"minRequests":50}}}`,
			[]string{"bake      41s left", "routers   3 hold it and are heard of, 2 are needed", "errors    1.5 % of 200 with it, none before, 1.0 % of 1000 elsewhere; at most 2.0 points more, from 50 requests on"},
		},
		"another node asks":        {`{"bake":{"have":1,"needed":1,"endsAt":"2026-12-01T12:01:00Z"}}`, []string{"bake      1m0s left at least; the leader's node knows", "routers   1 hold it and are heard of, 1 are needed"}},
		"it is over by now":        {`{"bake":{"have":1,"needed":1,"endsAt":"2026-12-01T11:59:00Z","judged":true}}`, []string{"bake      0s left", "routers   1 hold it and are heard of, 1 are needed"}},
		"too few have it":          {`{"bake":{"have":0,"needed":2,"returnsAt":"2026-12-01T12:05:00Z","judged":true}}`, []string{"bake      waits for routers, and is taken back in 5m0s", "routers   0 hold it and are heard of, 2 are needed"}},
		"nobody says until when":   {`{"bake":{"have":0,"needed":2}}`, []string{"bake      waits for routers", "routers   0 hold it and are heard of, 2 are needed"}},
		"somebody has paused it":   {`{"paused":true,"bake":{"have":1,"needed":1,"endsAt":"2026-12-01T12:01:00Z"}}`, []string{"bake      paused", "routers   1 hold it and are heard of, 1 are needed"}},
		"and it tells of no gates": {`{"bake":{"have":1,"needed":1,"errors":null}}`, []string{"bake      waits for routers", "routers   1 hold it and are heard of, 1 are needed"}},
	} {
		t.Run(name, func(t *testing.T) {
			var r aRollout
			if err := json.Unmarshal([]byte(tt.rollout), &r); err != nil {
				t.Fatal(err)
			}
			want := ""
			if len(tt.want) > 0 {
				want = strings.Join(tt.want, "\n") + "\n"
			}
			if got := r.bakeLines(now); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

func TestRoutersOfARolloutAreListed(t *testing.T) {
	s := rolling(t)
	if out, _ := s.do(0, "", "rollout", "status"); !strings.Contains(fields(out), "bake waits for routers\nrouters 0 hold it and are heard of, 1 are needed") {
		t.Errorf("status:\n%s", out)
	}
	if out, _ := s.do(0, "", "rollout", "routers"); strings.TrimSpace(fields(out)) != "ROUTER REGION STANDING TABLE REASON" {
		t.Errorf("routers:\n%s", out)
	}
	if out, _ := s.do(0, "", "rollout", "routers", "-o", "json", "--standing", "refused"); !strings.Contains(out, `"items"`) {
		t.Errorf("json:\n%s", out)
	}
	if _, errs := s.do(exitRefused, "", "rollout", "routers", "--standing", "well"); !strings.Contains(errs, "refused silent waiting holds later") {
		t.Errorf("standing: %s", errs)
	}
}
