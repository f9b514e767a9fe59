package plan

import (
	"fmt"
	"testing"
)

func TestTenantsThatMove(t *testing.T) {
	moves := []Move{
		{Model: "m", Class: "chat", Source: "us", Clusters: []ShareMove{{"us-1", 0.8, 0.5}, {"eu-1", 0.2, 0.5}}},
		{Model: "n", Class: "chat", Source: "us", Clusters: []ShareMove{{"us-1", 1, 0}, {"eu-1", 0, 1}}},
		{Model: "o", Class: "chat", Source: "us", Clusters: []ShareMove{{"us-1", 0, 1}}}, // new: nobody comes from elsewhere
	}
	asked := []Asked{
		{"acme", "m", "chat", "us", 100},
		{"acme", "m", "chat", "eu", 100}, // of another region nothing moves
		{"beta", "n", "chat", "us", 30},
		{"beta", "m", "chat", "us", 10},
		{"beta", "m", "batch", "us", 60},
		{"gamma", "o", "chat", "us", 5},
		{"delta", "n", "chat", "us", 0},
	}
	for name, tt := range map[string]struct {
		moves    []Move
		stranded map[string][]string
		want     string
	}{
		"nothing moves": {nil, nil, "[]"},
		"by what they asked for": {
			moves, nil, "[{beta 0.33 [m n] []} {acme 0.15 [m] []}]",
		},
		"the stranded first": {
			moves, map[string][]string{"acme": {"n"}, "omega": {"m", "n"}}, "[{acme 0.15 [m] [n]} {omega 0 [] [m n]} {beta 0.33 [m n] []}]",
		},
		"stranded alone": {nil, map[string][]string{"acme": {"m"}}, "[{acme 0 [] [m]}]"},
	} {
		t.Run(name, func(t *testing.T) {
			got := TenantMoves(tt.moves, asked, tt.stranded)
			for i := range got {
				got[i].Moved = float64(int(got[i].Moved*1000+0.5)) / 1000
			}
			if fmt.Sprint(got) != tt.want {
				t.Errorf("%v, want %s", got, tt.want)
			}
		})
	}
}
