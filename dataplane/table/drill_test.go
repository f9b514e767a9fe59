package table

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// drilling is good with a drill of its cluster in us.
func drilling() *routerpb.Table {
	pb := good()
	pb.Drill = &routerpb.Drill{
		Id: 12, Kind: "soft", Clusters: []string{"us-a"}, Models: []string{"llama"}, Tenants: []string{"acme", "gone"}, Protected: []string{"initech"},
		BaseSha256: bytes.Repeat([]byte{7}, 32),
		Weights: []*routerpb.Weights{
			{Model: "llama", Class: "interactive", Source: "us-east-1", Clusters: []*routerpb.ClusterWeight{{Cluster: "us-a"}, {Cluster: "eu-g", Weight: 1}}},
			{Model: "big", Class: "interactive", Source: "us-east-1", Shed: []*routerpb.Shed{{Priority: 50, Part: 1}}},
		},
	}
	return pb
}

func TestADrillIsIndexed(t *testing.T) {
	if build(t, good()).Drill() != nil {
		t.Error("a table without a drill has one")
	}
	tab := build(t, drilling())
	d := tab.Drill()
	if d.ID != 12 || d.Kind != "soft" || d.Base[31] != 7 || len(d.Clusters) != 1 || d.Clusters[0] != tab.Clusters["us-a"] {
		t.Errorf("drill %+v", d)
	}
	if !d.Drills("us-a") || d.Drills("eu-g") || !d.Protects("initech") || d.Protects("acme") {
		t.Error("who is drilled or protected")
	}
	for _, c := range []struct {
		tenant fleet.TenantID
		model  fleet.ModelID
		want   bool
	}{{"acme", "llama", true}, {"acme", "big", false}, {"initech", "llama", false}, {"gone", "llama", true}} {
		if got := d.Scopes(c.tenant, c.model); got != c.want {
			t.Errorf("%s for %s: in the scope %t", c.tenant, c.model, got)
		}
	}
	w, ok := d.Weights("llama", "interactive", "us-east-1")
	if !ok || len(w) != 2 || w[0].Share != 0 || w[1].Cluster.ID != "eu-g" || w[1].Share != 1 {
		t.Errorf("weights %v", w)
	}
	if w, ok := d.Weights("big", "interactive", "us-east-1"); !ok || len(w) != 0 {
		t.Errorf("a list of none is %v, %t", w, ok)
	}
	if _, ok := d.Weights("llama", "bulk", "us-east-1"); ok {
		t.Error("a list that it has not")
	}
	// By itself it changes nothing, and turns nobody away.
	if w, _ := tab.Weights("llama", "interactive", "us-east-1"); len(w) != 2 || w[0].Share != 0.75 {
		t.Errorf("the table's weights are %v", w)
	}
	if s := tab.Shed("big", "interactive", "us-east-1"); s != (Shed{}) {
		t.Errorf("sheds %v", s)
	}
}

func TestADrillIsJudged(t *testing.T) {
	for name, c := range map[string]struct {
		change      func(*routerpb.Drill)
		code, field string
	}{
		"as it is":                    {func(*routerpb.Drill) {}, "", ""},
		"without a number":            {func(d *routerpb.Drill) { d.Id = 0 }, CodeValue, "drill.id"},
		"of a kind that is none":      {func(d *routerpb.Drill) { d.Kind = "loud" }, CodeValue, "drill.kind"},
		"that only simulates":         {func(d *routerpb.Drill) { d.Kind = "plan-only" }, CodeValue, "drill.kind"},
		"of no table":                 {func(d *routerpb.Drill) { d.BaseSha256 = nil }, CodeValue, "drill.base_sha256"},
		"of a name too long":          {func(d *routerpb.Drill) { d.BaseSha256 = make([]byte, 33) }, CodeValue, "drill.base_sha256"},
		"of a cluster that is gone":   {func(d *routerpb.Drill) { d.Clusters = []string{"us-a", "x"} }, CodeUnknown, "drill.clusters[1]"},
		"of a cluster twice":          {func(d *routerpb.Drill) { d.Clusters = []string{"us-a", "us-a"} }, CodeDuplicate, "drill.clusters[1]"},
		"of no cluster":               {func(d *routerpb.Drill) { d.Clusters = nil }, CodeNoTarget, "drill.clusters"},
		"of the quota store":          {func(d *routerpb.Drill) { d.Kind, d.Clusters = "quota-store", nil }, "", ""},
		"of the leader":               {func(d *routerpb.Drill) { d.Kind, d.Clusters = "control-plane", nil }, "", ""},
		"for a model that is gone":    {func(d *routerpb.Drill) { d.Models = []string{"x"} }, CodeUnknown, "drill.models[0]"},
		"for an alias":                {func(d *routerpb.Drill) { d.Models = []string{"gpt-small"} }, CodeUnknown, "drill.models[0]"},
		"for all":                     {func(d *routerpb.Drill) { d.Models, d.Tenants = nil, nil }, "", ""},
		"with weights twice":          {func(d *routerpb.Drill) { d.Weights = append(d.Weights, d.Weights[0]) }, CodeDuplicate, "drill.weights[2]"},
		"with weights that don't sum": {func(d *routerpb.Drill) { d.Weights[0].Clusters[0].Weight = 1 }, CodeWeightSum, "drill.weights[0].clusters"},
		"with a weight that is none":  {func(d *routerpb.Drill) { d.Weights[0].Clusters[0].Weight = -1 }, CodeValue, "drill.weights[0].clusters[0].weight"},
		"with a place that is gone":   {func(d *routerpb.Drill) { d.Weights[0].Clusters[1].Cluster = "x" }, CodeUnknown, "drill.weights[0].clusters[1].cluster"},
		"with one that lacks the model": {func(d *routerpb.Drill) {
			d.Weights[1].Clusters = []*routerpb.ClusterWeight{{Cluster: "us-a", Weight: 1}}
		}, CodeServes, "drill.weights[1].clusters[0].cluster"},
		"with weights of no region":  {func(d *routerpb.Drill) { d.Weights[0].Source = "x" }, CodeUnknown, "drill.weights[0].source"},
		"with a shed that can't be":  {func(d *routerpb.Drill) { d.Weights[1].Shed[0].Part = 2 }, CodeValue, "drill.weights[1].shed[0].part"},
		"with no weights of its own": {func(d *routerpb.Drill) { d.Weights = nil }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			pb := drilling()
			c.change(pb.Drill)
			before := proto.CloneOf(pb)
			_, err := Build(pb)
			if c.code == "" {
				if err != nil {
					t.Error(err)
				}
			} else if invalid, ok := errors.AsType[*Invalid](err); !ok || invalid.Code != c.code || invalid.Field != c.field {
				t.Errorf("error %v, want %s at %s", err, c.code, c.field)
			}
			if !proto.Equal(pb, before) {
				t.Error("the message was changed")
			}
		})
	}
}
