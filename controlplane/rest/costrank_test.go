package rest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/controlplane/account"
	"anabranch/costmodel"
	"anabranch/costmodel/focus"
)

// spent is a row of a tenant that paid so many micro-dollars in an hour.
func spent(hour int, tenant string, micros int64) account.Row {
	at := epoch.Add(time.Duration(hour) * time.Hour)
	return account.Row{
		Start: at, Until: at.Add(time.Hour), Key: costmodel.Key{Tenant: fleet.TenantID(tenant)},
		Sum: costmodel.Sum{Usage: costmodel.Usage{Input: 10 * micros, Succeeded: 1}, Cost: costmodel.Micros(micros)},
	}
}

// rowsOf writes rows as "hour tenant micros", merged ones as "+n".
func rowsOf(rows []costRow) string {
	var all []string
	for _, r := range rows {
		name := string(r.Key.Tenant)
		if r.merged > 0 {
			name = fmt.Sprintf("+%d", r.merged)
		}
		all = append(all, fmt.Sprintf("%d %s %d", int(r.Start.Sub(epoch).Hours()), name, r.Cost))
	}
	return strings.Join(all, ", ")
}

func TestHowRowsOfCostsAreOrderedAndMerged(t *testing.T) {
	rows := []account.Row{
		spent(0, "a", 10), spent(0, "b", 30), spent(0, "c", 20), spent(0, "d", 1),
		spent(1, "a", 5), spent(1, "c", 70), spent(1, "d", 2),
	}
	for name, tt := range map[string]struct {
		figure string
		down   bool
		limit  int
		want   string
	}{
		"the dearest first":    {"paid", true, 0, "0 b 30, 0 c 20, 0 a 10, 0 d 1, 1 c 70, 1 a 5, 1 d 2"},
		"the cheapest first":   {"work", false, 0, "0 d 1, 0 a 10, 0 c 20, 0 b 30, 1 d 2, 1 a 5, 1 c 70"},
		"by name":              {"name", false, 0, "0 a 10, 0 b 30, 0 c 20, 0 d 1, 1 a 5, 1 c 70, 1 d 2"},
		"by name, backwards":   {"name", true, 0, "0 d 1, 0 c 20, 0 b 30, 0 a 10, 1 d 2, 1 c 70, 1 a 5"},
		"the two dearest":      {"paid", true, 2, "0 b 30, 0 c 20, 0 +2 11, 1 c 70, 1 +2 7"}, // of all the time: c, then b
		"the dearest":          {"paid", true, 1, "0 c 20, 0 +3 41, 1 c 70, 1 +2 7"},
		"as many as there are": {"tokens", true, 4, "0 b 30, 0 c 20, 0 a 10, 0 d 1, 1 c 70, 1 a 5, 1 d 2"},
		"all are alike":        {"idle", true, 3, "0 a 10, 0 b 30, 0 c 20, 0 +1 1, 1 a 5, 1 c 70, 1 +1 2"},
	} {
		q := costQuery{figure: costFigures[tt.figure], down: tt.down, limit: tt.limit}
		got, err := q.rank(rows)
		if err != nil {
			t.Fatal(err)
		}
		if rowsOf(got.rows) != tt.want || got.keys != 4 || got.total.Cost != 138 {
			t.Errorf("%s: %s, %d keys, %d in all; want %s", name, rowsOf(got.rows), got.keys, got.total.Cost, tt.want)
		}
	}
	if got, err := (costQuery{}).rank(nil); err != nil || got.rows != nil || got.total != (costmodel.Sum{}) {
		t.Errorf("of nothing: %+v %v", got, err)
	}
}

func TestWhatCouldNotBeToldApartIsSaid(t *testing.T) {
	for _, tt := range []struct {
		key  costmodel.Key
		want bool
	}{{costmodel.Key{Tenant: "a"}, false}, {costmodel.Key{Tenant: costmodel.Other}, true}, {costmodel.Key{Model: costmodel.Other}, true}} {
		got, err := (costQuery{}).rank([]account.Row{{Key: tt.key}})
		if err != nil || got.folded != tt.want {
			t.Errorf("%+v: %v %v", tt.key, got.folded, err)
		}
	}
}

func TestTooManyRowsOfCostsAreRefused(t *testing.T) {
	rows := make([]account.Row, maxCostRows+1)
	for i := range rows {
		rows[i] = spent(i, "a", 1)
	}
	var p *Problem
	if _, err := (costQuery{}).rank(rows); !errors.As(err, &p) || p.Code != codeInvalidRequest {
		t.Errorf("got %v", err)
	}
	if _, err := (costQuery{}).rank(rows[1:]); err != nil {
		t.Error(err)
	}
}

// However rows are sorted and merged, nothing is lost, and no step has more keys than it may.
func TestRowsOfCostsAddUpToTheirTotal(t *testing.T) {
	figures := []string{"name", "paid", "tokens", "perAnswer", "perMillionTokens"}
	rapid.Check(t, func(t *rapid.T) {
		var rows []account.Row
		seen := map[string]bool{}
		for range rapid.IntRange(0, 30).Draw(t, "rows") {
			hour, tenant := rapid.IntRange(0, 3).Draw(t, "hour"), rapid.StringMatching("[a-f]").Draw(t, "tenant")
			if id := fmt.Sprint(hour, tenant); !seen[id] {
				seen[id] = true
				rows = append(rows, spent(hour, tenant, rapid.Int64Range(0, 1000).Draw(t, "micros")))
			}
		}
		q := costQuery{figure: costFigures[rapid.SampledFrom(figures).Draw(t, "figure")], down: rapid.Bool().Draw(t, "down"), limit: rapid.IntRange(0, 5).Draw(t, "limit")}
		got, err := q.rank(rows)
		if err != nil {
			t.Fatal(err)
		}
		var want, sum costmodel.Sum
		for _, r := range rows {
			want = want.Plus(r.Sum)
		}
		shown := map[string]bool{}
		merged := 0
		for _, r := range got.rows {
			sum = sum.Plus(r.Sum)
			if r.merged == 0 {
				shown[string(r.Key.Tenant)] = true
			}
			merged += r.merged
		}
		if sum != want || got.total != want {
			t.Fatalf("rows add up to %+v, the total is %+v, want %+v", sum, got.total, want)
		}
		if q.limit > 0 && len(shown) > q.limit || len(got.rows)-countMerged(got.rows)+merged != len(rows) {
			t.Fatalf("%d keys are shown of %d, %s", len(shown), q.limit, rowsOf(got.rows))
		}
		if !slices.IsSortedFunc(got.rows, func(a, b costRow) int { return a.Start.Compare(b.Start) }) {
			t.Fatalf("not by time: %s", rowsOf(got.rows))
		}
	})
}

func countMerged(rows []costRow) (n int) {
	for _, r := range rows {
		n += min(r.merged, 1)
	}
	return n
}

// Of a row that nobody paid anything for and that used more than can be counted there is a charge.
func TestARowOfTheGreatestCountsIsACharge(t *testing.T) {
	r := costRow{Row: spent(0, "a", 0)}
	r.Usage = costmodel.Usage{Input: math.MaxInt64, Output: math.MaxInt64, Succeeded: math.MaxInt64, Failed: math.MaxInt64}
	all := chargesOf(r)
	if len(all) != 1 || all[0].Kind != focus.Inference {
		t.Fatalf("charges %+v", all)
	}
	var file strings.Builder
	w := focus.NewWriter(&file, focus.Issuer{Account: "c"})
	if err := errors.Join(w.Write(all[0]), w.Flush()); err != nil || !strings.Contains(file.String(), ",9223372036854775807,Tokens,") {
		t.Errorf("%v, %s", err, &file)
	}
}
