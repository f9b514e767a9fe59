package load

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var routers = []Router{{Region: "us", URL: "http://us"}, {Region: "eu", URL: "http://eu"}}

func TestRowsCountByOutcomeAndRegion(t *testing.T) {
	s := NewStats(routers)
	for _, r := range []Result{
		{Region: "us", Served: "us", Outcome: OK, Attempts: 1, TTFT: 10 * time.Millisecond},
		{Region: "us", Served: "eu", Outcome: OK, Attempts: 2, TTFT: 30 * time.Millisecond, RequestID: "us-7"},
		{Region: "us", Served: "us", Outcome: Limited},
		{Region: "us", Served: "us", Outcome: Broken, Reason: "cut", RequestID: "us-1"},
		{Region: "eu", Outcome: Failed, Reason: "refused", RequestID: "eu-1"},
		{Region: "eu", Outcome: Failed, Reason: "refused", RequestID: "eu-2"},
	} {
		s.Add(r)
	}
	s.Skip()
	want := []Row{
		{
			Region: "us", Finished: 4, OK: 2, Limited: 1, Broken: 1, Retried: 1,
			TTFTP50Ms: 10, TTFTP95Ms: 30, Served: map[string]int{"us": 2, "eu": 1},
		},
		{Region: "eu", Finished: 2, Failed: 2},
	}
	if got := s.Cut(); !reflect.DeepEqual(got, want) {
		t.Errorf("first cut\n%+v\nwant\n%+v", got, want)
	}
	if got := s.Cut(); !reflect.DeepEqual(got, []Row{{Region: "us"}, {Region: "eu"}}) {
		t.Errorf("a cut starts anew, got %+v", got)
	}
	sum := s.Summary(2 * time.Second)
	if !reflect.DeepEqual(sum.Regions, want) {
		t.Errorf("summary keeps the whole run, got %+v", sum.Regions)
	}
	if sum.Total.Finished != 6 || sum.Total.Failed != 2 || sum.Skipped != 1 || sum.Seconds != 2 {
		t.Errorf("total %+v skipped %d seconds %v", sum.Total, sum.Skipped, sum.Seconds)
	}
	if want := (Slowest{30, "us-7"}); sum.Slowest != want {
		t.Errorf("slowest %+v, want %+v", sum.Slowest, want)
	}
	if wantReasons := []Reason{{"refused", 2, "eu-1"}, {"cut", 1, "us-1"}}; !slices.Equal(sum.Reasons, wantReasons) {
		t.Errorf("reasons %+v, want %+v", sum.Reasons, wantReasons)
	}
}

func TestQuantileIsAValueOfTheSample(t *testing.T) {
	ms1 := func(n ...int) []time.Duration {
		var ds []time.Duration
		for _, v := range n {
			ds = append(ds, time.Duration(v)*time.Millisecond)
		}
		return ds
	}
	for name, c := range map[string]struct {
		of   []time.Duration
		q    float64
		want float64
	}{
		"none":              {nil, 0.5, 0},
		"one":               {ms1(7), 0.95, 7},
		"median of two":     {ms1(1, 9), 0.5, 1},
		"median of three":   {ms1(1, 5, 9), 0.5, 5},
		"p95 of twenty":     {ms1(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20), 0.95, 19},
		"least":             {ms1(3, 4), 0, 3},
		"greatest":          {ms1(3, 4), 1, 4},
		"p95 of few: worst": {ms1(1, 2, 3), 0.95, 3},
	} {
		if got := quantile(c.of, c.q); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestQuantileAgainstItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SliceOfN(rapid.IntRange(0, 1000), 1, 50).Draw(t, "ms")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		slices.Sort(n)
		ds := make([]time.Duration, len(n))
		for i, v := range n {
			ds[i] = time.Duration(v) * time.Millisecond
		}
		want := n[len(n)-1]
		for _, v := range slices.Backward(n) {
			covered := 0
			for _, w := range n {
				if w <= v {
					covered++
				}
			}
			if float64(covered) >= q*float64(len(n)) {
				want = v
			}
		}
		if got := quantile(ds, q); math.Abs(got-float64(want)) > 1e-9 {
			t.Fatalf("quantile %v of %v = %v, want %d", q, n, got, want)
		}
	})
}

func TestPrintedLinesStandUnderTheirNames(t *testing.T) {
	var b strings.Builder
	if err := Header(&b); err != nil {
		t.Fatal(err)
	}
	rows := []Row{{
		Region: "ap-northeast-1", Finished: 12, OK: 9, Retried: 2, Limited: 1, Failed: 1, Broken: 1,
		TTFTP50Ms: 41.4, TTFTP95Ms: 120, Served: map[string]int{"us-east-1": 3, "ap-northeast-1": 6},
	}, {Region: "eu-west-1"}}
	if err := Print(&b, "7s", 2, rows); err != nil {
		t.Fatal(err)
	}
	want := `
time   asked               rps     ok  retried   429  failed  broken  ttft p50  ttft p95  served by
7s     ap-northeast-1      6.0      9        2     1       1       1     41 ms    120 ms  ap-northeast-1 67% us-east-1 33%
7s     eu-west-1           0.0      0        0     0       0       0         -         -  -
`
	if got := "\n" + b.String(); got != want {
		t.Errorf("got%s\nwant%s", got, want)
	}
}

func TestSummaryNamesWhatWentWrong(t *testing.T) {
	s := NewStats(routers)
	s.Add(Result{Region: "us", Outcome: Failed, Reason: "HTTP 503 no_target from router", RequestID: "us-r1-0"})
	s.Add(Result{Region: "eu", Served: "eu", Outcome: OK, TTFT: 1500 * time.Millisecond, RequestID: "eu-r1-9"})
	s.Skip()
	var b strings.Builder
	if err := s.Summary(3 * time.Second).Print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"2 requests in 3 s", "1 × HTTP 503 no_target from router", "anabranch explain us-r1-0", "1 not sent", "all    all",
		"slowest first content: 1500 ms   (anabranch explain eu-r1-9)",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("summary lacks %q:\n%s", want, b.String())
		}
	}
}
