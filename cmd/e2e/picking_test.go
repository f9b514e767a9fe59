package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"anabranch/cmd/anabranch/dev/seed"
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
