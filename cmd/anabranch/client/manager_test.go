package client_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"anabranch/cmd/anabranch/client"
	"anabranch/cmd/anabranch/client/clienttest"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

func TestAManagerIsNamedAndForcesOnlyWhenItSaysSo(t *testing.T) {
	n := clienttest.Start(t)
	n.Apply(&statepb.Command{Format: 2, Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}}})
	if _, _, err := admin(n).Apply(t.Context(), tenant(t, "acme", "top")); err != nil {
		t.Fatal(err)
	}
	sizer := admin(n)
	sizer.Manager = "sizer"
	var p *client.ProblemError
	if _, _, err := sizer.Apply(t.Context(), tenant(t, "acme", "batch")); !errors.As(err, &p) || p.Code != "field_owned" || p.Status != http.StatusConflict {
		t.Errorf("apply: %v", err)
	}
	if err := sizer.Delete(t.Context(), policy.KindTenant, "acme"); !errors.As(err, &p) || p.Code != "field_owned" {
		t.Errorf("delete: %v", err)
	}
	sizer.Force = true
	if _, _, err := sizer.Apply(t.Context(), tenant(t, "acme", "batch")); err != nil {
		t.Errorf("forced: %v", err)
	}
	if _, _, err := sizer.Apply(t.Context(), tenant(t, "globex", "top")); err != nil {
		t.Errorf("nothing to force: %v", err)
	}
	now, _, err := sizer.Get(t.Context(), policy.KindTenant, "acme")
	if err != nil || len(now.Metadata.Managers) != 1 || now.Metadata.Managers[0].Name != "sizer" || now.Metadata.UpdatedBy != "admin" {
		t.Errorf("metadata %+v, %v", now.Metadata, err)
	}
}

func TestALargeChangeIsAllowedOnWritesOfResourcesOnly(t *testing.T) {
	var seen []string
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method+" "+r.URL.RequestURI())
		w.WriteHeader(http.StatusNoContent)
	}))
	defer h.Close()
	c := &client.Client{Servers: []string{h.URL}, Token: "t", Reason: "why", LargeChange: true}
	for _, call := range []client.Call{
		{Method: http.MethodDelete, Path: "/v1/regions/eu", IfMatch: `"7"`},
		{Method: http.MethodPut, Path: "/v1/regions/eu", IfNoneMatch: "*", Query: url.Values{"dry_run": {"true"}}},
		{Method: http.MethodPost, Path: "/v1/rollouts/7/return"},
	} {
		if _, err := c.Do(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	want := "DELETE /v1/regions/eu?allow_large_change=true PUT /v1/regions/eu?allow_large_change=true&dry_run=true POST /v1/rollouts/7/return"
	if got := strings.Join(seen, " "); got != want {
		t.Errorf("sent %s", got)
	}
}
