package table

import (
	"errors"
	"testing"

	"anabranch/api/routerpb"
)

// In a slice for one region, clusters of others need no target; all else holds as ever.
func TestASliceNeedsTargetsForItsOwnRegionOnly(t *testing.T) {
	bare := func(c *routerpb.Cluster) {
		c.Endpoints, c.GatewayUrl, c.MetricsUrl, c.Auth = nil, "", "", nil
	}
	tests := map[string]struct {
		region string
		change func(*routerpb.Table)
		code   string
	}{
		"endpoints elsewhere":          {"eu-west-1", func(x *routerpb.Table) { bare(x.Clusters[0]) }, ""},
		"gateway elsewhere":            {"us-east-1", func(x *routerpb.Table) { bare(x.Clusters[1]) }, ""},
		"endpoints at home":            {"us-east-1", func(x *routerpb.Table) { bare(x.Clusters[0]) }, CodeNoTarget},
		"gateway at home":              {"eu-west-1", func(x *routerpb.Table) { bare(x.Clusters[1]) }, CodeNoTarget},
		"endpoints in a whole table":   {"", func(x *routerpb.Table) { bare(x.Clusters[0]) }, CodeNoTarget},
		"a provider elsewhere":         {"us-east-1", func(x *routerpb.Table) { bare(x.Clusters[1]); x.Clusters[1].Kind = KindProvider }, CodeNoTarget},
		"a kind that is none":          {"us-east-1", func(x *routerpb.Table) { bare(x.Clusters[1]); x.Clusters[1].Kind = "cloud" }, CodeValue},
		"what is told must be right":   {"eu-west-1", func(x *routerpb.Table) { x.Clusters[0].Endpoints[0].Url = "nowhere" }, CodeValue},
		"told in full all the same":    {"eu-west-1", func(*routerpb.Table) {}, ""},
		"a region that is not of ours": {"ap-south-1", func(x *routerpb.Table) { bare(x.Clusters[0]); bare(x.Clusters[1]) }, ""},
		"found by discovery and broken": {"eu-west-1", func(x *routerpb.Table) {
			bare(x.Clusters[0])
			x.Clusters[0].Discovery = &routerpb.Discovery{Kind: "dns"}
		}, CodeValue},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pb := good()
			pb.Region = tt.region
			tt.change(pb)
			built, err := Build(pb)
			if tt.code == "" {
				if err != nil || built.Clusters["us-a"] == nil || !built.Clusters["us-a"].Serves("llama") {
					t.Errorf("got %v, %v", built, err)
				}
				return
			}
			if invalid, ok := errors.AsType[*Invalid](err); !ok || invalid.Code != tt.code {
				t.Errorf("error %v, want %s", err, tt.code)
			}
		})
	}
}
