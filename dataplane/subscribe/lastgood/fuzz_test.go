package lastgood

import (
	"crypto/sha256"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
)

// rich is a table with something of everything.
func rich() *routerpb.Table {
	return &routerpb.Table{
		Ref: &routerpb.TableRef{ClusterId: "c-1", Epoch: 2, Revision: 9},
		Regions: []*routerpb.Region{
			{Id: "eu-west-1", Zone: "eu", PeerUrls: []string{"https://eu:8300"}},
			{Id: "us-east-1", Zone: "us"},
		},
		Clusters: []*routerpb.Cluster{
			{
				Id: "eu-a", Region: "eu-west-1", Kind: "endpoints", Models: []string{"m"}, Health: "HEALTHY", HealthCap: 1,
				Endpoints: []*routerpb.Endpoint{{Id: "e1", Url: "http://127.0.0.1:9", Class: "h100"}},
				Auth:      []*routerpb.Credential{{Type: "bearer", Env: "TOKEN"}},
			},
			{Id: "us-a", Region: "us-east-1", Kind: "gateway", Models: []string{"m"}, GatewayUrl: "http://gw", HealthCap: 0.5, Drained: true},
		},
		Models:  []*routerpb.Model{{Id: "m", Aliases: []string{"gpt"}, Adapters: []string{"lora"}, OutputWeight: 6}},
		Tenants: []*routerpb.Tenant{{Id: "acme", Tier: "top", Priority: 100, Residency: []string{"eu"}}},
	}
}

func TestTheRichTableCanBeServedBy(t *testing.T) {
	if _, err := table.Build(rich()); err != nil {
		t.Error(err)
	}
}

// FuzzTable takes any bytes as the payload of a file that is otherwise whole: whatever comes out of
// it is refused, or can be served by, kept and read again.
func FuzzTable(f *testing.F) {
	for _, t := range []*routerpb.Table{rich(), numbered(1, 2), {}} {
		payload, err := proto.Marshal(t)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		pb := &routerpb.Table{}
		if proto.Unmarshal(payload, pb) != nil {
			return
		}
		data, err := encode(pb, time.UnixMilli(3))
		if err != nil {
			return
		}
		read, _, err := decode(data)
		if err != nil || !proto.Equal(read, pb) {
			t.Fatalf("read back %v, %v; want %v", read, err, pb)
		}
		built, err := table.Build(read)
		if err != nil {
			return
		}
		for _, m := range built.Models() {
			for _, c := range built.Serving(m.ID) {
				if built.Clusters[c.ID] != c || built.Regions[c.Region] == nil {
					t.Errorf("cluster %s of model %s is not in the table", c.ID, m.ID)
				}
			}
			if built.Class(m.ID) == nil {
				t.Errorf("model %s has no class", m.ID)
			}
		}
		again, err := table.Build(built.Proto())
		if err != nil || again.Ref != built.Ref || len(again.Clusters) != len(built.Clusters) {
			t.Errorf("built again: %v", err)
		}
	})
}

// FuzzSealed changes a file anywhere and makes its checksum right again.
func FuzzSealed(f *testing.F) {
	whole, err := encode(rich(), time.UnixMilli(3))
	if err != nil {
		f.Fatal(err)
	}
	body := whole[:len(whole)-sha256.Size]
	f.Add(body)
	f.Add(body[:40])
	f.Add(append([]byte(magic), 0, 0, 0, 1, 0xff, 0xff))
	f.Fuzz(func(t *testing.T, body []byte) {
		sum := sha256.Sum256(body)
		data := append(append([]byte{}, body...), sum[:]...)
		pb, at, err := decode(data)
		if err != nil {
			return
		}
		named, _, err := header(data)
		if err != nil || named != table.RefOf(pb.GetRef()) {
			t.Errorf("header of %v names %v, %v", pb.GetRef(), named, err)
		}
		again, err := encode(pb, at)
		if err != nil {
			t.Fatalf("decoded but can't be encoded: %v", err)
		}
		if back, when, err := decode(again); err != nil || !proto.Equal(back, pb) || !when.Equal(at) {
			t.Errorf("round trip: %v, %v", back, err)
		}
	})
}
