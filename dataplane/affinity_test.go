package dataplane

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"anabranch/dataplane/inference"
	"anabranch/dataplane/route"
)

// A client may call a model by its alias; what belongs together must not part for that.
func TestAnAliasHasTheKeysOfItsModel(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	a := route.NewAffinity(now)
	read := func(model string) []uint64 {
		t.Helper()
		body := fmt.Sprintf(`{"model":%q,"prompt":%q}`, model, strings.Repeat("All the same. ", 500))
		q, err := inference.Read("/v1/completions", []byte(body), route.Salt("acme"))
		if err != nil || len(q.Blocks) < 5 {
			t.Fatalf("%d blocks, %v", len(q.Blocks), err)
		}
		return q.Blocks
	}
	alias, base := read("llama"), read("llama-3.1-8b")
	if x, y := a.Key(alias, 1, now), a.Key(base, 2, now); x != y {
		t.Errorf("keys %x and %x", x, y)
	}
	route.Under("llama-3.1-8b", alias)
	route.Under("llama-3.1-8b", base)
	if !slices.Equal(alias, base) {
		t.Error("their blocks are not the same")
	}
}
