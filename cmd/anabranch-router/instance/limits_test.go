package instance

import (
	"net/http"
	"strings"
	"testing"
)

// What anybody may send without a key is bounded.
func TestHeadersAreBounded(t *testing.T) {
	f := newFixture(t)
	r := f.start(f.options())
	r.eventually("it is ready", r.ready)
	for name, c := range map[string]struct {
		header, value string
		status        int
	}{
		"large":             {"X-Large", strings.Repeat("x", 60<<10), http.StatusUnauthorized},
		"too large":         {"X-Large", strings.Repeat("x", 80<<10), http.StatusRequestHeaderFieldsTooLarge},
		"too large, a path": {"", strings.Repeat("x", 80<<10), http.StatusRequestHeaderFieldsTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			url := "http://" + r.Addresses().Front + "/v1/models"
			if c.header == "" {
				url += "/" + c.value
			}
			q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if c.header != "" {
				q.Header.Set(c.header, c.value)
			}
			res, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if res.StatusCode != c.status {
				t.Errorf("status %d, want %d", res.StatusCode, c.status)
			}
		})
	}
}
