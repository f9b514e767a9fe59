package plan

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/signal"
)

// hour is a story of one cluster, us-a, whose replicas are advised each ten seconds.
type hour struct {
	*bench
	calm      Calm
	outlook   Outlook
	work      float64 // that one replica does
	silent    bool
	noise     float64
	from, to  float64 // demand, on its way between
	at, until time.Duration
	dice      uint64
	follows   time.Duration
	replicas  int
	told      []told
}

type told struct {
	at             time.Duration
	needed, wanted int
}

// TestAdviceOverTime plays the stories of testdata/advice.
func TestAdviceOverTime(t *testing.T) {
	files, err := filepath.Glob("testdata/advice/*.txt")
	if err != nil || len(files) < 4 {
		t.Fatalf("found %d stories, error %v", len(files), err)
	}
	if racing { // see there
		files = files[:1]
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			h := &hour{bench: newBench(t)}
			for _, c := range []string{"us-a", "us-b", "eu-a", "eu-b", "ap-a", "ap-b"} {
				h.remove("Cluster", c)
			}
			var expected [][]string
			changes, last := map[time.Duration][][]string{}, time.Duration(0)
			for line := range strings.Lines(string(text)) {
				line, _, _ = strings.Cut(line, "#")
				words := strings.Fields(line)
				switch {
				case len(words) == 0:
				case words[0] == "objective":
					h.write("TrafficPolicy", "p", "models: [m]\n  ttftObjectiveMs: "+words[1])
				case words[0] == "follows":
					h.follows = duration(t, words[2])
				case words[0] == "us-a":
					h.replicas, h.work = int(h.number(words[2])), h.number(words[5])
				case words[0] == "expect":
					expected = append(expected, words[1:])
					_, to, _ := strings.Cut(words[1], "..")
					last = max(last, duration(t, to))
				default:
					at := duration(t, words[0])
					changes[at] = append(changes[at], words[1:])
				}
			}
			h.play(changes, last)
			for _, e := range expected {
				if problem := h.judge(e); problem != "" {
					t.Errorf("%s: %s", strings.Join(e, " "), problem)
				}
			}
			if t.Failed() {
				for _, x := range h.told[:min(len(h.told), 400)] {
					t.Logf("%s needed %d wanted %d", x.at, x.needed, x.wanted)
				}
			}
		})
	}
}

func (h *hour) number(text string) float64 {
	h.t.Helper()
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		h.t.Fatal(err)
	}
	return x
}

func (h *hour) play(changes map[time.Duration][][]string, last time.Duration) {
	size := func() {
		h.bench.replicas("us-a", "us", h.replicas)
		h.capacity["us-a"] = h.work * float64(h.replicas)
	}
	size()
	for at := time.Duration(0); at <= last; at += time.Second {
		for _, words := range changes[at] {
			h.change(at, words)
		}
		h.now = h.now.Add(time.Second)
		if !h.silent {
			h.hear(at)
		}
		if at%(10*time.Second) != 0 || at == 0 {
			continue
		}
		in := h.input()
		h.outlook.See(in)
		a := advised(in, CapacityOptions{Outlook: &h.outlook, Calm: &h.calm})[0].Clusters[0]
		h.told = append(h.told, told{at, a.Needed, a.Wanted})
		if h.follows > 0 {
			for _, x := range h.told {
				if x.at == at-h.follows && x.wanted != h.replicas {
					h.replicas = x.wanted
					size()
				}
			}
		}
	}
}

func (h *hour) change(at time.Duration, words []string) {
	switch words[0] {
	case "silent", "heard":
		h.silent = words[0] == "silent"
	case "ask":
		h.from, h.to, h.at, h.until, h.noise = h.asked(at), h.number(words[1]), at, at, 0
		for i := 2; i+1 < len(words); i += 2 {
			if words[i] == "over" {
				h.until = at + duration(h.t, words[i+1])
			} else {
				h.noise = h.number(words[i+1])
			}
		}
	default:
		h.t.Fatalf("%q is not known", words)
	}
}

// asked is the demand, noise apart.
func (h *hour) asked(at time.Duration) float64 {
	if at >= h.until {
		return h.to
	}
	return h.from + (h.to-h.from)*float64(at-h.at)/float64(h.until-h.at)
}

// hear makes the routers report a second.
func (h *hour) hear(at time.Duration) {
	h.dice = h.dice*6364136223846793005 + 1442695040888963407
	random := float64(h.dice>>11) / (1 << 53) // 0..1
	work := h.asked(at) * (1 + h.noise*(2*random-1))
	h.signals.Put(signal.Observation{
		Node: "n1", Hello: &routerpb.Hello{RouterId: "r-us", Region: "us"}, Received: h.now, Connected: true,
		Report: &routerpb.Report{
			AtUnixMs: h.now.UnixMilli(), WindowMs: 1000,
			Clusters: []*routerpb.ClusterSignal{{
				Cluster: "us-a", Model: "m", Scraped: true, EndpointsTotal: uint32(h.replicas), EndpointsReady: uint32(h.replicas), CapacityWork: h.capacity["us-a"],
			}},
			Demand: []*routerpb.DemandSignal{{Model: "m", Class: "interactive", WorkPerS: work}},
		},
	})
}

// judge compares what was told with what is expected, and says what is wrong.
func (h *hour) judge(words []string) string {
	from, to, _ := strings.Cut(words[0], "..")
	var changes, turns, short, way int
	least, most := 1<<30, 0
	before := -1
	for _, x := range h.told {
		if x.at < duration(h.t, from) || x.at > duration(h.t, to) {
			continue
		}
		is := x.wanted
		if words[1] == "needed" {
			is = x.needed
		}
		if x.wanted < x.needed {
			short++
		}
		least, most = min(least, is), max(most, is)
		if before >= 0 && is != before {
			changes++
			up := 1
			if is < before {
				up = -1
			}
			if way == -up {
				turns++
			}
			way = up
		}
		before = is
	}
	if words[1] == "short" {
		if short > int(h.number(words[4])) {
			return fmt.Sprintf("%d times", short)
		}
		return ""
	}
	switch words[2] {
	case "from":
		if low, high := int(h.number(words[3])), int(h.number(words[5])); least < low || most > high {
			return fmt.Sprintf("from %d to %d", least, most)
		}
	case "changes", "turns":
		n := changes
		if words[2] == "turns" {
			n = turns
		}
		if bound := int(h.number(words[5])); words[4] == "most" && n > bound || words[4] == "least" && n < bound {
			return fmt.Sprintf("%d", n)
		}
	default:
		return "is not understood"
	}
	h.t.Logf("%s: %d changes, %d turns, from %d to %d", strings.Join(words, " "), changes, turns, least, most)
	return ""
}

func TestWhoHasJustBegunToWatchLowersNothing(t *testing.T) {
	b := scaled(t)
	b.ask("us", 1000)
	b.report()
	var calm Calm
	for range 30 {
		if a := b.advice(CapacityOptions{Calm: &calm}).at(t, "us-a"); a.Wanted != 8 || a.Needed != 2 || !strings.Contains(strings.Join(a.Reasons, "; "), "2 would do now") && len(a.Reasons) > 1 {
			t.Fatalf("%+v", a)
		}
		b.report() // 100 s
		b.now = b.now.Add(-91 * time.Second)
	}
}

func TestALossThatMustBeSurvivedIsRememberedApart(t *testing.T) {
	b := scaled(t)
	b.ask("us", 5000)
	b.report()
	var calm Calm
	all := func(survive string) ClusterAdvice {
		return b.advice(CapacityOptions{Calm: &calm, Survive: survive}).at(t, "eu-a")
	}
	if a := all("none"); a.Wanted != 4 {
		t.Errorf("for now %+v", a)
	}
	if a := all("region"); a.Wanted != 11 {
		t.Errorf("for the loss of us %+v", a)
	}
	if a := all("none"); a.Wanted != 4 {
		t.Errorf("for now again %+v", a)
	}
}

func TestTheOutlook(t *testing.T) {
	b := scaled(t)
	var o Outlook
	see := func(seconds int, from, to float64) {
		for i := range seconds {
			b.ask("us", from+(to-from)*float64(i)/float64(seconds))
			b.now = b.now.Add(time.Second)
			b.reportFrom("us")
			if i%10 == 0 {
				o.See(b.input())
			}
		}
	}
	d := func(peak bool) DemandOutlook { return b.advice(CapacityOptions{Outlook: &o, Peak: peak}).Demand }
	see(600, 3000, 3000)
	if x := d(false); x.Basis != BasisRise || !within(x.NowPerS, 3000, 1) || x.RisePerS > 1 || !within(x.CountedPerS, 3000, 1) || !within(x.PeakPerS, 3000, 1) {
		t.Errorf("steady: %+v", x)
	}
	see(600, 3000, 6000) // 300 a minute
	if x := d(false); !within(x.RisePerS, 600, 60) || x.CountedPerS != x.NowPerS+x.RisePerS {
		t.Errorf("rising: %+v", x)
	}
	see(600, 6000, 1000)
	if x := d(false); x.RisePerS != 0 || x.CountedPerS != x.NowPerS || x.PeakPerS < 5800 {
		t.Errorf("falling: %+v", x)
	}
	if x := d(true); x.CountedPerS != x.PeakPerS || x.Basis != BasisPeak {
		t.Errorf("at its peak: %+v", x)
	}
	see(61*60, 1000, 1000)
	if x := d(true); !within(x.PeakPerS, 1000, 40) {
		t.Errorf("an hour later: %+v", x)
	}
	if n := len(o.streams); n != 1 {
		t.Errorf("%d demands are remembered", n)
	}
	see(70*60, 0, 0)
	if n := len(o.streams); n != 0 {
		t.Errorf("%d demands are remembered after an hour of none", n)
	}
	if x := advised(b.input(), CapacityOptions{Model: "m"})[0].Demand; x.Basis != BasisNow {
		t.Errorf("without an outlook: %+v", x)
	}
}

func TestARegionThatWasHeardIsMissed(t *testing.T) {
	b := scaled(t)
	var o Outlook
	b.report()
	o.See(b.input())
	if why := b.input().held(&o); why != "" {
		t.Errorf("held: %s", why)
	}
	for range 11 * 60 { // signals have forgotten eu by then
		b.now = b.now.Add(time.Second)
		b.reportFrom("us")
		b.reportFrom("ap")
	}
	o.See(b.input())
	if why := b.input().held(&o); !strings.Contains(why, "no fresh report from eu") {
		t.Errorf("held: %q", why)
	}
	if why := b.input().held(nil); why != "" {
		t.Errorf("nobody remembers: %q", why)
	}
	for range 50 * 60 {
		b.now = b.now.Add(time.Second)
		b.reportFrom("us")
		b.reportFrom("ap")
	}
	o.See(b.input())
	if why := b.input().held(&o); why != "" {
		t.Errorf("an hour later: %s", why)
	}
}

// While the number of replicas has just changed, one does what it did: what was measured is of as many as there were.
func TestMeasurementsAreBehindNewReplicas(t *testing.T) {
	var c Calm
	start := time.Unix(1000, 0)
	for _, step := range []struct {
		after    time.Duration
		replicas int
		work     float64 // of one, as measured
		want     float64
	}{
		{0, 5, 1000, 1},
		{time.Minute, 5, 800, 1},
		{time.Minute, 10, 400, 2},
		{time.Minute, 10, 500, 1.6},
		{2*time.Minute - time.Second, 10, 10, 10},
		{time.Second, 10, 790, 1},
		{time.Minute, 2, 3950, 0.2},
		{time.Minute, 2, 0, 1},
	} {
		start = start.Add(step.after)
		if got := c.lag(start, "a", step.replicas, step.work); got != step.want {
			t.Errorf("%d replicas of %g each: behind by %g, want %g", step.replicas, step.work, got, step.want)
		}
	}
}
