package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/cmd/anabranch/client"
	"anabranch/cmd/anabranch/dev"
	"anabranch/controlplane/policy"
	"anabranch/dataplane"
	"anabranch/sim/modelserver"
)

// in is the same system as seen by a subtest.
func (s *System) in(t *testing.T) *System {
	own := *s
	own.t, own.keys = t, maps.Clone(s.keys)
	return &own
}

// pods starts model servers beside the seeded fleet that go when the test ends: one for each name,
// all with one model that is as fast as the small one.
func (s *System) pods(cluster, model string, change func(*modelserver.Options), names ...string) *modelserver.Server {
	s.t.Helper()
	o := modelserver.Options{
		Cluster: fleet.ClusterID(cluster), Logger: s.log.With("process", cluster),
		Models: []modelserver.Model{{Name: fleet.ModelID(model), Like: "llama-3.1-8b"}},
	}
	for _, name := range names {
		o.Endpoints = append(o.Endpoints, modelserver.Endpoint{ID: fleet.EndpointID(name), Listen: "127.0.0.1:0", Class: "h100"})
	}
	if change != nil {
		change(&o)
	}
	servers, err := modelserver.New(o)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := servers.Listen(context.Background()); err != nil {
		s.t.Fatal(err)
	}
	running := begin(servers.Run)
	s.t.Cleanup(func() {
		if err := running.end(); err != nil {
			s.t.Errorf("%s: %v", cluster, err)
		}
	})
	return servers
}

// member writes down model servers as a cluster of a region, and their model.
func member(region, cluster, model string, servers *modelserver.Server) string {
	addrs := servers.Addrs()
	var b strings.Builder
	fmt.Fprintf(&b, "---\napiVersion: anabranch/v1\nkind: Cluster\nmetadata: {name: %s}\nspec:\n  region: %s\n  models: [%s]\n  endpoints:\n", cluster, region, model)
	for _, id := range slices.Sorted(maps.Keys(addrs)) {
		fmt.Fprintf(&b, "  - {id: %s, url: \"http://%s\", class: h100}\n", id, addrs[id])
	}
	return b.String()
}

// base writes down a base model.
func base(name, spec string) string {
	return fmt.Sprintf("---\napiVersion: anabranch/v1\nkind: Model\nmetadata: {name: %s}\nspec: {%s}\n", name, spec)
}

// scenario writes down a policy for the requests that carry its name in a header.
func scenario(name, spec string) string {
	return fmt.Sprintf("---\napiVersion: anabranch/v1\nkind: TrafficPolicy\nmetadata: {name: %s}\nspec:\n  match: [{headers: [{name: %s, value: %s}]}]\n%s", name, scenarioHeader, name, spec)
}

const scenarioHeader = "x-scenario"

// apply writes documents as an operator does, and waits until all routers obey them. They are deleted
// when the test ends.
func (s *System) apply(docs string) {
	s.t.Helper()
	write(s, s.admin, docs)
	rs, _ := policy.ParseAll([]byte(docs)) // write has read them
	for region := range s.routers {
		s.await(20*time.Second, region+" to obey", func() error { return s.obeyed(region, rs) })
	}
}

// write has a control plane take documents, which are deleted when the test ends.
func write(s *System, c *client.Client, docs string) {
	s.t.Helper()
	rs, problems := policy.ParseAll([]byte(docs))
	for _, r := range rs {
		problems = append(problems, policy.Validate(r)...)
	}
	if len(problems) > 0 {
		s.t.Fatalf("%s\n%s", client.Fields(problems), docs)
	}
	client.Sort(rs)
	for _, r := range rs {
		s.taken("apply "+string(r.Kind)+" "+r.Metadata.Name, func() error {
			_, _, err := c.Apply(s.t.Context(), r)
			return err
		})
		s.t.Cleanup(func() {
			s.taken("delete "+string(r.Kind)+" "+r.Metadata.Name, func() error {
				err := c.Delete(context.Background(), r.Kind, r.Metadata.Name)
				if client.IsStatus(err, http.StatusNotFound) {
					return nil // an attempt before, of which it was not known
				}
				return err
			})
		})
	}
}

// taken makes a change. On a machine that is busy with other things a control plane may lose its leader
// meanwhile; then whoever asked for a change does so again.
func (s *System) taken(what string, change func() error) {
	s.t.Helper()
	s.await(20*time.Second, what, func() error {
		err := change()
		if err != nil && !client.IsStatus(err, http.StatusServiceUnavailable) && !errors.Is(err, client.ErrUnreachable) {
			s.t.Errorf("%s: %v", what, err)
			return nil
		}
		return err
	})
}

// obeyed says what of some documents is not yet in the table of a router; nil: nothing.
func (s *System) obeyed(region string, rs []*policy.Resource) error {
	t, err := s.table(region)
	if err != nil {
		return err
	}
	for _, r := range rs {
		name, found := r.Metadata.Name, true
		switch r.Kind {
		case policy.KindTrafficPolicy:
			found = slices.ContainsFunc(t.GetRules(), func(x *routerpb.Rule) bool { return x.GetId() == name })
		case policy.KindCluster:
			found = slices.ContainsFunc(t.GetClusters(), func(x *routerpb.Cluster) bool { return x.GetId() == name })
		case policy.KindTenant:
			found = slices.ContainsFunc(t.GetTenants(), func(x *routerpb.Tenant) bool { return x.GetId() == name })
		case policy.KindQuota:
			found = slices.ContainsFunc(t.GetQuotas(), func(x *routerpb.Quota) bool { return strings.HasPrefix(x.GetId(), name) })
		}
		if !found {
			return fmt.Errorf("%s %s is not in table %d", r.Kind, name, t.GetRef().GetRevision())
		}
	}
	return nil
}

// table is the one that a router obeys now.
func (s *System) table(region string) (*routerpb.Table, error) {
	status, text := s.get(s.routers[region].admin() + "/table")
	if status != http.StatusOK {
		return nil, fmt.Errorf("%d %s", status, text)
	}
	t := &routerpb.Table{}
	return t, protojson.Unmarshal([]byte(text), t)
}

// tenant writes down a tenant of a tier, with an API key of its own.
func (s *System) tenant(name, tier string) string {
	key := dev.NewKey()
	s.keys[name] = key
	return fmt.Sprintf("---\napiVersion: anabranch/v1\nkind: Tenant\nmetadata: {name: %s}\nspec: {tier: %s, apiKeys: [{id: test, sha256: %q}]}\n", name, tier, dev.HashKey(key))
}

// askFor sends a request of a scenario by a tenant.
func (s *System) askFor(name, region, tenant string, body map[string]any, header ...string) answer {
	return s.send(context.Background(), region, s.keys[tenant], body, append([]string{scenarioHeader, name}, header...)...)
}

// record is why a request that was sent to a region's router went where it went.
func (s *System) record(region string, a answer) dataplane.Record {
	s.t.Helper()
	var r dataplane.Record
	// The record is made when the answer has ended, which its client may hear first.
	s.await(5*time.Second, "the record of a request", func() error {
		status, text := s.get(s.routers[region].admin() + "/explain/" + a.header.Get("x-anabranch-request-id"))
		if status != http.StatusOK {
			return fmt.Errorf("%d %s", status, text)
		}
		return json.Unmarshal([]byte(text), &r)
	})
	return r
}

// metric sums the series of a metric at a region's router that have all the labels, each as name="value".
func (s *System) metric(region, name string, labels ...string) float64 {
	s.t.Helper()
	_, page := s.get(s.routers[region].admin() + "/metrics")
	sum := 0.0
	for line := range strings.SplitSeq(page, "\n") {
		series, value, _ := strings.Cut(line, " ")
		own, rest, _ := strings.Cut(series, "{")
		if own != name || slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(rest, l) }) {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			s.t.Errorf("metric %s: %v", line, err)
		}
		sum += v
	}
	return sum
}
