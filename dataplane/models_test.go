package dataplane

import (
	"encoding/json"
	"maps"
	"net/http"
	"testing"
)

// Clients that keep a list of models see a change only where there is one.
func TestWhenAModelWasMadeDoesNotChangeWithTheTable(t *testing.T) {
	w, _ := one(t)
	list := func() (body string, created map[string]int64) {
		r := w.get(http.MethodGet, w.routers[us].front.URL+"/v1/models", "acme", "")
		var page struct {
			Data []struct {
				ID      string
				Created int64
			}
		}
		if err := json.Unmarshal([]byte(r.body), &page); err != nil {
			t.Fatal(err)
		}
		created = map[string]int64{}
		for _, m := range page.Data {
			created[m.ID] = m.Created
		}
		return r.body, created
	}
	tables := func(made int64) (created map[string]int64) {
		first := ""
		w.table.Models[0].CreatedUnixMs = made
		for i := range 3 {
			w.table.Ref.Revision++
			w.table.CreatedUnixMs += 60_000
			w.apply()
			var body string
			if body, created = list(); i == 0 {
				first = body
			} else if body != first {
				t.Errorf("%s and then %s", first, body)
			}
		}
		return created
	}
	for made, want := range map[int64]int64{0: 0, 1_760_000_000_900: 1_760_000_000} { // 0: not told
		if created := tables(made); !maps.Equal(created, map[string]int64{"llama": want, "best": want, "legal": want}) {
			t.Errorf("%v, want %d each", created, want)
		}
	}
}
