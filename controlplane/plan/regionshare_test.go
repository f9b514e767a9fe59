package plan

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/ratelimit"
)

func partsFor(parts ...any) (out []*routerpb.Share) {
	for i := 0; i < len(parts); i += 2 {
		region, _ := parts[i].(string)
		n, _ := parts[i+1].(int)
		out = append(out, &routerpb.Share{Region: region, Parts: uint32(n)})
	}
	return out
}

func shareWords(shares []*routerpb.Share) (out string) {
	for _, s := range shares {
		out += fmt.Sprintf("%s:%d ", s.GetRegion(), s.GetParts())
	}
	return out
}

func TestRegionsShareByUsageAndChangeLittle(t *testing.T) {
	three := []fleet.RegionID{"us", "ap", "eu"}
	for name, tt := range map[string]struct {
		regions []fleet.RegionID
		usage   Usage
		before  []*routerpb.Share
		want    []*routerpb.Share
	}{
		"no regions":                     {nil, Usage{"us": 1}, nil, nil},
		"nothing is known":               {three, nil, nil, partsFor("ap", 333_333, "eu", 333_333, "us", 333_333)},
		"nobody uses anything":           {three, Usage{}, nil, partsFor("ap", 333_333, "eu", 333_333, "us", 333_333)},
		"one uses all":                   {three, Usage{"us": 7}, nil, partsFor("ap", 20_000, "eu", 20_000, "us", 960_000)},
		"by usage":                       {three, Usage{"us": 0.2, "eu": 0.2}, nil, partsFor("ap", 20_000, "eu", 490_000, "us", 490_000)},
		"usage below 0 is none":          {three, Usage{"us": 1, "eu": -5}, nil, partsFor("ap", 20_000, "eu", 20_000, "us", 960_000)},
		"usage elsewhere does not count": {three, Usage{"us": 1, "moon": 99}, nil, partsFor("ap", 20_000, "eu", 20_000, "us", 960_000)},
		"a region listed twice":          {[]fleet.RegionID{"us", "us"}, nil, nil, partsFor("us", 1_000_000)},
		"unknown usage changes nothing":  {three, nil, partsFor("ap", 1, "eu", 2, "us", 3), partsFor("ap", 1, "eu", 2, "us", 3)},
		"what is about right stays":      {three, Usage{"us": 1}, partsFor("ap", 60_000, "eu", 20_000, "us", 911_000), partsFor("ap", 60_000, "eu", 20_000, "us", 911_000)},
		"what is off does not":           {three, Usage{"us": 1}, partsFor("ap", 60_000, "eu", 20_000, "us", 909_000), partsFor("ap", 20_000, "eu", 20_000, "us", 960_000)},
		"a new region has a share":       {three, nil, partsFor("ap", 500_000, "eu", 500_000), partsFor("ap", 333_333, "eu", 333_333, "us", 333_333)},
		"a region that is gone has none": {[]fleet.RegionID{"us"}, Usage{"eu": 1}, partsFor("eu", 980_000, "us", 20_000), partsFor("us", 1_000_000)},
		"shares in another order":        {[]fleet.RegionID{"a", "b"}, nil, partsFor("b", 500_000, "a", 500_000), partsFor("a", 500_000, "b", 500_000)},
	} {
		if got := shareWords(RegionShares(tt.regions, tt.usage, tt.before)); got != shareWords(tt.want) {
			t.Errorf("%s: %s, want %s", name, got, shareWords(tt.want))
		}
	}
}

func TestOfTooManyRegionsTheBusyOnesShare(t *testing.T) {
	var regions []fleet.RegionID
	usage := Usage{}
	for i := range ratelimit.MaxShares + 3 {
		r := fleet.RegionID(fmt.Sprintf("r%02d", i))
		regions = append(regions, r)
		usage[r] = float64(i)
	}
	got := RegionShares(regions, usage, nil)
	if len(got) != ratelimit.MaxShares || got[0].GetRegion() != "r03" {
		t.Errorf("%d shares from %s", len(got), got[0].GetRegion())
	}
}

func TestRegionSharesAreNeverMoreThanTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var regions []fleet.RegionID
		usage := Usage{}
		for i := range rapid.IntRange(1, 40).Draw(t, "regions") {
			r := fleet.RegionID(fmt.Sprint(i))
			regions = append(regions, r)
			usage[r] = rapid.SampledFrom([]float64{0, -1, 1e-300, 3, 1e300, math.MaxFloat64}).Draw(t, "usage")
		}
		sum := uint64(0)
		for _, s := range RegionShares(regions, usage, nil) {
			if s.GetParts() < leastShare {
				t.Fatalf("%s has %d", s.GetRegion(), s.GetParts())
			}
			sum += uint64(s.GetParts())
		}
		if sum > ratelimit.ShareParts || sum < ratelimit.ShareParts-100 {
			t.Fatalf("%d parts", sum)
		}
	})
}
