package node

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane"
	"anabranch/dataplane/admit"
	"anabranch/dataplane/subscribe"
	"anabranch/dataplane/table"
	"anabranch/ratelimit"
)

// serving is a real router that is connected to one node.
type serving struct {
	url   string
	leave func()
}

// serve starts the router of a region and waits until it has a table.
func serve(t *testing.T, region fleet.RegionID, at *member) *serving {
	t.Helper()
	tables, id := &table.Holder{}, fleet.RouterID(region+"-r1")
	quiet := slog.New(slog.DiscardHandler)
	router, err := dataplane.New(dataplane.Options{
		Router: id, Region: region, Tables: tables, Quotas: admit.Own(ratelimit.NewLending(nil)), Logger: quiet, Requests: dataplane.LogNone,
	})
	if err != nil {
		t.Fatal(err)
	}
	control, err := subscribe.New(subscribe.Options{
		Addresses: []string{at.Addresses().GRPC}, Router: id, Region: region, Holder: tables,
		Report: router.Report, Applied: router.Applied, Requests: router, Usage: router.Usage(), Logger: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{router.Run, control.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				t.Errorf("router %s: %v", id, err)
			}
		})
	}
	front := httptest.NewServer(router.Front())
	s := &serving{url: front.URL, leave: sync.OnceFunc(func() {
		front.Close()
		cancel()
		running.Wait()
	})}
	t.Cleanup(s.leave)
	at.await(t, "serving "+string(id), func() bool { return tables.Load() != nil })
	return s
}

// refused has a tenant ask for a model that there is not, and gives the request's id.
func (s *serving) refused(t *testing.T, tenant string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(`{"model":"nothing","messages":[{"role":"user","content":"a secret"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer key-of-"+tenant)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Fatalf("%s: %d, %v", tenant, resp.StatusCode, err)
	}
	return resp.Header.Get("X-Anabranch-Request-Id")
}

// tailed reads the events of a tail: their names and data in turn.
func (m *member) tailed(t *testing.T, query string) (events <-chan [2]string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.Addresses().HTTP+"/v1/decisions?"+query, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+admin)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("tail: %d", resp.StatusCode)
	}
	out, done := make(chan [2]string, 64), make(chan struct{})
	go func() {
		defer close(done)
		defer close(out)
		lines, name := bufio.NewScanner(resp.Body), ""
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name = text
			}
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				select {
				case out <- [2]string{name, text}:
				case <-ctx.Done():
				}
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		resp.Body.Close()
		<-done
	})
	return out
}

// Any node says what became of a request, and what is decided, of routers that others hold the streams of.
func askRouters(t *testing.T, members []*member) {
	pb := fleetTable()
	for i, tenant := range []string{"acme", "globex"} {
		sum := sha256.Sum256([]byte("key-of-" + tenant))
		pb.Tenants[i] = &routerpb.Tenant{Id: tenant, Tier: "standard", KeySha256: [][]byte{sum[:]}}
	}
	commit(t, members, pb)
	us, eu := serve(t, "us", members[0]), serve(t, "eu", members[2])

	for from, s := range map[string]*serving{"us-r1 us n1": us, "eu-r1 eu n3": eu} {
		id := s.refused(t, "acme")
		for _, m := range members {
			status, doc := m.call(t, http.MethodGet, "/v1/explain/"+id, "", nil)
			text, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			origin, _ := doc["from"].(map[string]any)
			got := []any{origin["router"], origin["region"], origin["node"]}
			if status != http.StatusOK || doc["id"] != id || doc["tenant"] != "acme" || !slices.Equal(got, asAny(strings.Fields(from))) || strings.Contains(string(text), "secret") {
				t.Errorf("%s says %d %s", m.ID(), status, text)
			}
		}
	}

	events := members[1].tailed(t, "tenant=acme&outcome=refused")
	for e := range events {
		if e[0] == "routers" && e[1] == `{"following":2,"unable":[],"missing":[]}` {
			break
		}
	}
	wanted := map[string]bool{}
	for len(wanted) < 2 { // a tail begins at its routers a moment after it has begun here
		us.refused(t, "globex")
		sent := map[string]bool{us.refused(t, "acme"): true, eu.refused(t, "acme"): true}
		timeout := time.After(time.Second)
		for waiting := true; waiting && len(wanted) < 2; {
			select {
			case e, open := <-events:
				var r struct{ ID, Tenant string }
				if !open || e[0] == "decision" && (json.Unmarshal([]byte(e[1]), &r) != nil || r.Tenant != "acme") {
					t.Fatalf("the tail tells %q, open %v", e, open)
				}
				if sent[r.ID] {
					wanted[r.ID[:2]] = true
				}
			case <-timeout:
				waiting = false
			}
		}
	}

	m := members[1]
	for path, want := range map[string]string{
		"eu-r1-0000000000000000": "unknown_request", "mars-r1-0000000000000000": "unknown_router", "mine": "unknown_request",
	} {
		if status, doc := m.call(t, http.MethodGet, "/v1/explain/"+path, "", nil); status != http.StatusNotFound || doc["code"] != want {
			t.Errorf("%s: %d %v", path, status, doc)
		}
	}
	id := eu.refused(t, "acme")
	m.await(t, "told of the router of eu", func() bool { // each second, by the node that it is connected to
		_, known := m.holder("eu-r1")
		return known
	})
	eu.leave()
	m.await(t, "without the router of eu", func() bool {
		status, doc := m.call(t, http.MethodGet, "/v1/explain/"+id, "", nil)
		return status == http.StatusServiceUnavailable && doc["code"] == "router_not_connected"
	})
}

func asAny(s []string) []any {
	out := make([]any, len(s))
	for i := range s {
		out[i] = s[i]
	}
	return out
}
