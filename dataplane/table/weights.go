package table

import (
	"fmt"
	"math"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

func (t *Table) addWeights(pb *routerpb.Table) error {
	return t.addWeightsTo("", pb.Weights, t.weights, t.sheds)
}

// addWeightsTo judges lists of weights, which are found below a place of the message, and adds them to maps.
func (t *Table) addWeightsTo(of string, in []*routerpb.Weights, weights map[weightKey][]Weight, shed map[weightKey]Shed) error {
	for i, p := range in {
		at := fmt.Sprintf("%sweights[%d]", of, i)
		key := weightKey{fleet.ModelID(p.GetModel()), fleet.ClassID(p.GetClass()), fleet.RegionID(p.GetSource())}
		if n, ok := t.models[p.GetModel()]; !ok || n.model.ID != key.model {
			return invalid(CodeUnknown, at+".model", "%q is not a base model of the table", key.model)
		}
		if key.class == "" {
			return invalid(CodeValue, at+".class", "is empty")
		}
		if t.Regions[key.source] == nil {
			return invalid(CodeUnknown, at+".source", "%q is not a region of the table", key.source)
		}
		if _, ok := weights[key]; ok {
			return invalid(CodeDuplicate, at, "model %q, class %q, source %q is there twice", key.model, key.class, key.source)
		}
		list, err := t.shares(at, key.model, p.Clusters)
		if err != nil {
			return err
		}
		weights[key] = list
		what, err := sheds(at, p.Shed)
		if err != nil {
			return err
		}
		if what.Part > 0 {
			shed[key] = what
		}
	}
	return nil
}

// sheds judges what is shed, and puts it together: all that is below the last is shed wholly.
func sheds(at string, in []*routerpb.Shed) (Shed, error) {
	var out Shed
	for i, s := range in {
		at := fmt.Sprintf("%s.shed[%d]", at, i)
		switch {
		case !finite(s.GetPart()) || s.GetPart() <= 0 || s.GetPart() > 1:
			return Shed{}, invalid(CodeValue, at+".part", "is %v, want more than 0 and at most 1", s.GetPart())
		case i > 0 && s.GetPriority() <= in[i-1].GetPriority():
			return Shed{}, invalid(CodeValue, at+".priority", "is %d after %d, want them upwards", s.GetPriority(), in[i-1].GetPriority())
		case i < len(in)-1 && s.GetPart() < 1:
			return Shed{}, invalid(CodeValue, at+".part", "is %v while a higher priority is shed too, want 1", s.GetPart())
		}
		out = Shed{Priority: s.GetPriority(), Part: s.GetPart()}
	}
	return out, nil
}

func (t *Table) shares(at string, model fleet.ModelID, in []*routerpb.ClusterWeight) ([]Weight, error) {
	list := make([]Weight, 0, len(in))
	seen := make(map[string]bool, len(in))
	sum := 0.0
	for j, w := range in {
		at := fmt.Sprintf("%s.clusters[%d]", at, j)
		c := t.Clusters[fleet.ClusterID(w.GetCluster())]
		switch {
		case c == nil:
			return nil, invalid(CodeUnknown, at+".cluster", "%q is not a cluster of the table", w.GetCluster())
		case seen[w.Cluster]:
			return nil, invalid(CodeDuplicate, at+".cluster", "%q is there twice", w.Cluster)
		case !c.Serves(model):
			return nil, invalid(CodeServes, at+".cluster", "%q does not serve %q", w.Cluster, model)
		case !finite(w.Weight) || w.Weight < 0:
			return nil, invalid(CodeValue, at+".weight", "is %v, want a number >= 0", w.Weight)
		case w.Standby && w.Weight > 0:
			return nil, invalid(CodeValue, at+".standby", "is set beside a weight of %v, want 0", w.Weight)
		}
		seen[w.Cluster] = true
		sum += w.Weight
		list = append(list, Weight{Cluster: c, Share: w.Weight, Standby: w.Standby, Reason: w.Reason})
	}
	if len(list) > 0 && math.Abs(sum-1) > sumTolerance {
		return nil, invalid(CodeWeightSum, at+".clusters", "shares sum to %v, want 1", sum)
	}
	return list, nil
}
