package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"anabranch/cmd/anabranch/client"
	"anabranch/cmd/anabranch/client/clienttest"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

func admin(n *clienttest.Node) *client.Client {
	return &client.Client{Servers: []string{n.URL}, Token: "admin-token", Reason: "test"}
}

func parse(t *testing.T, docs string) []*policy.Resource {
	t.Helper()
	rs, problems := policy.ParseAll([]byte(docs))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return rs
}

func tenant(t *testing.T, name, tier string) *policy.Resource {
	t.Helper()
	return parse(t, fmt.Sprintf("{apiVersion: anabranch/v1, kind: Tenant, metadata: {name: %s}, spec: {tier: %s}}", name, tier))[0]
}

func TestApplyCreatesReplacesOrLeaves(t *testing.T) {
	n := clienttest.Start(t)
	c := admin(n)
	for _, step := range []struct {
		tier    string
		want    client.Outcome
		changes int
	}{
		{"top", client.Created, 1},
		{"top", client.Unchanged, 0},
		{"batch", client.Configured, 1},
		{"batch", client.Unchanged, 0},
	} {
		before := n.View().Index()
		got, changes, err := c.Apply(t.Context(), tenant(t, "acme", step.tier))
		if err != nil || got != step.want || step.want == client.Configured && len(changes) != step.changes {
			t.Errorf("apply %s = %s, %v, %v; want %s with %d changes", step.tier, got, changes, err, step.want, step.changes)
		}
		if wrote := n.View().Index() > before; wrote != (step.want != client.Unchanged) {
			t.Errorf("apply %s: wrote %v", step.tier, wrote)
		}
	}
	r, ok := n.View().Get(policy.KindTenant, "acme")
	if !ok || r.Spec.(*policy.TenantSpec).Tier != "batch" {
		t.Errorf("kept %+v", r)
	}
	if last := n.View().Audit(0, 0); last[len(last)-1].GetReason() != "test" {
		t.Errorf("audit keeps no reason: %v", last[len(last)-1])
	}
}

func TestApplyLooksAgainWhenSomebodyElseWasFaster(t *testing.T) {
	n := clienttest.Start(t)
	c := admin(n)
	if _, _, err := c.Apply(t.Context(), tenant(t, "acme", "top")); err != nil {
		t.Fatal(err)
	}
	var faster atomic.Int64
	faster.Store(1) // times
	n.Before(func(*statepb.Command) {
		if left := faster.Add(-1); left >= 0 {
			doc := policy.Canonical(tenant(t, "acme", []string{"standard", "best-effort"}[left%2]))
			n.Apply(&statepb.Command{Format: 1, Op: &statepb.Command_Put{Put: &statepb.Put{Kind: "Tenant", Name: "acme", Doc: doc, AnyRevision: true}}})
		}
	})
	if got, _, err := c.Apply(t.Context(), tenant(t, "acme", "batch")); err != nil || got != client.Configured {
		t.Errorf("apply = %s, %v", got, err)
	}
	faster.Store(100)
	_, _, err := c.Apply(t.Context(), tenant(t, "acme", "top"))
	if !client.IsStatus(err, http.StatusPreconditionFailed) {
		t.Errorf("apply against somebody always faster = %v", err)
	}
}

func TestApplyRefusesADocumentMadeFromAnOlderRevision(t *testing.T) {
	n := clienttest.Start(t)
	c := admin(n)
	if _, _, err := c.Apply(t.Context(), tenant(t, "acme", "top")); err != nil {
		t.Fatal(err)
	}
	mine := tenant(t, "acme", "batch")
	was, _ := n.View().Get(policy.KindTenant, "acme")
	mine.Metadata.Revision = was.Metadata.Revision
	if _, _, err := c.Apply(t.Context(), tenant(t, "acme", "standard")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Apply(t.Context(), mine); !client.IsStatus(err, http.StatusPreconditionFailed) {
		t.Errorf("apply of an older version = %v", err)
	}
	now, _ := n.View().Get(policy.KindTenant, "acme")
	if now.Spec.(*policy.TenantSpec).Tier != "standard" {
		t.Errorf("it changed the tenant to %+v", now.Spec)
	}
	mine.Metadata.Revision = now.Metadata.Revision
	if got, _, err := c.Apply(t.Context(), mine); err != nil || got != client.Configured {
		t.Errorf("apply of the present version = %s, %v", got, err)
	}
}

func TestCreateLeavesWhatIsThere(t *testing.T) {
	n := clienttest.Start(t)
	c := admin(n)
	for i, want := range []bool{true, false} {
		made, err := c.Create(t.Context(), tenant(t, "acme", []string{"top", "batch"}[i]))
		if err != nil || made != want {
			t.Errorf("create %d = %v, %v", i, made, err)
		}
	}
	if r, _ := n.View().Get(policy.KindTenant, "acme"); r.Spec.(*policy.TenantSpec).Tier != "top" {
		t.Error("the second create changed it")
	}
}

func TestListReadsAllPagesInOrder(t *testing.T) {
	n := clienttest.Start(t)
	c := admin(n)
	var want []string
	for i := range 250 {
		name := fmt.Sprintf("t%03d", i)
		want = append(want, name)
		n.Apply(&statepb.Command{Format: 1, Op: &statepb.Command_Put{Put: &statepb.Put{
			Kind: "Tenant", Name: name, Doc: policy.Canonical(tenant(t, name, "top")), AnyRevision: true,
		}}})
	}
	list, err := c.List(t.Context(), policy.KindTenant)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range list.Items {
		got = append(got, i.Metadata.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d names, want %d: %v", len(got), len(want), got)
	}
	empty, err := c.List(t.Context(), policy.KindRegion)
	if b, _ := json.Marshal(empty); err != nil || string(b) != `{"items":[],"nextCursor":""}` {
		t.Errorf("empty list %s, %v", b, err)
	}
}

func TestDeleteAndItsRefusals(t *testing.T) {
	n := clienttest.Start(t)
	c := admin(n)
	for _, r := range parse(t, `{apiVersion: anabranch/v1, kind: Tenant, metadata: {name: acme}, spec: {}}
---
{apiVersion: anabranch/v1, kind: Quota, metadata: {name: q}, spec: {tenant: acme, limits: [{kind: requests, perMinute: 5}]}}`) {
		if _, _, err := c.Apply(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	err := c.Delete(t.Context(), policy.KindTenant, "acme")
	if !client.IsStatus(err, http.StatusConflict) || !strings.Contains(err.Error(), "in_use") {
		t.Errorf("delete of what is referred to = %v", err)
	}
	for _, kind := range []policy.Kind{policy.KindQuota, policy.KindTenant} {
		name := map[policy.Kind]string{policy.KindQuota: "q", policy.KindTenant: "acme"}[kind]
		if err := c.Delete(t.Context(), kind, name); err != nil {
			t.Errorf("delete %s: %v", kind, err)
		}
	}
	if err := c.Delete(t.Context(), policy.KindTenant, "acme"); !client.IsStatus(err, http.StatusNotFound) {
		t.Errorf("second delete = %v", err)
	}
}

func TestPlanSeesWhatEarlierStepsWouldMake(t *testing.T) {
	n := clienttest.Start(t)
	c := admin(n)
	if _, _, err := c.Apply(t.Context(), tenant(t, "acme", "top")); err != nil {
		t.Fatal(err)
	}
	const docs = `{apiVersion: anabranch/v1, kind: Tenant, metadata: {name: globex}, spec: {}}
---
{apiVersion: anabranch/v1, kind: Tenant, metadata: {name: acme}, spec: {tier: batch}}
---
{apiVersion: anabranch/v1, kind: Quota, metadata: {name: q}, spec: {tenant: globex, limits: [{kind: requests, perMinute: 5}]}}`
	shelf, err := c.Shelf(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := n.View().Index()
	steps, problems := shelf.Plan(parse(t, docs))
	if len(problems) > 0 || len(steps) != 3 {
		t.Fatalf("plan: %v, %v", steps, problems)
	}
	for i, want := range []client.Outcome{client.Created, client.Configured, client.Created} {
		if steps[i].Outcome != want {
			t.Errorf("step %d: %s, want %s", i, steps[i].Outcome, want)
		}
	}
	if n.View().Index() != before {
		t.Error("a plan changed something")
	}
	_, problems = client.Shelf{}.Plan(parse(t, docs)[2:])
	if len(problems) != 1 || problems[0].Field != "quotas/q spec.tenant" {
		t.Errorf("reference to nothing: %v", problems)
	}
}

func TestSortPutsReferencesBackwards(t *testing.T) {
	rs := parse(t, `{apiVersion: anabranch/v1, kind: Quota, metadata: {name: q}, spec: {tenant: acme, limits: [{kind: requests, perMinute: 5}]}}
---
{apiVersion: anabranch/v1, kind: Tenant, metadata: {name: b}, spec: {}}
---
{apiVersion: anabranch/v1, kind: Region, metadata: {name: r}, spec: {}}
---
{apiVersion: anabranch/v1, kind: Tenant, metadata: {name: a}, spec: {}}`)
	client.Sort(rs)
	var got []string
	for _, r := range rs {
		got = append(got, r.Metadata.Name)
	}
	if want := []string{"r", "b", "a", "q"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestRefusalsSayFieldReasonAndFix(t *testing.T) {
	n := clienttest.Start(t)
	put := client.Call{Method: http.MethodPut, Path: "/v1/tenants/x", IfNoneMatch: "*"}
	for name, c := range map[string]struct {
		token, body string
		status      int
		want        []string
	}{
		"no token":    {"", "{}", 401, []string{"HTTP 401, unauthenticated", "fix: give a valid token with ANABRANCH_TOKEN, or keep it"}},
		"wrong token": {"guess", "{}", 401, []string{"HTTP 401"}},
		"role":        {"viewer-token", "{}", 403, []string{"HTTP 403, forbidden", "fix: use a token of a role"}},
		"field": {
			"admin-token", `{"apiVersion":"anabranch/v1","kind":"Tenant","metadata":{"name":"x"},"spec":{"teir":"top"}}`,
			422,
			[]string{"HTTP 422", "\n  line 1: spec.teir: ", "\n    fix: "},
		},
	} {
		call := put
		call.Body = []byte(c.body)
		_, err := (&client.Client{Servers: []string{n.URL}, Token: c.token}).Do(t.Context(), call)
		if !client.IsStatus(err, c.status) {
			t.Errorf("%s: %v, want HTTP %d", name, err, c.status)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error lacks %q:\n%v", name, want, err)
			}
		}
	}
}

func TestAnswersThatAreNoProblemDocumentsAreToldShort(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, strings.Repeat("<html>", 1000), http.StatusBadGateway)
	}))
	defer server.Close()
	_, err := (&client.Client{Servers: []string{server.URL}}).Do(t.Context(), client.Call{Method: http.MethodGet, Path: "/v1/status"})
	if !client.IsStatus(err, http.StatusBadGateway) || len(err.Error()) > 500 || !strings.HasPrefix(err.Error(), "Bad Gateway (HTTP 502): <html>") {
		t.Errorf("error %v", err)
	}
}

func TestServersAreTriedInTurn(t *testing.T) {
	n := clienttest.Start(t)
	gone := httptest.NewServer(nil)
	gone.Close()
	c := admin(n)
	c.Servers = []string{gone.URL, n.URL + "/"}
	if _, _, err := c.Apply(t.Context(), tenant(t, "acme", "top")); err != nil {
		t.Errorf("a change past a dead server: %v", err)
	}
	c.Servers = []string{gone.URL, gone.URL}
	_, err := c.List(t.Context(), policy.KindTenant)
	if !errors.Is(err, client.ErrUnreachable) || strings.Count(err.Error(), "connection refused") != 2 {
		t.Errorf("only dead servers: %v", err)
	}
	if _, err := (&client.Client{}).List(t.Context(), policy.KindTenant); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("no servers: %v", err)
	}
}

func TestAChangeThatMayHaveBeenMadeIsNotSentTwice(t *testing.T) {
	var changes, reads atomic.Int64
	cut := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			reads.Add(1)
		} else {
			changes.Add(1)
		}
		panic(http.ErrAbortHandler)
	}))
	defer cut.Close()
	c := &client.Client{Servers: []string{cut.URL, cut.URL}}
	if _, err := c.Do(t.Context(), client.Call{Method: http.MethodPost, Path: "/v1/tenants"}); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("change: %v", err)
	}
	if err := c.JSON(t.Context(), "/v1/status", url.Values{"a": {"b"}}, nil); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("read: %v", err)
	}
	if changes.Load() != 1 || reads.Load() != 2 {
		t.Errorf("%d changes and %d reads, want 1 and 2", changes.Load(), reads.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Do(ctx, client.Call{Method: http.MethodGet, Path: "/"}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestAResourceOfANewerServerIsNotTouched(t *testing.T) {
	var writes atomic.Int64
	newer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			writes.Add(1)
		}
		w.Header().Set("ETag", `"7"`)
		_, _ = fmt.Fprint(w, `{"apiVersion":"anabranch/v1","kind":"Tenant","metadata":{"name":"acme"},"spec":{"tier":"top","colour":"blue"}}`)
	}))
	defer newer.Close()
	c := &client.Client{Servers: []string{newer.URL}}
	i, etag, err := c.Get(t.Context(), policy.KindTenant, "acme")
	if err != nil || etag != `"7"` || !strings.Contains(string(i.Spec), "colour") {
		t.Errorf("get = %s, %s, %v", i.Spec, etag, err)
	}
	if _, _, err := c.Apply(t.Context(), tenant(t, "acme", "batch")); err == nil || !strings.Contains(err.Error(), "older than the server?") || writes.Load() != 0 {
		t.Errorf("apply = %v after %d writes", err, writes.Load())
	}
}

func TestFixesAreForWhoeverReadsThem(t *testing.T) {
	for name, c := range map[string]struct {
		p    client.ProblemError
		want string
	}{
		"all of it": {
			client.ProblemError{Title: "Not found", Status: 404, Code: "not_found", Detail: "There is no Tenant."},
			"Not found (HTTP 404, not_found): There is no Tenant.",
		},
		"stale":     {client.ProblemError{Title: "Changed", Status: 412}, "Changed (HTTP 412)\n  fix: somebody else changed it; look at it again and repeat"},
		"no leader": {client.ProblemError{Title: "No leader", Status: 503}, "No leader (HTTP 503)\n  fix: try again in a few seconds; `anabranch members` shows who leads"},
		"fields say their own": {
			client.ProblemError{Title: "Not valid", Status: 422, Detail: "2 problems", Errors: []policy.Problem{
				{Field: "spec.tier", Reason: "is wrong", Fix: "mend it", Line: 4}, {Reason: "is cut"},
			}},
			"Not valid (HTTP 422)\n  line 4: spec.tier: is wrong\n    fix: mend it\n  is cut",
		},
	} {
		if got := c.p.Error(); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}
