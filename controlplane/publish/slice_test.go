package publish

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"anabranch/api/routerpb"
)

// world is a table of three regions with a cluster of each kind.
func world(revision uint64) *routerpb.Table {
	names := map[string]string{"m": "there/m"}
	auth := []*routerpb.Credential{{Type: "bearer", Env: "TOKEN"}}
	return &routerpb.Table{
		Ref: &routerpb.TableRef{ClusterId: "c-1", Epoch: 1, Revision: revision}, CreatedUnixMs: 5,
		Regions: []*routerpb.Region{
			{Id: "us", Zone: "us", PeerUrls: []string{"https://us"}, RttMs: map[string]float64{"eu": 70, "ap": 150}},
			{Id: "eu", Zone: "eu", PeerUrls: []string{"https://eu"}, RttMs: map[string]float64{"us": 70, "ap": 220}},
			{Id: "ap", Zone: "ap", PeerUrls: []string{"https://ap"}},
		},
		Clusters: []*routerpb.Cluster{
			{Id: "us-e", Region: "us", Kind: "endpoints", Models: []string{"m"}, HealthCap: 1, ModelNames: names, Auth: auth, Endpoints: []*routerpb.Endpoint{{Id: "1", Url: "http://1"}}},
			{Id: "eu-e", Region: "eu", Kind: "endpoints", Models: []string{"m"}, HealthCap: 0.5, Health: "RAMPING", Drained: true, ModelNames: names, Auth: auth, Endpoints: []*routerpb.Endpoint{{Id: "2", Url: "http://2"}}, Discovery: &routerpb.Discovery{Kind: "dns", Name: "x"}},
			{Id: "eu-g", Region: "eu", Kind: "gateway", Models: []string{"m"}, HealthCap: 1, GatewayUrl: "http://g", MetricsUrl: "http://g/metrics"},
			{Id: "ap-r", Region: "ap", Kind: "router", Models: []string{"m"}, HealthCap: 1},
			{Id: "ap-p", Region: "ap", Kind: "provider", Models: []string{"m"}, HealthCap: 1, GatewayUrl: "https://p", ModelNames: names, Auth: auth},
		},
		Models:  []*routerpb.Model{{Id: "m"}},
		Tenants: []*routerpb.Tenant{{Id: "t", Residency: []string{"eu"}}},
		Quotas:  []*routerpb.Quota{{Id: "q", Tenant: "t"}},
		Classes: []*routerpb.Class{{Id: "interactive"}},
		Weights: []*routerpb.Weights{
			{Model: "m", Class: "interactive", Source: "us", Clusters: []*routerpb.ClusterWeight{{Cluster: "us-e", Weight: 1}}},
			{Model: "m", Class: "interactive", Source: "eu", Clusters: []*routerpb.ClusterWeight{{Cluster: "eu-g", Weight: 1}}},
			{Model: "m", Class: "interactive", Source: "ap"},
		},
		Rules: []*routerpb.Rule{{Id: "p", Clusters: []string{"eu-e"}}},
	}
}

func cluster(t *testing.T, x *routerpb.Table, id string) *routerpb.Cluster {
	t.Helper()
	i := slices.IndexFunc(x.GetClusters(), func(c *routerpb.Cluster) bool { return c.GetId() == id })
	if i < 0 {
		t.Fatalf("no cluster %s", id)
	}
	return x.GetClusters()[i]
}

func TestASliceLacksWhatItsRegionCantUse(t *testing.T) {
	all := world(3)
	s := Slice(all, "us")
	if s.GetRegion() != "us" || !proto.Equal(s.GetRef(), all.GetRef()) || s.GetCreatedUnixMs() != 5 {
		t.Errorf("slice %v", s)
	}
	if len(s.GetWeights()) != 1 || s.GetWeights()[0].GetSource() != "us" {
		t.Errorf("weights %v", s.GetWeights())
	}
	for i, want := range []map[string]float64{{"eu": 70, "ap": 150}, {"us": 70}, nil} {
		r := s.GetRegions()[i]
		if len(r.GetRttMs()) != len(want) || len(r.GetPeerUrls()) != 1 || r.GetZone() == "" {
			t.Errorf("region %v, want round trips %v", r, want)
		}
	}
	for _, id := range []string{"us-e", "ap-p"} {
		if !proto.Equal(cluster(t, s, id), cluster(t, all, id)) {
			t.Errorf("%s is called by these routers and lacks something: %v", id, cluster(t, s, id))
		}
	}
	want := &routerpb.Cluster{Id: "eu-e", Region: "eu", Kind: "endpoints", Models: []string{"m"}, HealthCap: 0.5, Health: "RAMPING", Drained: true}
	if got := cluster(t, s, "eu-e"); !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := cluster(t, s, "eu-g"); got.GetGatewayUrl() != "" || got.GetMetricsUrl() != "" {
		t.Errorf("got %v", got)
	}
	if !proto.Equal(all, world(3)) {
		t.Error("the table itself was changed")
	}
	if !proto.Equal(Slice(s, "us"), s) {
		t.Error("a slice of a slice is another")
	}
	if got := Slice(all, "elsewhere"); len(got.GetWeights()) != 0 || len(got.GetClusters()) != 5 {
		t.Errorf("for a region that the table does not know: %v", got)
	}
}

// What a message gains must be decided on: it is kept, or it is left out on purpose.
func TestASliceDecidesOnEveryField(t *testing.T) {
	tests := map[string]struct {
		whole protoreflect.ProtoMessage
		slice protoreflect.ProtoMessage
		out   []string
	}{
		"Table":   {&routerpb.Table{}, Slice(filled(&routerpb.Table{}).(*routerpb.Table), "own"), nil},
		"Drill":   {&routerpb.Drill{}, sliceDrill(filled(&routerpb.Drill{}).(*routerpb.Drill), "own"), nil},
		"Region":  {&routerpb.Region{}, sliceRegion(filled(&routerpb.Region{RttMs: map[string]float64{"own": 1}}).(*routerpb.Region), "own"), nil},
		"Cluster": {&routerpb.Cluster{}, sliceCluster(filled(&routerpb.Cluster{}).(*routerpb.Cluster), "own"), []string{"endpoints", "gateway_url", "metrics_url", "auth", "discovery", "model_names"}},
	}
	for name, tt := range tests {
		fields := tt.whole.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			f := fields.Get(i)
			if has := tt.slice.ProtoReflect().Has(f); has == slices.Contains(tt.out, string(f.Name())) {
				t.Errorf("%s.%s: in the slice: %v", name, f.Name(), has)
			}
		}
	}
}

// filled sets every field of a message that is not set.
func filled(m protoreflect.ProtoMessage) protoreflect.ProtoMessage {
	r := m.ProtoReflect()
	fields := r.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case r.Has(f):
		case f.IsMap():
			r.Mutable(f).Map().Set(protoreflect.ValueOf("k").MapKey(), f.MapValue().Default())
		case f.IsList() && f.Kind() == protoreflect.MessageKind:
			e := r.Mutable(f).List().AppendMutable().Message()
			if source := e.Descriptor().Fields().ByName("source"); source != nil {
				e.Set(source, protoreflect.ValueOf("own"))
			}
		case f.IsList():
			r.Mutable(f).List().Append(protoreflect.ValueOf("x"))
		case f.Kind() == protoreflect.Uint64Kind:
			r.Set(f, protoreflect.ValueOf(uint64(1)))
		case f.Kind() == protoreflect.BytesKind:
			r.Set(f, protoreflect.ValueOf([]byte{1}))
		case f.Kind() == protoreflect.MessageKind:
			r.Mutable(f)
		case f.Kind() == protoreflect.StringKind:
			r.Set(f, protoreflect.ValueOf("x"))
		case f.Kind() == protoreflect.BoolKind:
			r.Set(f, protoreflect.ValueOf(true))
		case f.Kind() == protoreflect.DoubleKind:
			r.Set(f, protoreflect.ValueOf(1.0))
		case f.Kind() == protoreflect.Int64Kind:
			r.Set(f, protoreflect.ValueOf(int64(1)))
		}
	}
	return m
}
