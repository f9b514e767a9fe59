package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"anabranch/api/fleet"
	"anabranch/cmd/anabranch/dev/seed"
	"anabranch/dataplane"
	"anabranch/sim/modelserver"
)

// prefixHash: requests that begin alike go to one endpoint, however their JSON is written and whatever
// comes after; and the client's id of a group tells groups apart.
func (s *System) prefixHash() {
	s.apply(scenario("prefix", `  models: [llama-3.1-8b]
  clusters: [us-east-1-a]
  pickMode: prefix-hash
  prefixLength: 1024
  concurrencyThreshold: 64
`))
	const groups, each = 12, 3
	at := map[string]int{}
	for g := range groups {
		beginning := strings.Repeat(fmt.Sprintf("group %d tells of the river. ", g), 60) // more than 1,024 characters
		own := map[string]bool{}
		for n := range each {
			content, err := json.Marshal(beginning + fmt.Sprintf("And what about %d?", n))
			if err != nil {
				s.t.Fatal(err)
			}
			body := fmt.Sprintf(`{"model":%q,"max_tokens":2,"messages":[{"role":"user","content":%s}]}`, seed.SmallModel, content)
			if n == 1 { // the same, said differently
				body = fmt.Sprintf("{ \"messages\" : [ {\"content\": %s,\n \"role\":\"user\"} ],\n\"max_tokens\": 2, \"model\": %q}", strings.ReplaceAll(string(content), "river", `r\u0069ver`), seed.SmallModel)
			}
			a := s.sendRaw(s.t.Context(), "us-east-1", s.keys["acme"], body, scenarioHeader, "prefix")
			if a.whole() != nil || a.cluster() != "us-east-1-a" {
				s.t.Fatalf("%v by %q", a.whole(), a.cluster())
			}
			own[a.endpoint()] = true
			at[a.endpoint()]++
		}
		if len(own) != 1 {
			s.t.Errorf("requests of group %d went to %v", g, own)
		}
	}
	if len(at) < 2 {
		s.t.Errorf("all %d groups are at %v", groups, at)
	}
	named := map[string]bool{}
	for i := range groups {
		a := s.askFor("prefix", "us-east-1", "acme", short(seed.SmallModel, ""), "x-amzn-sagemaker-prefix-aware-id", fmt.Sprintf("group-%d", i))
		named[a.endpoint()] = true
	}
	if len(named) < 2 {
		s.t.Errorf("groups of different names with one text are all at %v", named)
	}
}

// adapters: two that find one slot at each endpoint do not push each other out, but are asked for where
// they are.
func (s *System) adapters() {
	servers := s.pods("adaptable", "adaptable", func(o *modelserver.Options) {
		o.MaxAdapters = 1
		o.Models[0].Adapters = append(o.Models[0].Adapters, "ad-one", "ad-two")
	}, "p1", "p2")
	s.apply(base("adaptable", "adapters: [ad-one, ad-two]") + member("us-east-1", "adaptable", "adaptable", servers))
	s.await(40*time.Second, "both to stay where they are", func() error {
		home := map[string]string{}
		for i := range 8 {
			adapter := []string{"ad-one", "ad-two"}[i%2]
			a := s.ask("us-east-1", "acme", short(adapter, ""))
			if err := a.whole(); err != nil {
				return err
			}
			r := s.record("us-east-1", a)
			if e := r.Attempts[0].Expected; e == nil || e.Adapter != "resident" || home[adapter] != "" && home[adapter] != a.endpoint() {
				return fmt.Errorf("%s went to %s, where this was expected: %+v", adapter, a.endpoint(), e)
			}
			home[adapter] = a.endpoint()
		}
		if home["ad-one"] == home["ad-two"] {
			return fmt.Errorf("both are at %s, which has one slot, and another endpoint has a free one", home["ad-one"])
		}
		return nil
	})
}

// models are those that requests asked for.
func models(recent []modelserver.Record) []string {
	var out []string
	for _, r := range recent {
		if !r.Canary {
			out = append(out, r.Model)
		}
	}
	return out
}

// caches: what a model server publishes of its cache is known, though the request that filled it did not
// come through the router.
func (s *System) caches() {
	const region = "us-east-1"
	servers := s.pods("caches", "caches", func(o *modelserver.Options) {
		for i := range o.Endpoints {
			o.Endpoints[i].KVEvents = "127.0.0.1:0"
		}
	}, "k1", "k2")
	events := servers.EventURLs()
	s.apply(base("caches", "") + fmt.Sprintf(`---
apiVersion: anabranch/v1
kind: Cluster
metadata: {name: caches}
spec:
  region: %s
  models: [caches]
  endpoints:
  - {id: k1, url: "http://%s", class: h100, kvEventsURL: %q}
  - {id: k2, url: "http://%s", class: h100, kvEventsURL: %q}
`, region, servers.Addrs()["k1"], events["k1"], servers.Addrs()["k2"], events["k2"]))
	found := func() float64 {
		return s.metric(region, "anabranch_router_kv_associations_total", `result="associated"`)
	}
	prompt := func(n int) map[string]any {
		body := short("caches", "")
		body["messages"] = []map[string]string{{"role": "user", "content": strings.Repeat(fmt.Sprintf("river %d flows on and on, ", n), 1000)}}
		return body
	}
	ask := func(n int) (answer, dataplane.Record) {
		a := s.ask(region, "acme", prompt(n))
		return a, s.record(region, a)
	}
	n := 0
	s.await(40*time.Second, "the router to know of a cache that it has not filled", func() error {
		n++
		// From a prompt that goes through it the router learns what engines call the blocks of it, a
		// moment later.
		before := found()
		a, _ := ask(n)
		if err := a.whole(); err != nil {
			return err
		}
		for deadline := time.Now().Add(2 * time.Second); found() == before; {
			if time.Now().After(deadline) {
				ask(n) // that a server tells how much of a prompt was cached shows when some was
				return errors.New("the prompt's blocks were not found")
			}
		}
		first, other := a.endpoint(), fleet.EndpointID("k1")
		if first == "k1" {
			other = "k2"
		}
		text, err := json.Marshal(prompt(n))
		if err != nil {
			return err
		}
		if a := complete(s.t.Context(), "http://"+servers.Addrs()[other], "", string(text)); a.whole() != nil {
			return a.whole()
		}
		for range 8 { // of two that hold a prompt one is drawn
			a, r := ask(n)
			if err := a.whole(); err != nil {
				return err
			}
			if e := r.Attempts[0].Expected; a.endpoint() == string(other) {
				if e.CachedTokens < 4000 {
					return fmt.Errorf("%d tokens were believed to be cached there", e.CachedTokens)
				}
				return nil
			}
		}
		return fmt.Errorf("always asked %s", first)
	})
}
