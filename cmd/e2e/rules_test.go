package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"anabranch/cmd/anabranch/dev/seed"
	"anabranch/controlplane/policy"
)

// short is a chat that says two words, with an affinity of its own.
func short(model, key string) map[string]any {
	body := chat(model, false)
	body["max_tokens"], body["prompt_cache_key"] = 2, key
	return body
}

// each asks n times, some at once.
func each(n int, ask func(i int) answer) []answer {
	out := make([]answer, n)
	var all sync.WaitGroup
	slots := make(chan struct{}, 6)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			out[i] = ask(i)
			<-slots
		})
	}
	all.Wait()
	return out
}

// split: each arm gets its share, a conversation stays on its arm, and what the rule does not match
// does not notice.
func (s *System) split() {
	const region, canary = "us-east-1", "eu-west-1-a"
	s.apply(scenario("split", `  models: [llama-3.1-8b]
  split:
  - {name: stable, weight: 75, clusters: [us-east-1-a]}
  - {name: canary, weight: 25, clusters: [eu-west-1-a]}
`))
	ask := func(i int) answer {
		return s.askFor("split", region, "acme", short(seed.SmallModel, fmt.Sprintf("split-%d", i)))
	}
	const n = 120
	first := each(n, ask)
	hit := 0
	for _, a := range first {
		if a.whole() != nil || a.cluster() != "us-east-1-a" && a.cluster() != canary {
			s.t.Fatalf("%v by %q", a.whole(), a.cluster())
		}
		if a.cluster() == canary {
			hit++
		}
	}
	// 30 are expected; 13 and 47 are 3.6 standard deviations away.
	if hit < 13 || hit > 47 {
		s.t.Errorf("the arm with a share of 25 %% got %d of %d", hit, n)
	}
	for i, a := range each(20, ask) {
		if a.cluster() != first[i].cluster() {
			s.t.Errorf("conversation %d went from %s to %s", i, first[i].cluster(), a.cluster())
		}
	}
	counted := s.metric(region, "anabranch_router_arm_requests_total", `policy="split"`, `arm="canary"`, `code="ok"`)
	if all := s.metric(region, "anabranch_router_arm_requests_total", `policy="split"`); all != n+20 || counted < float64(hit) || counted > float64(hit+20) {
		s.t.Errorf("counted %v, of these %v of the canary, which got %d and more", all, counted, hit)
	}
	if a := s.ask(region, "acme", short(seed.SmallModel, "none")); a.region() != region {
		s.t.Errorf("a request that the rule does not match went to %s: %v", a.region(), a.whole())
	}
	s.change(policy.KindTrafficPolicy, "split", `{"spec":{"split":[{"name":"stable","weight":0,"clusters":["us-east-1-a"]},{"name":"canary","weight":1,"clusters":["eu-west-1-a"]}]}}`)
	s.await(20*time.Second, "the canary to get all", func() error {
		for i, a := range each(12, ask) {
			if a.cluster() != canary {
				return fmt.Errorf("conversation %d is at %q", i, a.cluster())
			}
		}
		return nil
	})
	r := s.record(region, ask(0))
	if r.Policy != "split" || r.Arm != "canary" {
		s.t.Errorf("recorded as policy %q, arm %q", r.Policy, r.Arm)
	}
}

// change patches a resource.
func (s *System) change(kind policy.Kind, name, patch string) {
	s.t.Helper()
	s.taken("change "+name, func() error { return s.patch(kind, name, patch) })
}

// shadow: each request is copied to the other cluster, none is charged twice, and no copy is answered.
func (s *System) shadow() {
	const region, n = "us-east-1", 20
	s.apply(s.tenant("umbra", "top") + `---
apiVersion: anabranch/v1
kind: Quota
metadata: {name: umbra}
spec: {tenant: umbra, limits: [{kind: requests, perMinute: 60, burst: 1000}]}
` + scenario("shadow", `  models: [llama-3.1-8b]
  clusters: [us-east-1-a]
  shadow: {percent: 100, clusters: [eu-west-1-a]}
`))
	other := s.clusters["eu-west-1-a"].servers
	copies := func() (all int) {
		for _, e := range other.Status(0).Endpoints {
			all += int(e.Tenants["shadow"])
		}
		return all
	}
	before := copies()
	for i, a := range each(n, func(i int) answer {
		return s.askFor("shadow", region, "umbra", short(seed.SmallModel, fmt.Sprintf("shadow-%d", i)))
	}) {
		if a.whole() != nil || a.cluster() != "us-east-1-a" {
			s.t.Errorf("request %d: %v by %q", i, a.whole(), a.cluster())
		}
	}
	s.await(10*time.Second, "copies to arrive", func() error {
		if got := copies() - before; got != n {
			return fmt.Errorf("%d", got)
		}
		return nil
	})
	const requests, tokens = "anabranch_router_shadow_requests_total", "anabranch_router_shadow_tokens_total"
	s.await(10*time.Second, "copies to be counted", func() error {
		if got := s.metric(region, requests, `policy="shadow"`, `cluster="eu-west-1-a"`, `status="200"`); got != n {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
	if out := s.metric(region, tokens, `policy="shadow"`, `direction="output"`); out != 2*n {
		s.t.Errorf("copies of two words each cost %v tokens", out)
	}
	if spent := s.metric(region, "anabranch_router_shadow_cost_microdollars_total", `policy="shadow"`); !(spent > 0) {
		s.t.Errorf("copies cost %v", spent)
	}
	if charged := s.metric(region, "anabranch_tokens_total", `tenant="umbra"`, `token_type="output"`); charged != 2*n {
		s.t.Errorf("the tenant was charged %v output tokens for %d requests of two words each", charged, n)
	}
	a := s.askFor("shadow", region, "umbra", short(seed.SmallModel, "last"))
	var left int
	if _, err := fmt.Sscan(a.header.Get("x-ratelimit-remaining-requests"), &left); err != nil || left < 1000-n-n/2 { // with the copies 40 would be gone; a charge whose answer is lost is made again
		s.t.Errorf("of 1000 requests %d are left after %d, %v", left, n+1, err)
	}
}

// rewrite: what is asked for by an alias is served as the model, or as the adapter that a rule says.
func (s *System) rewrite() {
	servers := s.pods("rewrite", "plain", nil, "p1")
	tuned := s.pods("rewrite-tuned", "tuned", nil, "t1")
	s.apply(base("plain", "aliases: [assistant]") + base("tuned", "") +
		member("us-east-1", "rewrite", "plain", servers) + member("us-east-1", "rewrite-tuned", "tuned", tuned) +
		scenario("rewrite", "  rewrite: {model: tuned}\n"))
	s.await(20*time.Second, "the alias to be served", func() error { return s.ask("us-east-1", "acme", chat("assistant", false)).whole() })
	a := s.askFor("rewrite", "us-east-1", "acme", chat("assistant", false))
	if a.whole() != nil || a.cluster() != "rewrite-tuned" {
		s.t.Errorf("%v by %s", a.whole(), a.cluster())
	}
	for want, at := range map[string][]string{
		"plain": models(servers.Status(100).Endpoints[0].Recent), "tuned": models(tuned.Status(100).Endpoints[0].Recent),
	} {
		if len(at) == 0 || at[0] != want {
			s.t.Errorf("%s was asked for as %q", want, at)
		}
	}
	if r := s.record("us-east-1", a); r.Asked != "assistant" || r.Model != "tuned" || r.Policy != "rewrite" {
		s.t.Errorf("recorded: asked %q, model %q, policy %q", r.Asked, r.Model, r.Policy)
	}
	if !strings.Contains(s.listed("us-east-1", "acme"), `"assistant"`) {
		s.t.Error("the alias is not listed")
	}
}

// listed is what the router says of its models.
func (s *System) listed(region, tenant string) string {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.routers[region].url()+"/v1/models", http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.keys[tenant])
	resp, err := tenants.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// pin: nothing else is used, however alive it is.
func (s *System) pin() {
	home, away := s.pods("pin-home", "pinned", nil, "h1"), s.pods("pin-away", "pinned", nil, "a1")
	s.apply(base("pinned", "") + member("us-east-1", "pin-home", "pinned", home) + member("eu-west-1", "pin-away", "pinned", away) +
		scenario("pin", "  models: [pinned]\n  clusters: [pin-away]\n"))
	ask := func() answer { return s.askFor("pin", "us-east-1", "acme", short("pinned", "pin")) }
	s.await(20*time.Second, "the pin to hold", func() error {
		a := ask()
		return a.by(a.cluster(), "pin-away")
	})
	if a := s.ask("us-east-1", "acme", short("pinned", "pin")); a.whole() != nil || a.cluster() != "pin-home" {
		s.t.Errorf("without the header: %v by %q", a.whole(), a.cluster())
	}
	s.change(policy.KindCluster, "pin-away", `{"spec":{"drained":true}}`)
	s.await(20*time.Second, "the pinned cluster to be drained", func() error {
		a := ask()
		if a.status == http.StatusOK && a.cluster() == "pin-home" {
			s.t.Error("the pin was widened")
		}
		if a.status != http.StatusServiceUnavailable || a.failure().Code != "no_legal_target" {
			return fmt.Errorf("%d %s", a.status, a.body)
		}
		return nil
	})
	r := s.record("us-east-1", ask())
	why := map[string]string{}
	for _, removed := range r.Removed {
		why[string(removed.Cluster)] = removed.Reason
	}
	if why["pin-home"] != "pin" || why["pin-away"] != "drained" {
		s.t.Errorf("removed: %v of %+v", why, r)
	}
}

// residency: the policy takes places away from what the tenant allows, and adds none.
func (s *System) residency() {
	s.apply(scenario("residency-eu", "  residency: [eu]\n") + scenario("residency-us", "  residency: [us-east-1]\n"))
	for _, region := range regions {
		if a := s.askFor("residency-eu", region, "acme", short(seed.SmallModel, region)); a.whole() != nil || a.region() != "eu-west-1" {
			s.t.Errorf("from %s: %v by %q", region, a.whole(), a.region())
		}
		// initech may be served in the EU only.
		if a := s.askFor("residency-us", region, "initech", short(seed.SmallModel, region)); a.status != http.StatusServiceUnavailable || a.failure().Code != "no_legal_target" {
			s.t.Errorf("from %s: %d %s", region, a.status, a.body)
		}
	}
}
