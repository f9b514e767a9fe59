package report

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

// scaled is a report whose policy takes factor times as long.
func scaled(policy string, factor float64, seeds ...uint64) *Report {
	var runs []Figures
	for _, seed := range seeds {
		runs = append(runs, Of(made(shape{policy: policy, ttft: 0.4 * factor, hits: 0.5}, seed)))
	}
	return New(policy+" runs", runs)
}

func difference(t *testing.T, p Pair, key string) Difference {
	t.Helper()
	for _, d := range p.Rows {
		if d.Metric.Key == key {
			return d
		}
	}
	t.Fatalf("%s is not compared", key)
	return Difference{}
}

func TestComparePairsEqualSeeds(t *testing.T) {
	c := Compare(scaled("ours", 1, 1, 2, 3), scaled("ours", 1.2, 3, 2, 1))
	d := difference(t, c.Pairs[0], "ttftMs.p95")
	// The same arrivals and the same chances: every time is 1.2 times as long, to the byte of rounding.
	if math.Abs(float64(d.Change.Mean)-0.2) > 0.001 || d.Change.High-d.Change.Low > 0.001 || d.Change.N != 3 {
		t.Errorf("%+v, want +20 %% without spread", d.Change)
	}
	if a := c.Agreement(); math.Abs(float64(a)-0.2) > 0.001 {
		t.Errorf("agreement %v", a)
	}
}

func TestCompareOtherSeedsAsUnpaired(t *testing.T) {
	c := Compare(scaled("ours", 1, 1, 2, 3), scaled("ours", 2, 7, 8, 9, 10))
	d := difference(t, c.Pairs[0], "ttftMs.p50")
	if d.Change.Mean < 0.7 || d.Change.Mean > 1.3 || !d.Change.Low.Known() || d.Change.High-d.Change.Low < 0.01 {
		t.Errorf("%+v, want about +100 %% with the spread of runs", d.Change)
	}
}

func TestCompareOneRunEach(t *testing.T) {
	c := Compare(scaled("simulated", 1, 1), scaled("replay", 1.1, 1))
	if len(c.Pairs) != 1 || c.Pairs[0].Name != "simulated → replay" {
		t.Fatalf("%+v", c.Pairs)
	}
	if d := difference(t, c.Pairs[0], "ttftMs.p50"); d.Change.Low.Known() || math.Abs(float64(d.Change.Mean)-0.1) > 0.001 {
		t.Errorf("one run of each: %+v", d.Change)
	}
}

func TestCompareByName(t *testing.T) {
	a, b := golden(), golden()
	b.Runs = append(b.Of("ours"), scaled("new", 1, 1).Runs...)
	c := Compare(a, b)
	if len(c.Pairs) != 1 || c.Pairs[0].Name != "ours" {
		t.Errorf("%d pairs", len(c.Pairs))
	}
	if got := strings.Join(c.Alone, " "); got != "round-robin prefix-hash oracle new" {
		t.Errorf("alone: %s", got)
	}
	if c.Agreement() != 0 {
		t.Errorf("the same runs differ by %v", c.Agreement())
	}
	if none := Compare(scaled("a", 1, 1), New("", nil)); none.Agreement().Known() || !strings.Contains(none.headline(), "Nothing") {
		t.Error("nothing is compared with nothing")
	}
}

// A figure that one of the reports doesn't know is shown, and has no change.
func TestCompareWithWhatIsUnknown(t *testing.T) {
	sent := New("real", []Figures{FromReplay(requestsOf(made(shapes[2], 1)), Replay{Name: "router", Seed: 1})})
	sent.Real = true
	c := Compare(scaled("ours", 0.75, 1), sent)
	d := difference(t, c.Pairs[0], "cost.perAnswerMicroUSD")
	if d.B.Mean.Known() || d.Change.Mean.Known() {
		t.Errorf("%+v", d)
	}
	var b bytes.Buffer
	if err := c.Text(&b, Options{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "really sent") {
		t.Errorf("it isn't said that B is real:\n%s", b.String())
	}
}

func TestComparisonToTheLetter(t *testing.T) {
	c := Compare(scaled("ours", 1, 1, 2, 3), scaled("ours", 1.2, 1, 2, 3))
	var b bytes.Buffer
	if err := c.Text(&b, Options{}); err != nil {
		t.Fatal(err)
	}
	sameAsGolden(t, "comparison.txt", b.Bytes())
}

func TestComparisonPage(t *testing.T) {
	var b bytes.Buffer
	if err := Compare(golden(), golden()).HTML(&b); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, b.String())
	for _, want := range []string{"Agreement", "differ by at most 0.0", `id="ttft-3-t"`, "round-robin"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page doesn't say %q", want)
		}
	}
	if strings.Contains(b.String(), "Go or no go") {
		t.Error("a comparison is no verdict")
	}
}
