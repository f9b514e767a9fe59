package leader

import (
	"strings"
	"testing"
	"time"

	"anabranch/api/order"
	"anabranch/controlplane/policy"
)

// lists is a configuration of clusters; a name that ends in "!" is drained.
type lists []string

func (l lists) List(kind policy.Kind) []*policy.Resource {
	var out []*policy.Resource
	for _, name := range l {
		if kind != policy.KindCluster {
			continue
		}
		bare, drained := strings.CutSuffix(name, "!")
		out = append(out, &policy.Resource{
			Kind: kind, Metadata: policy.Metadata{Name: bare}, Spec: &policy.ClusterSpec{Region: "r", Drained: drained},
		})
	}
	return out
}

func names(list []*policy.Resource) string {
	var out []string
	for _, r := range list {
		name := r.Metadata.Name
		if r.Spec.(*policy.ClusterSpec).Drained {
			name += "!"
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

func TestClustersAreDrainedAsWantedNow(t *testing.T) {
	for _, tt := range []struct{ of, now, want string }{
		{"a b c", "a b! c", "a b! c"},
		{"a! b", "a b", "a b"},
		{"a b!", "a", "a b!"}, // its deletion waits, as it stands
		{"a", "a! b!", "a!"},  // a new one waits
		{"a! b c!", "a! b! c", "a! b! c"},
	} {
		of := lists(strings.Fields(tt.of))
		if got := names(drained{of, lists(strings.Fields(tt.now)), nil}.List(policy.KindCluster)); got != tt.want {
			t.Errorf("%s, wanted now %s: %s, want %s", tt.of, tt.now, got, tt.want)
		}
	}
	// What is shared with other configurations stays as it is.
	of := shared{lists{"a", "b"}.List(policy.KindCluster)}
	drained{of, lists{"a!", "b"}, nil}.List(policy.KindCluster)
	if names(of.list) != "a b" {
		t.Errorf("the configuration was changed to %s", names(of.list))
	}
	if got := (drained{of, lists{}, nil}).List(policy.KindModel); got != nil {
		t.Errorf("models %v", got)
	}
}

// A pin waits for no rollout either, and one of less than all does not outlive an order that restores.
func TestClustersArePinnedAsWantedNow(t *testing.T) {
	half, all := 50.0, 100.0
	with := func(pin *policy.PinSpec) shared {
		return shared{[]*policy.Resource{{Kind: policy.KindCluster, Metadata: policy.Metadata{Name: "a"}, Spec: &policy.ClusterSpec{Region: "us", Pin: pin}}}}
	}
	now := time.Now()
	restore := (order.Set{}).With(order.DoorControlPlane, order.Order{ID: "1", Kind: order.Restore, Target: "region/us", At: now, Expires: now.Add(time.Hour)}).At(now)
	at := func(percent *float64) *policy.PinSpec {
		return &policy.PinSpec{Percent: percent, Until: "2099-01-01T00:00:00Z"}
	}
	for name, c := range map[string]struct {
		of, now, want *policy.PinSpec
		orders        *order.View
	}{
		"pinned now":                 {nil, at(&half), at(&half), nil},
		"taken back now":             {at(&half), nil, nil, nil},
		"restored, and kept in part": {nil, at(&half), nil, restore},
		"restored, and kept whole":   {nil, at(&all), at(&all), restore},
		"restored, was kept in part": {at(&half), at(&half), nil, restore},
	} {
		of := with(c.of)
		got := drained{of, with(c.now), c.orders}.List(policy.KindCluster)[0].Spec.(*policy.ClusterSpec).Pin
		if (got == nil) != (c.want == nil) || got.Share() != c.want.Share() {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if of.list[0].Spec.(*policy.ClusterSpec).Pin != c.of {
			t.Errorf("%s: what is shared was changed", name)
		}
	}
}

type shared struct{ list []*policy.Resource }

func (s shared) List(kind policy.Kind) []*policy.Resource {
	if kind == policy.KindCluster {
		return s.list
	}
	return nil
}

func TestHealthIsJudgedOfAllThatRoutersMaySendTo(t *testing.T) {
	for _, tt := range []struct{ settled, trial, want string }{
		{"a c", "b d", "a b c d"},
		{"a b", "b!", "a b"},
		{"", "b", "b"},
		{"b", "", "b"},
	} {
		b := both{lists(strings.Fields(tt.settled)), lists(strings.Fields(tt.trial))}
		if got := names(b.List(policy.KindCluster)); got != tt.want {
			t.Errorf("%s and %s: %s, want %s", tt.settled, tt.trial, got, tt.want)
		}
	}
}

func TestAnEmergencyOrderDrainsAndRestoresWhateverTheResourceSays(t *testing.T) {
	now := time.Now()
	orders := (order.Set{}).With(
		order.DoorControlPlane,
		order.Order{ID: "1", Kind: order.Evacuate, Target: "region/us", At: now, Expires: now.Add(time.Hour)},
		order.Order{ID: "2", Kind: order.Restore, Target: "cluster/b", At: now, Expires: now.Add(time.Hour)},
	)
	d := drained{orders: orders.At(now)}
	for _, tt := range []struct {
		name, region  string
		drained, want bool
	}{
		{"a", "us", false, true}, {"b", "us", false, false}, {"b", "us", true, false}, {"c", "eu", false, false}, {"c", "eu", true, true},
	} {
		if got := d.wants(tt.name, &policy.ClusterSpec{Region: tt.region, Drained: tt.drained}); got != tt.want {
			t.Errorf("%s of %s, drained %v by its resource: %v", tt.name, tt.region, tt.drained, got)
		}
	}
	over := drained{orders: orders.At(now.Add(time.Hour))}
	if over.wants("a", &policy.ClusterSpec{Region: "us"}) {
		t.Error("an order that is over drains")
	}
}
