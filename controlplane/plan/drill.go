package plan

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/failover"
	"anabranch/failover/drill"
)

// Drill is a rehearsal under way, as tables have to know it.
type Drill struct {
	ID   uint64
	Kind drill.Kind
	// Clusters that are drilled; none for kinds that are not about clusters.
	Clusters []fleet.ClusterID
	// Models and Tenants are the scope; empty: all.
	Models  []fleet.ModelID
	Tenants []fleet.TenantID
	// Protected tenants are told apart.
	Protected []fleet.TenantID
	// Withheld: its ways are not in force yet. What is treated as dead has to be found dead first.
	Withheld bool
	// Base is the sum of the table from before, see [BaseSHA256].
	Base []byte
}

// BaseSHA256 names a table by what routers obey while they hold no lease: neither its number and date, nor what a drill
// adds to it.
func BaseSHA256(t *routerpb.Table) []byte {
	bare := &routerpb.Table{}
	if t != nil {
		bare = without(without(without(t, "drill"), "ref"), "created_unix_ms").(*routerpb.Table)
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(bare)
	if err != nil { // only text that is not UTF-8 can do it, which resources can't have
		return nil
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

// addDrill adds to a table, which is whole otherwise, the ways that the scope's requests take when they are shifted.
// They are found once, when the drill begins, and kept while they can be followed: what is rehearsed is one move.
func addDrill(table *routerpb.Table, in Input) {
	x := in.Drill
	if x == nil {
		return
	}
	d := &routerpb.Drill{
		Id: x.ID, Kind: string(x.Kind), Clusters: texts(x.Clusters), Models: texts(x.Models), Tenants: texts(x.Tenants),
		Protected: texts(x.Protected), BaseSha256: x.Base,
	}
	kept := in.Previous.GetDrill()
	switch {
	case x.Withheld:
	case kept.GetId() == x.ID && len(kept.GetWeights()) > 0 && soundDrill(table, kept) == nil:
		d.Weights = kept.GetWeights()
	default:
		d.Weights = x.weights(table, d, in)
	}
	table.Drill = d
}

// weights are the lists of the scope that the drill changes. Those with nowhere else to go are left to the table.
func (x *Drill) weights(table *routerpb.Table, of *routerpb.Drill, in Input) []*routerpb.Weights {
	if len(x.Clusters) == 0 {
		return nil
	}
	in.Drill, in.Frozen, in.Warm = nil, false, true
	in.supposed = &suppositions{out: x.Clusters, of: x.Models}
	if x.Kind == drill.FailbackOnly {
		in.supposed = &suppositions{back: x.Clusters}
	}
	clusters, zones := placesOf(table)
	var lists []*routerpb.Weights
	for _, w := range Compute(in).Table.GetWeights() {
		if !x.scoped(fleet.ModelID(w.GetModel())) || len(w.GetClusters()) == 0 {
			continue
		}
		base := listOf(table, w)
		if base == nil || sameShares(base, w) {
			continue
		}
		list := &routerpb.Weights{Model: w.GetModel(), Class: w.GetClass(), Source: w.GetSource(), Clusters: sharesAlone(w)}
		if soundWay(table, of, list, clusters, zones) == nil {
			lists = append(lists, list)
		}
	}
	return lists
}

func (x *Drill) scoped(model fleet.ModelID) bool {
	return len(x.Models) == 0 || slices.Contains(x.Models, model)
}

func listOf(t *routerpb.Table, like *routerpb.Weights) *routerpb.Weights {
	for _, w := range t.GetWeights() {
		if w.GetModel() == like.GetModel() && w.GetClass() == like.GetClass() && w.GetSource() == like.GetSource() {
			return w
		}
	}
	return nil
}

// sameShares says whether two lists send requests to the same places.
func sameShares(a, b *routerpb.Weights) bool {
	shares := map[string]float64{}
	for _, c := range a.GetClusters() {
		shares[c.GetCluster()] += c.GetWeight()
	}
	for _, c := range b.GetClusters() {
		shares[c.GetCluster()] -= c.GetWeight()
	}
	for _, rest := range shares {
		if rest > quantum || rest < -quantum {
			return false
		}
	}
	return true
}

// sharesAlone are the shares without what explains them.
func sharesAlone(w *routerpb.Weights) []*routerpb.ClusterWeight {
	out := make([]*routerpb.ClusterWeight, 0, len(w.GetClusters()))
	for _, c := range w.GetClusters() {
		if c.GetWeight() > 0 {
			out = append(out, &routerpb.ClusterWeight{Cluster: c.GetCluster(), Weight: c.GetWeight()})
		}
	}
	return out
}

func texts[T ~string](list []T) []string {
	if len(list) == 0 {
		return nil
	}
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = string(x)
	}
	return out
}

// drilled applies a drill to a site.
func (w *world) drilled(s *site) {
	if slices.Contains(w.supposed.out, s.id) {
		s.out, s.outOf = true, w.supposed.of
	}
	if slices.Contains(w.supposed.back, s.id) {
		spec := *s.spec
		spec.Drained = false
		s.spec, s.back = &spec, true
		s.whole, s.health = failover.Cluster{State: failover.Healthy}, nil
	}
}

// gone says whether a drill takes a site away from a model.
func (s *site) gone(model fleet.ModelID) bool {
	return s.out && (len(s.outOf) == 0 || slices.Contains(s.outOf, model))
}

// soundDrill says what is wrong with the drill of a table; nil: nothing, or there is none.
func soundDrill(t *routerpb.Table, d *routerpb.Drill) error {
	if d == nil {
		return nil
	}
	clusters, zones := placesOf(t)
	for _, id := range d.GetClusters() {
		if clusters[id] == nil {
			return fmt.Errorf("drill %d: cluster %s is not in the table", d.GetId(), id)
		}
	}
	for _, w := range d.GetWeights() {
		if err := soundWay(t, d, w, clusters, zones); err != nil {
			return fmt.Errorf("drill %d: weights of model %s, class %s, from %s: %w", d.GetId(), w.GetModel(), w.GetClass(), w.GetSource(), err)
		}
	}
	return nil
}

// soundWay is the same of one list of a drill.
func soundWay(t *routerpb.Table, d *routerpb.Drill, w *routerpb.Weights, clusters map[string]*routerpb.Cluster, zones map[string]string) error {
	if err := soundList(t, w, clusters, zones); err != nil {
		return err
	}
	if len(d.GetModels()) > 0 && !slices.Contains(d.GetModels(), w.GetModel()) {
		return errors.New("the model is not in its scope")
	}
	back := d.GetKind() == string(drill.FailbackOnly)
	for _, s := range w.GetClusters() {
		drilled := slices.Contains(d.GetClusters(), s.GetCluster())
		c := clusters[s.GetCluster()]
		switch {
		case s.GetWeight() > 0 && drilled && !back:
			return fmt.Errorf("it sends to %s, which it takes out", s.GetCluster())
		case s.GetWeight() > 0 && !drilled && (c.GetDrained() || HealthCap(c, fleet.ModelID(w.GetModel())) <= 0):
			return fmt.Errorf("it sends to %s, which takes nothing", s.GetCluster())
		}
	}
	return nil
}

// placesOf are the clusters of a table, and the zones of its regions.
func placesOf(t *routerpb.Table) (map[string]*routerpb.Cluster, map[string]string) {
	clusters, zones := map[string]*routerpb.Cluster{}, map[string]string{}
	for _, c := range t.GetClusters() {
		clusters[c.GetId()] = c
	}
	for _, r := range t.GetRegions() {
		zones[r.GetId()] = r.GetZone()
	}
	return clusters, zones
}

// Rehearsal compares a fleet at rest, asked for so many times what it is asked for now, with what it would be with a
// drill at its full extent: its clusters taken out of its models or, of kind failback-only, brought back.
func Rehearsal(in Input, x Drill, demand float64) Effect {
	in.Previous, in.Beside, in.Warm, in.Frozen, in.Drill = nil, nil, true, false, nil
	asked := Change{Demand: []DemandChange{{Factor: demand}}}
	with := suppositions{Change: asked}
	switch x.Kind {
	case drill.ControlPlane, drill.QuotaStore: // nothing moves
	case drill.FailbackOnly:
		with.back = x.Clusters
	default:
		with.out, with.of = x.Clusters, x.Models
	}
	before, after := in, in
	before.supposed, after.supposed = &suppositions{Change: asked}, &with
	e := Effect{Before: picture(before), After: picture(after)}
	e.Moves = movesBetween(e.Before, e.After)
	return e
}
