package node

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

// Every node polls, knows what the others found, and goes on when the leader is gone.
func TestAllNodesPollARegionWithoutARouter(t *testing.T) {
	t.Parallel()
	picker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "inference_pool_ready_pods{name=\"p\"} 3\ninference_pool_average_queue_size{name=\"p\"} 2\n")
	}))
	defer picker.Close()
	members := cluster(t, 3)
	for plural, doc := range map[string]string{
		"regions": region("eu"),
		"models":  `{"apiVersion":"anabranch/v1","kind":"Model","metadata":{"name":"m"}}`,
	} {
		members[0].await(t, "writable", func() bool {
			status, _ := members[0].call(t, http.MethodPost, "/v1/"+plural, doc, nil)
			return status == http.StatusCreated || status == http.StatusConflict
		})
	}
	members[0].await(t, "told of the gateway", func() bool {
		status, _ := members[0].call(t, http.MethodPost, "/v1/clusters", `{"apiVersion":"anabranch/v1","kind":"Cluster","metadata":{"name":"eu-a"},"spec":{
			"region":"eu","type":"gateway","models":["m"],"url":"http://gw.invalid","metricsURL":"`+picker.URL+`/metrics","collect":{"mode":"always","intervalMs":1000}}}`, nil)
		return status == http.StatusCreated || status == http.StatusConflict
	})
	polling := func(m *member) (nodes []string) {
		_, page := m.call(t, http.MethodGet, "/v1/sources?cluster=eu-a", "", nil)
		items, _ := page["items"].([]any)
		for _, item := range items {
			s, _ := item.(map[string]any)
			if s["polled"] == true && s["freshness"] == "fresh" && s["kind"] == "pool" {
				nodes = append(nodes, fmt.Sprint(s["node"]))
			}
		}
		return nodes
	}
	for _, m := range members {
		m.await(t, "aware of what all nodes poll", func() bool { return slices.Equal(polling(m), []string{"n1", "n2", "n3"}) })
	}
	at := slices.IndexFunc(members, func(m *member) bool { return m.store.IsLeader() })
	members[at].stop()
	left := members[(at+1)%3]
	_, c := left.call(t, http.MethodGet, "/v1/clusters/eu-a?consistency=stale", "", nil)
	status, _ := c["status"].(map[string]any)
	signals, _ := status["signals"].(map[string]any)
	endpoints, _ := signals["endpoints"].(map[string]any)
	if signals["from"] != "polls" || signals["freshness"] != "fresh" || endpoints["ready"] != 3.0 {
		t.Errorf("without the leader: %v", signals)
	}
}
