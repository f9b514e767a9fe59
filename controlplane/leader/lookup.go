package leader

import (
	"cmp"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/order"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
)

// drained is a configuration in which clusters are drained and pinned as operators want it now, be it by a resource or by
// an emergency order: both displace load, and wait for no rollout.
type drained struct {
	of, now plan.Lookup
	orders  *order.View // nil: there are none
}

// wants says whether a cluster is to be drained. An order beats the resource.
func (d drained) wants(name string, spec *policy.ClusterSpec) bool {
	id, region := fleet.ClusterID(name), fleet.RegionID(spec.Region)
	if d.orders.Restored(id, region) {
		return false
	}
	_, evacuated := d.orders.Evacuated(id, region)
	return evacuated || spec.Drained
}

// pins is the pin that a cluster is to have. One that an order restores is not kept from what it can take.
func (d drained) pins(name string, spec *policy.ClusterSpec) *policy.PinSpec {
	if spec.Pin.Share() < 1 && d.orders.Restored(fleet.ClusterID(name), fleet.RegionID(spec.Region)) {
		return nil
	}
	return spec.Pin
}

// List gives the resources of a kind, sorted by name.
func (d drained) List(kind policy.Kind) []*policy.Resource {
	list := d.of.List(kind)
	if kind != policy.KindCluster {
		return list
	}
	type wish struct {
		drain bool
		pin   *policy.PinSpec
	}
	wanted := map[string]wish{}
	for _, r := range d.now.List(kind) {
		if spec, ok := r.Spec.(*policy.ClusterSpec); ok {
			wanted[r.Metadata.Name] = wish{d.wants(r.Metadata.Name, spec), d.pins(r.Metadata.Name, spec)}
		}
	}
	shared := true
	for i, r := range list {
		spec, ok := r.Spec.(*policy.ClusterSpec)
		want, there := wanted[r.Metadata.Name]
		if !ok || !there || want.drain == spec.Drained && want.pin == spec.Pin {
			continue
		}
		if shared {
			list, shared = slices.Clone(list), false
		}
		changed, copied := *spec, *r
		changed.Drained, changed.Pin = want.drain, want.pin
		copied.Spec = &changed
		list[i] = &copied
	}
	return list
}

// both is a configuration with the clusters that another one has beside: health is judged of all that
// any router may send to.
type both struct{ settled, trial plan.Lookup }

// List gives the resources of a kind, sorted by name.
func (b both) List(kind policy.Kind) []*policy.Resource {
	list := b.settled.List(kind)
	if kind != policy.KindCluster {
		return list
	}
	out := slices.Clone(list)
	for _, r := range b.trial.List(kind) {
		at, found := slices.BinarySearchFunc(out, r.Metadata.Name, func(o *policy.Resource, name string) int {
			return cmp.Compare(o.Metadata.Name, name)
		})
		if !found {
			out = slices.Insert(out, at, r)
		}
	}
	return out
}

// known is what any router's table is made of at now.
func known(view *state.View, now time.Time) plan.Lookup {
	orders := view.Ordered(now)
	settled := drained{view.Settled(), view, orders}
	if trial, ok := view.Trial(); ok {
		return both{settled, drained{trial, view, orders}}
	}
	return settled
}
