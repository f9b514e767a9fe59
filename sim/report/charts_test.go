package report

import (
	"fmt"
	"html"
	"math"
	"strings"
	"testing"

	"anabranch/sim/report/stat"
)

func headings(r *Report) []string {
	var out []string
	for _, p := range r.pictures() {
		out = append(out, p.Heading)
	}
	return out
}

func pictureOf(t *testing.T, r *Report, heading string) picture {
	t.Helper()
	for _, p := range r.pictures() {
		if p.Heading == heading {
			return p
		}
	}
	t.Fatalf("no chart %q among %q", heading, headings(r))
	return picture{}
}

func TestPicturesOfASimulation(t *testing.T) {
	want := []string{
		"Time to first token", "Change by choosing ours", "Goodput within the objectives", "Prompt tokens found in caches",
		"Share per pod", "Waiting requests over time", "Running requests over time", "Prefix hits over time",
		"TTFT P95 over time", "Weights of ours in us-east-1", "Weights of ours in eu-west-1",
		"Cost of the fleet per whole answer", "Cost of the work per whole answer", "Cost over its lower bound",
	}
	if got := headings(golden()); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q, want %q", got, want)
	}
}

// What nobody knows has no chart.
func TestPicturesOfAReplay(t *testing.T) {
	r := New("replay", []Figures{FromReplay(requestsOf(made(shapes[2], 1)), Replay{Name: "router"})})
	want := []string{
		"Time to first token", "Goodput within the objectives", "Prompt tokens found in caches", "Share per pod",
		"Prefix hits over time", "TTFT P95 over time",
	}
	if got := headings(r); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q, want %q", got, want)
	}
	if got := headings(New("", nil)); len(got) != 0 {
		t.Errorf("charts of nothing: %q", got)
	}
}

// straight has first-token times that rise evenly from low to high.
func straight(policy string, low, high float64) Figures {
	f := Figures{Policy: policy, TTFT: stat.Spread{P50: stat.Number((low + high) / 2)}}
	for _, at := range CurveAt() {
		f.Curve = append(f.Curve, stat.Number(low+(high-low)*at/100))
	}
	return f
}

func TestTheAxisIsLogarithmicWhereTheSpreadAsksForIt(t *testing.T) {
	const log = "The axis of time is logarithmic."
	near, far := straight("ours", 100, 1000), straight("ours", 100, 100_000)
	if p := New("", []Figures{near}).curves(); strings.Contains(p.Caption, log) {
		t.Error("a spread of ten is drawn on a logarithmic axis")
	}
	if p := New("", []Figures{far}).curves(); !strings.Contains(p.Caption, log) {
		t.Error("a spread of a thousand is drawn on an even axis")
	}
}

func TestCurvesAreListedFromTheFastest(t *testing.T) {
	r := New("", []Figures{straight("slow", 500, 900), straight("ours", 10, 30), straight("middling", 50, 90)})
	svg := string(r.curves().SVG)
	ours, middling, slow := strings.Index(svg, ">ours</text>"), strings.Index(svg, ">middling</text>"), strings.Index(svg, ">slow</text>")
	if ours <= 0 || ours >= middling || middling >= slow {
		t.Errorf("ours at %d, middling at %d, slow at %d", ours, middling, slow)
	}
	if !strings.Contains(svg, "Medians: slow 700 ms, ours 20.0 ms, middling 70.0 ms.") {
		t.Errorf("the description doesn't tell the medians:\n%.600s", svg)
	}
}

func TestCurveAtIsTheMeanOfSeeds(t *testing.T) {
	runs := []Figures{straight("ours", 100, 100), straight("ours", 300, 300), {Policy: "ours"}}
	if got := curveAt(runs, 7); got != 200 {
		t.Errorf("%v, want 200: the mean of those that have a curve", got)
	}
	if got := curveAt(runs[2:], 7); got != 0 {
		t.Errorf("%v of no curve", got)
	}
}

func TestForestTellsEveryBaseline(t *testing.T) {
	p := pictureOf(t, golden(), "Change by choosing ours")
	text := html.UnescapeString(string(p.SVG))
	for _, want := range []string{
		"Instead of round-robin: TTFT P50 −73 % [−73, −73]", "Instead of prefix-hash: TTFT P50 −39 % [−44, −35]",
		"prefix-hash, P99: −43 % [−49, −36]",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it doesn't say %q", want)
		}
	}
	if strings.Contains(text, "Instead of oracle") {
		t.Error("the oracle is no baseline")
	}
}

// A figure of 0 has no relative change; the chart shows the others.
func TestForestWithoutARelativeChange(t *testing.T) {
	r := report(3, as("rr", func(p *policy) { p.p50 = 0 }), usualOurs)
	p := r.forest()
	if strings.Contains(string(p.SVG), "NaN") || !strings.Contains(string(p.SVG), "rr, P95") || strings.Contains(string(p.SVG), "rr, P50") {
		t.Errorf("%s", p.SVG)
	}
}

func TestBarsSayWhichWayIsBetter(t *testing.T) {
	r := golden()
	if p := pictureOf(t, r, "Goodput within the objectives"); !strings.HasPrefix(p.Caption, "More is better.") {
		t.Error(p.Caption)
	}
	if p := pictureOf(t, r, "Cost of the fleet per whole answer"); !strings.HasPrefix(p.Caption, "Less is better.") {
		t.Error(p.Caption)
	}
}

func TestPodsByTheirFairShare(t *testing.T) {
	runs := []Figures{{Policy: "ours", Clusters: []Cluster{{Name: "a", Pods: []Pod{
		{Class: "h100", Share: 0.75, Served: 3},
		{Class: "h100", Share: 0.25, Served: 1},
		{Class: "l40s", Share: 1, Served: 1},
		{Class: "h100", Share: stat.Unknown},
	}}}}}
	for pod, want := range []float64{1.5, 0.5, 1, math.NaN()} {
		if got := overFair(runs, "a", pod); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("pod %d: %v, want %v", pod, got, want)
		}
	}
	if got := overFair(runs, "b", 0); !math.IsNaN(got) {
		t.Errorf("a pod that isn't there: %v", got)
	}
	svg := string(New("", runs).pods().SVG)
	if !strings.Contains(svg, "ours, a, pod 0: 1.50 × its fair share") {
		t.Errorf("the column isn't told:\n%s", svg)
	}
}

func TestTooManyPodsHaveNoColumns(t *testing.T) {
	many := func(n int) *Report {
		c := Cluster{Name: "a"}
		for range n {
			c.Pods = append(c.Pods, Pod{Share: stat.Number(1 / float64(n))})
		}
		return New("", []Figures{{Policy: "ours", Clusters: []Cluster{c}}})
	}
	for n, want := range map[int]bool{1: false, 2: true, maxColumns: true, maxColumns + 1: false} {
		if got := many(n).pods().SVG != ""; got != want {
			t.Errorf("%d pods: %v, want %v", n, got, want)
		}
	}
}

func timed(policy string, waiting, queue []stat.Number) Figures {
	l := &Timeline{Waiting: waiting, Queue: queue}
	for i := range waiting {
		l.Seconds = append(l.Seconds, stat.Number(i+1))
	}
	return Figures{Policy: policy, Timeline: l}
}

func TestWaitingIsThatOfPodsAndRouters(t *testing.T) {
	r := New("", []Figures{
		timed("a", []stat.Number{1, 2}, []stat.Number{10, 20}),
		timed("ours", []stat.Number{30, 50}, nil),
	})
	p := r.line(overTime[0])
	if want := "a 16.5 on average and 22 at most; ours 40 on average and 50 at most."; !strings.Contains(string(p.SVG), want) {
		t.Errorf("it doesn't say %q:\n%s", want, p.SVG)
	}
	if a, ours := strings.Index(string(p.SVG), ">a</text>"), strings.Index(string(p.SVG), ">ours</text>"); ours > a {
		t.Error("the list runs down as the lines do: ours waits longer")
	}
}

func TestWhatIsAlwaysTheSameHasNoChart(t *testing.T) {
	r := New("", []Figures{timed("a", []stat.Number{5, 5, 5}, nil), timed("ours", []stat.Number{5, 5, 5}, nil)})
	if p := r.line(overTime[0]); p.SVG != "" {
		t.Error("a chart of nothing but 5")
	}
}

func TestWeightsAreStackedByRegion(t *testing.T) {
	f := timed("ours", []stat.Number{1, 2}, nil)
	for _, from := range []string{"us", "eu"} {
		for i, to := range []string{"a", "b"} {
			f.Timeline.Weights = append(f.Timeline.Weights, Weight{from, to, []stat.Number{0.5, stat.Number(0.25 + 0.5*float64(i))}})
		}
	}
	pictures := New("", []Figures{f}).weights()
	if len(pictures) != 2 || pictures[0].Heading != "Weights of ours in us" || pictures[1].Heading != "Weights of ours in eu" {
		t.Fatalf("%d pictures", len(pictures))
	}
	if svg := string(pictures[1].SVG); !strings.Contains(svg, "at the end: a 25 %. b 75 %.") || strings.Count(svg, "layer") != 2 {
		t.Errorf("%s", svg)
	}
	if strings.Contains(string(pictures[0].SVG), `id="weights-1-t"`) {
		t.Error("two charts have the same id")
	}
}

func TestRounded(t *testing.T) {
	for x, want := range map[float64]float64{0: 0, 1234: 1230, 0.012345: 0.0123, 99.99: 100, -5678: -5680} {
		if got := rounded(x); math.Abs(got-want) > 1e-9*math.Abs(want) {
			t.Errorf("%v: %v, want %v", x, got, want)
		}
	}
	if !math.IsNaN(rounded(math.NaN())) {
		t.Error("NaN is no number, rounded or not")
	}
}

// Many policies still have their own look, and the page holds them all.
func TestPictureOfMany(t *testing.T) {
	var runs []Figures
	for i := range 14 {
		f := straight(fmt.Sprintf("policy-%d", i), 10+float64(i), 1000)
		runs = append(runs, f)
	}
	svg := string(New("", runs).curves().SVG)
	for i := range 14 {
		if !strings.Contains(svg, fmt.Sprintf(">policy-%d</text>", i)) {
			t.Errorf("policy %d has no name", i)
		}
	}
	if strings.Count(svg, "stroke-dasharray") == 0 {
		t.Error("colours that come again have no other dash")
	}
}
