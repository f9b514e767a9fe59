package e2e

import (
	"fmt"
	"net/http"
	"time"

	"anabranch/cmd/anabranch/dev/seed"
	"anabranch/controlplane/policy"
)

// limits: what a limit that is raised or lowered under load means holds everywhere within two seconds.
func (s *System) limits() {
	const goal = 2 * time.Second
	s.apply(s.tenant("tide", "standard") + `---
apiVersion: anabranch/v1
kind: Quota
metadata: {name: tide}
spec: {tenant: tide, limits: [{kind: requests, perMinute: 60, burst: 1}]}
`)
	body := chat(seed.SmallModel, false)
	body["max_tokens"] = 1
	// in a row says whether so many requests get the same status.
	row := func(region string, n, want int) error {
		for i := range n {
			if a := s.ask(region, "tide", body); a.status != want {
				return fmt.Errorf("request %d of %d: %d %s", i+1, n, a.status, a.body)
			}
		}
		return nil
	}
	for _, tt := range []struct {
		what, limits string
		want         int
	}{
		{"raised", `[{"kind": "requests", "perMinute": 600000, "burst": 10000}]`, http.StatusOK},
		{"lowered", `[{"kind": "requests", "perMinute": 1, "burst": 1}]`, http.StatusTooManyRequests},
		{"raised again", `[{"kind": "requests", "perMinute": 600000, "burst": 10000}]`, http.StatusOK},
	} {
		s.change(policy.KindQuota, "tide", `{"spec":{"limits":`+tt.limits+`}}`)
		began := time.Now()
		for region := range s.routers {
			s.await(3*goal, "the limit that was "+tt.what+" to hold in "+region, func() error { return row(region, 8, tt.want) })
		}
		s.t.Logf("%s: in all regions after %v", tt.what, time.Since(began).Round(time.Millisecond))
	}
}
