package scale

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/policy"
)

// size is how large a fleet is.
type size struct {
	regions, routers, tenants, limits int
}

// largest is what the console is made for.
var largest = size{regions: 200, routers: 5000, tenants: 125, limits: 500}

var models = []string{"llama-3.1-8b", "llama-3.1-70b"}

// regionName gives names like those of AWS, of eight zones.
func regionName(r int) string {
	zones := []string{"us", "eu", "ap", "sa", "ca", "me", "af", "il"}
	parts := []string{"east", "west", "north", "south", "central"}
	return fmt.Sprintf("%s-%s-%d", zones[r%8], parts[r/8%5], r/40+1)
}

func zoneOf(r int) string { return regionName(r)[:2] }

func clusterName(r int) string { return regionName(r) + "-h100" }

func tenantName(i int) string { return fmt.Sprintf("tenant-%03d", i) }

// kindsOfLimits that each tenant has one of.
var kindsOfLimits = []string{"requests", "total-tokens", "output-tokens", "concurrent-requests"}

// documents write the fleet down, in an order in which references point backwards.
func (s size) documents() string {
	var b strings.Builder
	doc := func(kind policy.Kind, name, spec string) {
		fmt.Fprintf(&b, "---\napiVersion: anabranch/v1\nkind: %s\nmetadata: {name: %s}\nspec: %s\n", kind, name, spec)
	}
	for _, m := range models {
		doc(policy.KindModel, m, "{}")
	}
	for r := range s.regions {
		doc(policy.KindRegion, regionName(r), fmt.Sprintf(`{zone: %s, peerURLs: ["https://127.0.0.1:%d"], rttMs: {%s: 12, %s: 40}}`, zoneOf(r), 20_000+r, regionName((r+8)%s.regions), regionName((r+1)%s.regions)))
	}
	for r := range s.regions {
		doc(policy.KindCluster, clusterName(r), fmt.Sprintf(
			`{region: %s, models: [%s], type: endpoints, endpoints: [{id: h100-1, url: "http://127.0.0.1:%d", class: h100}], priorWork: 200000, gpus: [{class: h100, count: 8, purchase: on-demand}]}`,
			regionName(r), strings.Join(models, ", "), 30_000+r))
	}
	tiers := []string{"top", "standard", "best-effort", "batch"}
	for i := range s.tenants {
		doc(policy.KindTenant, tenantName(i), fmt.Sprintf("{tier: %s}", tiers[i%4]))
	}
	for i := range s.tenants {
		var limits []string
		for k := range max(1, s.limits/s.tenants) {
			kind := kindsOfLimits[k%4]
			if kind == "concurrent-requests" {
				limits = append(limits, "{kind: concurrent-requests, max: 4000}")
			} else {
				limits = append(limits, fmt.Sprintf("{kind: %s, perMinute: %d}", kind, 60_000*(1+99*(k%2))))
			}
		}
		doc(policy.KindQuota, tenantName(i), fmt.Sprintf("{tenant: %s, limits: [%s]}", tenantName(i), strings.Join(limits, ", ")))
	}
	doc(policy.KindTrafficPolicy, "default", "{class: interactive, ttftObjectiveMs: 2000}")
	var prices []string
	for r := range s.regions {
		prices = append(prices, fmt.Sprintf("{class: h100, region: %s, usdPerHour: %.2f}", regionName(r), 5+float64(r%40)/10))
	}
	doc(policy.KindRateCard, "list", `{source: made up, gpus: [`+strings.Join(prices, ", ")+`], models: [{model: llama-3.1-8b, inputPerMTok: 0.05, outputPerMTok: 0.08}, {model: llama-3.1-70b, inputPerMTok: 0.59, outputPerMTok: 0.79}]}`)
	doc(policy.KindDrillPlan, "lose-"+regionName(1), fmt.Sprintf(`{kind: soft, target: {region: %s}, schedule: {cron: "0 4 * * 2", timeZone: Europe/Dublin}}`, regionName(1)))
	return b.String()
}

// fill writes the fleet into a node and has its routers come: one of each region first, so that clusters are well from the
// beginning, and the others when tables don't follow one another any more.
func (s size) fill(t *testing.T, n *member) *crowd {
	t.Helper()
	c := newCrowd(t, s, n.grpc)
	c.gather(0, s.regions)
	s.seed(t, n.as("admin"))
	c.gather(s.regions, s.routers)
	return c
}

// seed writes the fleet into a node.
func (s size) seed(t *testing.T, admin *client.Client) {
	t.Helper()
	all, problems := policy.ParseAll([]byte(s.documents()))
	if len(problems) > 0 {
		t.Fatal(client.Fields(problems))
	}
	start := time.Now()
	for _, r := range all {
		if _, err := admin.Create(t.Context(), r); err != nil {
			t.Fatalf("%s %s after %s: %v", r.Kind, r.Metadata.Name, time.Since(start), err)
		}
	}
	t.Logf("%d documents written in %s", len(all), time.Since(start).Round(time.Millisecond))
}

// change writes something ten times a second until the context ends: each is a revision, and so a picture of the fleet.
func change(ctx context.Context, admin *client.Client) (changes int, err error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	if _, err := admin.Do(ctx, client.Call{Method: "POST", Path: "/v1/tokens", Body: []byte(`{"name":"turned","role":"viewer"}`)}); err != nil {
		return 0, fmt.Errorf("make a token to rotate: %w", err)
	}
	for {
		select {
		case <-ctx.Done():
			return changes, nil
		case <-tick.C:
			if _, err := admin.Do(ctx, client.Call{Method: "POST", Path: "/v1/tokens/turned/rotate", Body: []byte(`{}`)}); err != nil && ctx.Err() == nil {
				return changes, fmt.Errorf("rotate after %d changes: %w", changes, err)
			}
			changes++
		}
	}
}
