// Package plan computes the routing table: what operators wrote and what the fleet reports go in,
// shares of traffic for every model, class and source region come out, with the reasons. It also
// translates observations into evidence for package failover. All of it is a pure function of its
// input; who runs it, when, and what becomes of the table is for others.
package plan

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
	"anabranch/failover"
	"anabranch/failover/shift"
)

// Lookup is where the resources are read from. Lists are sorted by name and specs have their
// defaults.
type Lookup interface {
	List(policy.Kind) []*policy.Resource
}

// Input is everything that a plan depends on.
type Input struct {
	Resources Lookup
	Signals   signal.Snapshot
	// Previous is the table in force. Nil: there is none, and nothing to hold on to.
	Previous *routerpb.Table
	// Health of places; see [failover.Of] for one that is missing.
	Health map[failover.Place]failover.Cluster
	Now    time.Time
	// Prices of GPUs that were found beside the rate cards, whose own go before them; see [Prices].
	Prices []costmodel.Offer
	// PricesRevision is that of their last change. 0: they never changed.
	PricesRevision uint64
	// Measured is what a million units of a model's work were measured to cost. Budgets of money go by it where
	// no rate card has a price of the model's tokens; one that is missing costs them nothing then.
	Measured map[fleet.ModelID]costmodel.Micros
	// Cold gives what is measured of a model's prefix caches. Nil, or false: [shift.Unmeasured] holds.
	Cold func(fleet.ModelID) (shift.Cold, bool)
	// Warm: enough has been heard to judge. A leader that is not warm holds the weights.
	Warm bool
	// Usage of the limits of organisations, by id: an average of some minutes. One that is missing is not known.
	Usage map[string]Usage
	// Epoch of the control plane's history, which rises when it is restored. 0: that of Previous.
	Epoch uint64
	// Older: nodes may lead, or routers hold tables of nodes, that know nothing of organisations. Then the table
	// has none.
	Older bool
	// Beside is the table of all routers but those that this one is for, while a rollout divides them. Its
	// quotas, and whose and where they are, hold for this one too: routers count in the same buckets. Nil: this
	// one is for all.
	Beside *routerpb.Table
	// Congestion of clusters as an earlier plan found it, to begin from; see [Output]. It has no say in what is
	// found. Nil: the search begins from nothing.
	Congestion map[fleet.ClusterID]float64
	// Frozen: an operator wants no optimisation. What health, a drain or a changed resource displaces
	// moves all the same.
	Frozen bool
	// Drill that is under way, past its checks. Nil: none is. The table says the same as without it, but for what it
	// adds, see [routerpb.Drill].
	Drill *Drill

	// supposed is taken for true against all that; nil: nothing is.
	supposed *suppositions
}

// Output is the plan.
type Output struct {
	// Table without a ref, which its commit stamps. Nil while there are no regions, clusters or
	// models: an empty table is never published.
	Table *routerpb.Table
	// Reasons, one for each of Table.Weights.
	Reasons []*statepb.WeightReason
	// Changed: Table says something else than Previous. Weights within the dead-band are kept as
	// they were, so they are no change; the reason of one that no longer holds is. Reasons for whole
	// lists tell figures, and count for nothing here.
	Changed bool
	// Congestion of each cluster in ms: what a request more there costs all that are served there.
	Congestion map[fleet.ClusterID]float64
}

// Compute makes the plan.
func Compute(in Input) Output {
	w := survey(in)
	table := w.table(in)
	if len(table.Regions) == 0 || len(table.Clusters) == 0 || len(table.Models) == 0 {
		return Output{}
	}
	demands := w.demands(in)
	w.decide(demands, in)
	reasons := make([]*statepb.WeightReason, 0, len(demands))
	table.Weights = make([]*routerpb.Weights, 0, len(demands))
	w.settle(demands, in)
	for _, d := range demands {
		table.Weights = append(table.Weights, d.weights())
		reasons = append(reasons, &statepb.WeightReason{
			Model: string(d.model), Class: string(d.class), Source: string(d.source), Text: d.why,
		})
	}
	addDrill(table, in)
	return Output{Table: table, Reasons: reasons, Changed: !same(table, in.Previous), Congestion: w.congestion()}
}

// same compares all that routers obey: not the number or the date of a table. Most of a table are weights, and most
// of them are the very ones in force, see [demand.explained].
func same(table, previous *routerpb.Table) bool {
	if previous == nil || !slices.EqualFunc(table.GetWeights(), previous.GetWeights(), sameWeights) {
		return false
	}
	like := without(previous, "weights").(*routerpb.Table)
	like.Ref, like.CreatedUnixMs = table.GetRef(), table.GetCreatedUnixMs()
	return proto.Equal(without(table, "weights"), like)
}

func sameWeights(a, b *routerpb.Weights) bool {
	return slices.EqualFunc(a.GetClusters(), b.GetClusters(), func(x, y *routerpb.ClusterWeight) bool { return x == y || proto.Equal(x, y) }) &&
		proto.Equal(without(a, "clusters"), without(b, "clusters"))
}

// without is a message that lacks a field and shares the others.
func without(m proto.Message, field protoreflect.Name) proto.Message {
	from := m.ProtoReflect()
	to := from.New()
	from.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Name() != field {
			to.Set(f, v)
		}
		return true
	})
	to.SetUnknown(from.GetUnknown())
	return to.Interface()
}

// decide finds where demands should go, and what of that load alone can't wait for.
func (w *world) decide(demands []*demand, in Input) {
	displace(demands, in)
	w.solve(demands)
	for range 3 {
		if !refused(demands) {
			break
		}
		w.solve(demands)
	}
	w.probe(demands)
	w.occupy(demands)
	for _, d := range demands {
		d.listen(in)
	}
	w.shed(demands)
}
