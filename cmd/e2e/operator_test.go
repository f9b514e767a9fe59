package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/policy"
)

var errNotYet = errors.New("not yet")

func (s *System) get(url string) (int, string) {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err.Error()
	}
	resp, err := tenants.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// health says why a cluster is not in a state; nil: it is.
func (s *System) health(cluster, want string) error {
	var fleet struct {
		Clusters []struct{ Name, Health, Reason string }
	}
	if err := s.admin.JSON(s.t.Context(), "/v1/fleet", nil, &fleet); err != nil {
		return err
	}
	for _, c := range fleet.Clusters {
		if c.Name == cluster {
			if c.Health != want {
				return fmt.Errorf("%s is %s (%s), not %s", cluster, c.Health, c.Reason, want)
			}
			return nil
		}
	}
	return fmt.Errorf("no cluster %s", cluster)
}

// weights writes down all weights of the table in force.
func (s *System) weights() string {
	var fleet struct {
		Weights []struct {
			Model, Class, Source string
			Clusters             []struct {
				Cluster string
				Wanted  float64
			}
		}
	}
	if err := s.admin.JSON(s.t.Context(), "/v1/fleet", nil, &fleet); err != nil {
		s.t.Error(err)
	}
	text, err := json.Marshal(fleet.Weights)
	if err != nil {
		s.t.Error(err)
	}
	return string(text)
}

// patch changes a resource as it stands now.
func (s *System) patch(kind policy.Kind, name, change string) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Second)
	defer cancel()
	_, etag, err := s.admin.Get(ctx, kind, name)
	if err != nil {
		return err
	}
	_, err = s.admin.Do(ctx, client.Call{
		Method: http.MethodPatch, Path: "/v1/" + policy.Plural(kind) + "/" + name, IfMatch: etag, Body: []byte(change),
	})
	return err
}

// label makes a change that moves no traffic.
func (s *System) label(value string) error {
	return s.patch(policy.KindRegion, "us-east-1", fmt.Sprintf(`{"metadata":{"labels":{"note":%q}}}`, value))
}

// try makes one raw call of the REST API at the second node.
func (s *System) try(method, path, token, contentType, ifMatch, body string) (int, string) {
	return s.tryAt(s.nodes[1], method, path, token, contentType, ifMatch, body)
}

func (s *System) tryAt(n *Node, method, path, token, contentType, ifMatch, body string) (int, string) {
	req, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+n.at.HTTP+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Content-Type", contentType)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if ifMatch != "" {
		req.Header.Set("If-Match", ifMatch)
	}
	resp, err := tenants.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

func TestAMistakeIsNamedAndChangesNothing(t *testing.T) {
	t.Parallel()
	s := start(t)
	_, etag, err := s.admin.Get(t.Context(), policy.KindTrafficPolicy, "default")
	if err != nil {
		t.Fatal(err)
	}
	before, err := s.admin.Do(t.Context(), client.Call{Method: http.MethodGet, Path: "/v1/policies"})
	if err != nil {
		t.Fatal(err)
	}
	doc := func(spec string) string {
		return "apiVersion: anabranch/v1\nkind: TrafficPolicy\nmetadata: {name: default}\nspec:\n" + spec
	}
	operator := s.tokens["operator"]
	for _, c := range []struct {
		name, token, etag, body string
		status                  int
		want                    []string
	}{
		{"bad YAML", operator, etag, "apiVersion: [", http.StatusBadRequest, []string{`"line":1`}},
		{"unknown field", operator, etag, doc("  costPreferense: 0.5\n"), http.StatusUnprocessableEntity, []string{"spec.costPreferense"}},
		{"negative weight", operator, etag, doc("  regions: [{region: us-east-1, weight: -1}]\n"), http.StatusUnprocessableEntity, []string{"spec.regions[0].weight", "-1"}},
		{"missing region", operator, etag, doc("  regions: [{region: mars-1, weight: 1}]\n"), http.StatusUnprocessableEntity, []string{"spec.regions[0].region", "mars-1"}},
		{"stale ETag", operator, `"1"`, doc("  costPreference: 0.5\n"), http.StatusPreconditionFailed, []string{"If-Match"}},
		{"no ETag", operator, "", doc("  costPreference: 0.5\n"), http.StatusPreconditionRequired, []string{"If-Match"}},
		{"no token", "", etag, doc("  costPreference: 0.5\n"), http.StatusUnauthorized, []string{"token"}},
		{"wrong token", "sk-nobody", etag, doc("  costPreference: 0.5\n"), http.StatusUnauthorized, []string{"token"}},
		{"viewer", s.tokens["viewer"], etag, doc("  costPreference: 0.5\n"), http.StatusForbidden, []string{"viewer"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, text := s.try(http.MethodPut, "/v1/policies/default", c.token, "application/yaml", c.etag, c.body)
			if status != c.status {
				t.Errorf("status %d, want %d: %s", status, c.status, text)
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not in %s", want, text)
				}
			}
		})
	}
	after, err := s.admin.Do(t.Context(), client.Call{Method: http.MethodGet, Path: "/v1/policies"})
	if err != nil {
		t.Fatal(err)
	}
	if string(before.Body) != string(after.Body) {
		t.Errorf("policies changed:\n%s\n%s", before.Body, after.Body)
	}
}

// TestAPolicyMovesTraffic follows a change from the operator to a tenant's request.
func TestAPolicyMovesTraffic(t *testing.T) {
	t.Parallel()
	s := start(t)
	if err := s.patch(policy.KindTrafficPolicy, "default", `{"spec":{"regions":[{"region":"us-east-1","weight":0}]}}`); err != nil {
		t.Fatal(err)
	}
	s.await(15*time.Second, "us-east-1 to be left", func() error {
		for range 5 {
			a := s.ask("us-east-1", "acme", chat("llama-3.1-8b", false))
			if err := a.whole(); err != nil {
				return err
			}
			if a.region() == "us-east-1" {
				return errNotYet
			}
		}
		return nil
	})
}
