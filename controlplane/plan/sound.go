package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
)

// MaxTableBytes is the size of a table on the wire above which routers refuse it.
const MaxTableBytes = 16 << 20

// sumTolerance is how far the shares of one list may be from 1.
const sumTolerance = 1e-6

// Sound says what is wrong with a table that must not be published, or nil: it is empty or too large,
// shares are no numbers or don't sum to 1, something is shed while what is less urgent is let in, or shares go to a cluster that is not there, does not serve the
// model, or lies outside what the rule of their class allows. Routers judge it again by themselves.
func Sound(t *routerpb.Table) error {
	if len(t.GetRegions()) == 0 || len(t.GetClusters()) == 0 || len(t.GetModels()) == 0 {
		return errors.New("the table has no region, no cluster or no model")
	}
	if n := proto.Size(t); n > MaxTableBytes {
		return fmt.Errorf("the table has %d bytes, the limit is %d", n, MaxTableBytes)
	}
	clusters, zones := placesOf(t)
	for _, w := range t.GetWeights() {
		if err := soundList(t, w, clusters, zones); err != nil {
			return fmt.Errorf("weights of model %s, class %s, from %s: %w", w.GetModel(), w.GetClass(), w.GetSource(), err)
		}
	}
	return soundDrill(t, t.GetDrill())
}

func soundList(t *routerpb.Table, w *routerpb.Weights, clusters map[string]*routerpb.Cluster, zones map[string]string) error {
	sum := 0.0
	for _, s := range w.GetClusters() {
		c, x := clusters[s.GetCluster()], s.GetWeight()
		switch {
		case c == nil:
			return fmt.Errorf("cluster %s is not in the table", s.GetCluster())
		case math.IsNaN(x) || math.IsInf(x, 0) || x < 0:
			return fmt.Errorf("the share of %s is %v", s.GetCluster(), x)
		case !slices.Contains(c.GetModels(), w.GetModel()):
			return fmt.Errorf("%s does not serve the model", s.GetCluster())
		case x > 0 && !resides(t, w, c, zones):
			return fmt.Errorf("%s is outside the residency of the class", s.GetCluster())
		}
		sum += x
	}
	if len(w.GetClusters()) > 0 && math.Abs(sum-1) > sumTolerance {
		return fmt.Errorf("shares sum to %v", sum)
	}
	return soundShed(w.GetShed())
}

// resides says whether some rule of the class that speaks of the model lets its requests go to a
// cluster. Where no rule does, or one asks for other models, it is for routers to judge.
func resides(t *routerpb.Table, w *routerpb.Weights, c *routerpb.Cluster, zones map[string]string) bool {
	spoken := false
	for _, r := range t.GetRules() {
		switch {
		case r.GetClass() != w.GetClass():
		case r.GetModel() != "" || len(r.GetArms()) > 0:
			return true
		case len(r.GetModels()) > 0 && !slices.Contains(r.GetModels(), w.GetModel()):
		case len(r.GetResidency()) == 0, slices.Contains(r.GetResidency(), zones[c.GetRegion()]), slices.Contains(r.GetResidency(), c.GetRegion()):
			return true
		default:
			spoken = true
		}
	}
	return !spoken
}
