package ratelimit

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSharesFollowUsageAboveAFloor(t *testing.T) {
	for name, c := range map[string]struct {
		usage []int64
		floor int64
		want  []int64
	}{
		"nobody":                      {nil, 1000, nil},
		"one has all":                 {[]int64{7}, 1000, []int64{1_000_000}},
		"by usage":                    {[]int64{300, 100}, 0, []int64{750_000, 250_000}},
		"the floor first":             {[]int64{300, 0}, 100_000, []int64{900_000, 100_000}},
		"no usage is shared evenly":   {[]int64{0, 0, 0, 0}, 10, []int64{250_000, 250_000, 250_000, 250_000}},
		"a floor that is too high":    {[]int64{9, 1}, 700_000, []int64{500_000, 500_000}},
		"usage below 0 is none":       {[]int64{-5, 5}, -1, []int64{0, 1_000_000}},
		"usage of any size":           {[]int64{1 << 62, 1 << 62}, 0, []int64{500_000, 500_000}},
		"what can't be split is kept": {[]int64{1, 1, 1}, 0, []int64{333_333, 333_333, 333_333}},
	} {
		if got := Shares(c.usage, c.floor); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestSharesAreNeverMoreThanTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		usage := rapid.SliceOfN(rapid.Int64(), 1, 50).Draw(t, "usage")
		floor := rapid.Int64Range(0, 100_000).Draw(t, "floor")
		var sum int64
		for i, s := range Shares(usage, floor) {
			if least := min(floor, ShareParts/int64(len(usage))); s < least {
				t.Fatalf("share %d is %d, below the floor of %d", i, s, least)
			}
			sum += s
		}
		if sum > ShareParts || sum < ShareParts-2*int64(len(usage)) {
			t.Fatalf("shares of %v sum to %d", usage, sum)
		}
	})
}
