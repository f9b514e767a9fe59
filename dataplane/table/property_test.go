package table

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// drawTable draws a table that is right in every part.
func drawTable(t *rapid.T) *routerpb.Table {
	pb := &routerpb.Table{Ref: &routerpb.TableRef{ClusterId: "c", Epoch: 1, Revision: rapid.Uint64Range(1, 1e6).Draw(t, "revision")}}
	count := func(what string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, what) }
	for i := range count("regions", 1, 4) {
		pb.Regions = append(pb.Regions, &routerpb.Region{Id: fmt.Sprint("r", i), Zone: fmt.Sprint("z", i%2), PeerUrls: []string{fmt.Sprintf("https://r%d", i)}})
	}
	for i := range count("models", 1, 4) {
		m := &routerpb.Model{Id: fmt.Sprint("m", i), OutputWeight: rapid.Float64Range(0.1, 10).Draw(t, "output weight")}
		for j := range count("aliases", 0, 2) {
			m.Aliases = append(m.Aliases, fmt.Sprintf("m%d-alias%d", i, j))
		}
		for j := range count("adapters", 0, 2) {
			m.Adapters = append(m.Adapters, fmt.Sprintf("m%d-lora%d", i, j))
		}
		pb.Models = append(pb.Models, m)
	}
	for i := range count("clusters", 1, 6) {
		c := &routerpb.Cluster{
			Id: fmt.Sprint("c", i), Region: pb.Regions[count("region", 0, len(pb.Regions)-1)].Id, Kind: "gateway",
			GatewayUrl: "http://g", HealthCap: rapid.Float64Range(0, 1).Draw(t, "cap"),
		}
		for _, m := range pb.Models {
			if rapid.Bool().Draw(t, "serves") {
				c.Models = append(c.Models, m.Id)
			}
		}
		pb.Clusters = append(pb.Clusters, c)
	}
	for i := range count("tenants", 0, 4) {
		x := &routerpb.Tenant{Id: fmt.Sprint("t", i)}
		for j := range count("keys", 0, 2) {
			x.KeySha256 = append(x.KeySha256, keySum(fmt.Sprintf("key-%d-%d", i, j)))
		}
		pb.Tenants = append(pb.Tenants, x)
		for j := range count("quotas", 0, 3) {
			q := &routerpb.Quota{Id: fmt.Sprintf("q%d-%d", i, j), Tenant: x.Id, Kind: "requests", Limit: 1, PeriodMs: 1, Burst: 1}
			if rapid.Bool().Draw(t, "of a model") {
				q.Model = pb.Models[count("model", 0, len(pb.Models)-1)].Id
			}
			pb.Quotas = append(pb.Quotas, q)
		}
	}
	for _, m := range pb.Models {
		for _, r := range pb.Regions {
			w := &routerpb.Weights{Model: m.Id, Class: "interactive", Source: r.Id}
			sum := 0.0
			for _, c := range pb.Clusters {
				if slices.Contains(c.Models, m.Id) {
					v := rapid.Float64Range(0, 1).Draw(t, "weight")
					sum += v
					w.Clusters = append(w.Clusters, &routerpb.ClusterWeight{Cluster: c.Id, Weight: v})
				}
			}
			if sum == 0 {
				w.Clusters = nil
			}
			for _, c := range w.Clusters {
				c.Weight /= sum
			}
			pb.Weights = append(pb.Weights, w)
		}
	}
	return pb
}

// Every lookup agrees with a search through the message.
func TestLookupsAgreeWithTheMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pb := drawTable(t)
		tab, err := Build(pb)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range pb.Models {
			for _, name := range append([]string{m.Id}, m.Aliases...) {
				if got, adapter, ok := tab.Model(name); !ok || string(got.ID) != m.Id || adapter != "" {
					t.Fatalf("Model(%s) = %v, %q, %v", name, got, adapter, ok)
				}
			}
			for _, name := range m.Adapters {
				if got, adapter, ok := tab.Model(name); !ok || string(got.ID) != m.Id || adapter != name {
					t.Fatalf("Model(%s) = %v, %q, %v", name, got, adapter, ok)
				}
			}
			var want []string
			for _, c := range pb.Clusters {
				if slices.Contains(c.Models, m.Id) {
					want = append(want, c.Id)
				}
			}
			var got []string
			for _, c := range tab.Serving(fleet.ModelID(m.Id)) {
				got = append(got, string(c.ID))
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s on %v, want %v", m.Id, got, want)
			}
		}
		for i := range 5 {
			for j := range 3 {
				key := fmt.Sprintf("key-%d-%d", i, j)
				want := ""
				for _, x := range pb.Tenants {
					for _, k := range x.KeySha256 {
						if sum := sha256.Sum256([]byte(key)); string(k) == string(sum[:]) {
							want = x.Id
						}
					}
				}
				if got, _, _ := tab.TenantByKey(key, time.Now()); (got != nil) != (want != "") || got != nil && string(got.ID) != want {
					t.Fatalf("%s is of %v, want %q", key, got, want)
				}
			}
		}
		for _, w := range pb.Weights {
			got, ok := tab.Weights(fleet.ModelID(w.Model), fleet.ClassID(w.Class), fleet.RegionID(w.Source))
			if !ok || len(got) != len(w.Clusters) {
				t.Fatalf("weights of %s from %s: %v", w.Model, w.Source, got)
			}
			for i, c := range w.Clusters {
				if string(got[i].Cluster.ID) != c.Cluster || got[i].Share != c.Weight {
					t.Fatalf("weight %d is %v, want %v", i, got[i], c)
				}
			}
		}
	})
}

// However one number of a good table is spoiled, what is accepted still holds together.
func TestSpoiledNumbersAreRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pb := drawTable(t)
		pb.Rules = []*routerpb.Rule{{Id: "p", Class: "interactive", Arms: []*routerpb.Arm{{Id: "a", Weight: 1}}, Shadow: &routerpb.Shadow{Share: 0.5}}}
		pb.Classes = []*routerpb.Class{{Id: "interactive", Hedge: &routerpb.Hedge{}}}
		bad := rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), -0.5}).Draw(t, "bad")
		var places []func()
		for _, w := range pb.Weights {
			for _, c := range w.Clusters {
				places = append(places, func() { c.Weight = bad })
			}
		}
		for _, c := range pb.Clusters {
			places = append(places, func() { c.HealthCap = bad })
		}
		for _, q := range pb.Quotas {
			places = append(places, func() { q.Share = bad })
		}
		for _, m := range pb.Models {
			places = append(places, func() { m.OutputWeight = bad })
		}
		places = append(places,
			func() { pb.Rules[0].Arms[0].Weight = bad }, func() { pb.Rules[0].Shadow.Share = bad },
			func() { pb.Classes[0].Hedge.MaxShare = bad }, func() { pb.Classes[0].Hedge.MaxSaturation = bad },
		)
		rapid.SampledFrom(places).Draw(t, "place")()
		_, err := Build(pb)
		var invalid *Invalid
		if !errors.As(err, &invalid) || invalid.Code != CodeValue {
			t.Fatalf("%v was accepted, or refused for another reason: %v", bad, err)
		}
	})
}

// The same message gives the same answers, through the wire and back.
func TestTablesSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pb := drawTable(t)
		drawRules(t, pb)
		b, err := proto.Marshal(pb)
		if err != nil {
			t.Fatal(err)
		}
		var back routerpb.Table
		if err := proto.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		tab, err := Build(&back)
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(tab.Proto(), pb) {
			t.Fatal("the message changed on its way")
		}
	})
}

func TestHolderUnderConcurrentUse(t *testing.T) {
	var h Holder
	tables := []*Table{build(t, good()), build(t, good())}
	h.Store(tables[0])
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 1000 {
				if got := h.Load(); got != tables[0] && got != tables[1] {
					t.Error("read a table that nobody stored")
					return
				}
				h.Store(tables[i%2])
			}
		})
	}
	all.Wait()
}
