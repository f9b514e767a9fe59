package ratelimit

import (
	"slices"
	"strings"
	"testing"
	"time"

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

func TestAnAllowanceIsThePartOfTheInflow(t *testing.T) {
	l := Limit{ID: "tpm", Kind: TotalTokens, Amount: 60_000, PeriodMs: 60_000, Burst: 1000}
	for name, c := range map[string]struct {
		limit Limit
		parts int64
		over  time.Duration
		want  int64
	}{
		"a tenth of ten seconds":       {l, 100_000, 10 * time.Second, 1000},
		"all of it":                    {l, ShareParts, 1500 * time.Millisecond, 1500},
		"rounded down":                 {l, 1, 1999 * time.Second, 1},
		"no parts":                     {l, 0, time.Hour, 0},
		"no time":                      {l, 100_000, -time.Second, 0},
		"always":                       {l, ShareParts, Always, 9_007_199_254_740},
		"of slots none":                {Limit{ID: "s", Kind: Slots, Burst: 10}, 100_000, time.Hour, 0},
		"of money none":                {Limit{ID: "m", Kind: Money, Burst: 10}, 100_000, time.Hour, 0},
		"more than a double can count": {Limit{ID: "x", Kind: Requests, Amount: 1 << 52, PeriodMs: 1, Burst: 1}, ShareParts, Always, 1<<53 - 1},
	} {
		if got := Allowance(c.limit, c.parts, c.over); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestAGapCountsWhereTheRouterWasAwayToo(t *testing.T) {
	gap := Gap{From: 10 * time.Second, To: 2 * time.Second}
	for name, c := range map[string]struct {
		gap      Gap
		from, to time.Duration
		want     time.Duration
	}{
		"all of it":           {gap, time.Minute, time.Second, 8 * time.Second},
		"the later part":      {gap, 5 * time.Second, 0, 3 * time.Second},
		"the earlier part":    {gap, time.Minute, 4 * time.Second, 6 * time.Second},
		"away after it":       {gap, time.Second, 0, 0},
		"away before it":      {gap, time.Minute, 20 * time.Second, 0},
		"no gap":              {Gap{}, time.Minute, 0, 0},
		"nothing is known of": {Gap{From: Always, To: time.Second}, time.Minute, 0, 59 * time.Second},
	} {
		if got := c.gap.Within(c.from, c.to); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestSharesOfACallAddUp(t *testing.T) {
	many := make([]Share, MaxShares+1)
	for want, shares := range map[string][]Share{
		"33 regions":     many,
		"0 bytes long":   {{Parts: 1}},
		"share of eu is": {{"eu", ShareParts + 1}},
		"below is -1":    {{"below", -1}},
		"two shares":     {{"eu", 1}, {"us", 1}, {"eu", 1}},
		"together":       {{"eu", ShareParts}, {"us", 1}},
	} {
		if err := validateShares(shares); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", shares, err, want)
		}
	}
	if err := validateShares([]Share{{"eu", 400_000}, {"us", 600_000}, {"ap", 0}}); err != nil {
		t.Error(err)
	}
}
