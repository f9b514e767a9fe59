package kube

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// apiServer serves the EndpointSlices of one service and no nodes as an API server does: a list, or
// a watch that begins with what there is if it is asked to.
type apiServer struct {
	t      *testing.T
	events chan string // more of them, as YAML
	asked  chan string // queries
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer let-me-in" || !strings.HasPrefix(r.UserAgent(), "anabranch-test") {
		http.Error(w, "who are you", http.StatusUnauthorized)
		return
	}
	var initial []string
	switch r.URL.Path {
	case "/api/v1/nodes":
	case "/apis/discovery.k8s.io/v1/namespaces/ml/endpointslices":
		initial = []string{sliceOf("vllm", "vllm-1", member("a", "10.0.0.1"))}
		select {
		case s.asked <- r.URL.RawQuery:
		default:
		}
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	encode := json.NewEncoder(w)
	if r.URL.Query().Get("watch") == "" {
		items := []any{}
		for _, text := range initial {
			_, u := object(s.t, text)
			items = append(items, u.Object)
		}
		_ = encode.Encode(map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": "1"}, "items": items}) // the client may have left
		return
	}
	send := func(kind string, o any) {
		_ = encode.Encode(map[string]any{"type": kind, "object": o}) // as above
		w.(http.Flusher).Flush()
	}
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for _, text := range initial {
			_, u := object(s.t, text)
			send("ADDED", u.Object)
		}
		send("BOOKMARK", map[string]any{
			"apiVersion": "v1", "kind": "Unknown",
			"metadata": map[string]any{"resourceVersion": "1", "annotations": map[string]any{"k8s.io/initial-events-end": "true"}},
		})
	}
	w.(http.Flusher).Flush()
	events := s.events
	if initial == nil {
		events = nil
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case text := <-events:
			_, u := object(s.t, text)
			u.SetResourceVersion("2")
			send("MODIFIED", u.Object)
		}
	}
}

func TestAnAPIServerIsReachedThroughAKubeconfig(t *testing.T) {
	s := &apiServer{t: t, events: make(chan string), asked: make(chan string, 1)}
	server := httptest.NewTLSServer(s)
	defer server.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	path := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {token: let-me-in}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, server.URL, base64.StdEncoding.EncodeToString(authority))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := Connect(path, "anabranch-test")
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(t)
	c.finder = New(client, nil)
	stop := c.watch(serviceSpec)
	c.want("what there is", "a:8000=http://10.0.0.1:8000")
	select {
	case query := <-s.asked:
		if !strings.Contains(query, "labelSelector=kubernetes.io%2Fservice-name%3Dvllm") {
			t.Errorf("the server was asked for %s", query)
		}
	default:
		t.Error("the server was not asked")
	}
	select {
	case s.events <- sliceOf("vllm", "vllm-1", member("b", "10.0.0.2")):
	case <-time.After(20 * time.Second):
		t.Fatal("no watch within 20 s")
	}
	c.want("a change", "b:8000=http://10.0.0.2:8000")
	stop()
}

func TestOutsideOfAClusterAFileIsNeeded(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := Connect("", "x"); !errors.Is(err, rest.ErrNotInCluster) {
		t.Errorf("error %v", err)
	}
	if _, err := Connect(filepath.Join(t.TempDir(), "none"), "x"); err == nil {
		t.Error("a file that isn't there was taken")
	}
}
