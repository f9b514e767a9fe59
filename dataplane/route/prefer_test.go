package route

import (
	"testing"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

func TestTheHintGoesFirst(t *testing.T) {
	targets := func(ids ...string) (c Choice) {
		for _, id := range ids {
			c.Targets = append(c.Targets, Target{Cluster: &table.Cluster{ID: fleet.ClusterID(id)}})
		}
		return c
	}
	for hint, want := range map[string]string{"c": "cab", "b": "bac", "a": "abc", "x": "abc", "": "abc"} {
		c := targets("a", "b", "c")
		c.Prefer(fleet.ClusterID(hint))
		got := ""
		for _, target := range c.Targets {
			got += string(target.Cluster.ID)
		}
		if got != want {
			t.Errorf("hint %q: %s, want %s", hint, got, want)
		}
	}
}
