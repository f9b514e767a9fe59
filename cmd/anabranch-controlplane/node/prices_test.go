package node

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"anabranch/controlplane/prices"
	"anabranch/costmodel/pricelist"
)

// hour is what a cluster costs for an hour as a node tells it, and how its only source of prices stands.
func (m *member) hour(t *testing.T, cluster string) (usd float64, standing string) {
	t.Helper()
	_, doc := m.call(t, http.MethodGet, "/v1/prices?cluster="+cluster, "", nil)
	items, _ := doc["items"].([]any)
	sources, _ := doc["sources"].([]any)
	if len(items) != 1 || len(sources) != 1 {
		return -1, ""
	}
	usd, _ = items[0].(map[string]any)["usdPerHour"].(float64)
	standing, _ = sources[0].(map[string]any)["standing"].(string)
	return usd, standing
}

func TestPricesOutliveTheLeaderAndTheirSource(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "prices.csv")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	costing := func(usd int) string {
		return fmt.Sprintf("class,region,usdPerHour\nh100,us,%d\nl4,us,1\n", usd)
	}
	write(costing(7))
	members := cluster(t, 3, func(o *Options) {
		o.Prices = []prices.Group{{Name: "files", Every: time.Second, Sources: func([]prices.Need) ([]pricelist.Source, error) {
			return []pricelist.Source{pricelist.File{Path: path}}, nil
		}}}
	})
	create := func(plural, doc string) {
		if status, answer := members[0].call(t, http.MethodPost, "/v1/"+plural, doc, nil); status != http.StatusCreated {
			t.Fatalf("%s: %d %v", plural, status, answer)
		}
	}
	create("regions", region("us"))
	create("models", `{"apiVersion":"anabranch/v1","kind":"Model","metadata":{"name":"m"},"spec":{}}`)
	create("clusters", `{"apiVersion":"anabranch/v1","kind":"Cluster","metadata":{"name":"us-1"},"spec":{"region":"us","models":["m"],`+
		`"endpoints":[{"id":"e","url":"http://127.0.0.1:1","class":"h100"}],"gpus":[{"class":"h100","count":2}]}}`)
	costs := func(ms []*member, usd float64, how string) {
		t.Helper()
		for _, m := range ms {
			m.await(t, fmt.Sprintf("told of $%g by a source that is %s", usd, how), func() bool {
				got, standing := m.hour(t, "us-1")
				return got == usd && standing == how
			})
		}
	}
	costs(members, 14, "good")
	write("nonsense\n")
	costs(members, 14, "failing")
	at := slices.IndexFunc(members, func(m *member) bool { return m.store.IsLeader() })
	members[at].stop()
	rest := slices.Delete(members, at, at+1)
	costs(rest, 14, "failing")
	write(costing(9))
	costs(rest, 18, "good")
}
