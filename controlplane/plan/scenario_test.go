package plan

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"anabranch/controlplane/policy"
	"anabranch/failover"
)

// TestScenarios plays the stories of testdata/*.txt: the leader plans each second, fluids stand in for the
// clusters, and what is in force at which second is compared with what the file expects.
//
//	region NAME [OTHER=RTT_MS …]           cluster NAME in REGION does WORK [SPEC, YAML]
//	KIND NAME {SPEC, YAML}                 telemetry every 1s late 5s
//	ask REGION WORK [over 60s]             ask REGION WORK or WORK every 2s
//	does CLUSTER WORK [or WORK every 2s]   claims CLUSTER WORK (0: the truth)
//	silent REGION                          heard REGION
//	REGION asks as CLASS                   tiers TIER PART [TIER PART …] (of all demand, and routers obey what is shed)
//	lose REGION (its clusters are evacuated; its clients go on asking)
//
// each at the beginning, or with "at 60s " before it. What is expected, at a moment (60s) or all through a
// span (60s..90s):
//
//	expect 60s SOURCE to REGION|CLUSTER 0.70 within 0.03
//	expect 60s..90s SOURCE to REGION|CLUSTER from 0.1 to 0.3
//	expect 60s..90s SOURCE to REGION|CLUSTER swings at most 0.05
//	expect 60s..90s SOURCE to REGION|CLUSTER turns at most 2
//	expect 60s..90s load CLUSTER at most 1.0
//	expect 60s..90s wait CLUSTER at most 300 (ms)
//	expect 60s..90s shed SOURCE TIER from 0.1 to 0.3
//	expect 60s reason SOURCE CLUSTER TEXT
//	expect 60s why SOURCE TEXT
//
// Under the race detector the long ones are only read.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 14 {
		t.Fatalf("found %d scenarios, error %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := parse(t, string(text))
			if len(s.expects) == 0 {
				t.Fatal("nothing is expected")
			}
			if racing && s.end > longest {
				return
			}
			p := s.play(t)
			for _, e := range s.expects {
				if problem := p.judge(e); problem != "" {
					t.Errorf("%s..%s %s: %s", e.at, e.until, strings.Join(e.words, " "), problem)
				}
			}
			if t.Failed() {
				t.Log(p.timeline())
			}
		})
	}
}

// longest is how long a story may last to be played under the race detector.
const longest = 4 * time.Minute

// story is a scenario as it is written.
type story struct {
	steps   []step // by time
	expects []step
	end     time.Duration
}

// step is a line from a time on, or until a later one.
type step struct {
	at, until time.Duration
	words     []string
	line      string
}

func parse(t testing.TB, text string) story {
	t.Helper()
	var s story
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		x := step{words: words, line: strings.TrimSpace(line)}
		if words[0] == "at" || words[0] == "expect" {
			from, to, span := strings.Cut(words[1], "..")
			x.at = duration(t, from)
			if x.until = x.at; span {
				x.until = duration(t, to)
			}
			_, x.line, _ = strings.Cut(x.line, words[1])
			x.words, x.line = words[2:], strings.TrimSpace(x.line)
			s.end = max(s.end, x.until)
		}
		if words[0] == "expect" {
			s.expects = append(s.expects, x)
		} else {
			s.steps = append(s.steps, x)
		}
	}
	slices.SortStableFunc(s.steps, func(a, b step) int { return int(a.at - b.at) })
	return s
}

func duration(t testing.TB, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// play runs the story to its end.
func (s story) play(t testing.TB) *play {
	t.Helper()
	p := &play{
		bench: emptyBench(t), fluids: map[string]*fluid{}, ask: map[string]float64{}, ramps: map[string]ramp{},
		flips: map[string]flip{}, silent: map[string]bool{}, lost: map[string]time.Time{}, class: map[string]string{}, every: time.Second,
	}
	p.health = map[failover.Place]failover.Cluster{}
	p.write("Model", "m", "{}")
	for len(s.steps) > 0 && s.steps[0].at == 0 {
		p.apply(s.steps[0])
		s.steps = s.steps[1:]
	}
	p.plan() // the first table knows of no signals
	for p.at() < s.end {
		for len(s.steps) > 0 && s.steps[0].at <= p.at() {
			p.apply(s.steps[0])
			s.steps = s.steps[1:]
		}
		p.tick()
	}
	return p
}

// apply does what a line says.
func (p *play) apply(x step) {
	p.t.Helper()
	w := x.words
	number := func(i int) float64 {
		v, err := strconv.ParseFloat(w[i], 64)
		if err != nil {
			p.t.Fatalf("%s: %v", x.line, err)
		}
		return v
	}
	_, spec, _ := strings.Cut(x.line, "{")
	spec = "{" + spec
	switch {
	case w[0] == "region":
		var rtts []string
		for _, other := range w[2:] {
			rtts = append(rtts, strings.Replace(other, "=", ": ", 1))
		}
		p.write("Region", w[1], fmt.Sprintf("{zone: %s, peerURLs: [https://%s:1], rttMs: {%s}}", w[1], w[1], strings.Join(rtts, ", ")))
	case w[0] == "cluster":
		more := []string(nil)
		if strings.HasPrefix(spec, "{ ") || len(spec) > 1 {
			more = strings.Split(strings.Trim(spec, "{}"), ";")
		}
		p.cluster(w[1], w[3], number(5), more...)
		p.fluids[w[1]] = &fluid{region: w[3], does: number(5), warm: map[string]float64{}}
		if x.at == 0 { // it has been there for long
			p.fluids[w[1]].warm[w[3]] = 1
		}
	case w[0] == "telemetry":
		p.every, p.late = duration(p.t, w[2]), duration(p.t, w[4])
	case w[0] == "ask":
		delete(p.flips, w[1])
		delete(p.ramps, w[1])
		switch {
		case len(w) == 3:
			p.ask[w[1]] = number(2)
		case w[3] == "over":
			p.ramps[w[1]] = ramp{number(2), (number(2) - p.ask[w[1]]) / duration(p.t, w[4]).Seconds()}
		default:
			p.flips[w[1]] = flip{number(2), number(4), duration(p.t, w[6])}
			p.ask[w[1]] = number(2)
		}
	case w[0] == "does":
		f := p.fluids[w[1]]
		if f.does, f.every = number(2), 0; len(w) > 3 {
			f.other, f.every = number(4), duration(p.t, w[6])
		}
	case w[0] == "claims":
		p.fluids[w[1]].claims = number(2)
	case w[0] == "tiers":
		p.tiers = map[int32]float64{}
		for i := 1; i < len(w); i += 2 {
			p.tiers[policy.TierPriority(w[i])] = number(i + 1)
		}
	case w[0] == "lose":
		p.lost[w[1]] = p.now
	case w[0] == "silent" || w[0] == "heard":
		p.silent[w[1]] = w[0] == "silent"
	case len(w) == 4 && w[1] == "asks":
		p.class[w[0]] = w[3]
	case strings.Contains(x.line, "{"):
		p.write(w[0], w[1], spec)
	default:
		p.t.Fatalf("%q says nothing", x.line)
	}
}

// judge says what is not as expected, or "".
func (p *play) judge(x step) string {
	w := x.words
	number := func(i int) float64 {
		v, err := strconv.ParseFloat(w[i], 64)
		if err != nil {
			p.t.Fatalf("%s: %v", x.line, err)
		}
		return v
	}
	seconds := p.record[int(x.at.Seconds())-1 : int(x.until.Seconds())]
	switch w[0] {
	case "load", "wait":
		most, at := 0.0, 0
		for i, s := range seconds {
			v := s.load[w[1]]
			if w[0] == "wait" {
				v = s.ttft[w[1]]
			}
			if v > most {
				most, at = v, i
			}
		}
		if most > number(4) {
			return fmt.Sprintf("is %.3g at %ds", most, int(x.at.Seconds())+at)
		}
		return ""
	case "reason", "why":
		for i, s := range seconds {
			got, want := s.why[w[1]], strings.Join(w[2:], " ")
			if w[0] == "reason" {
				got, want = s.reasons[w[1]][w[2]], strings.Join(w[3:], " ")
			}
			if !strings.Contains(got, want) {
				return fmt.Sprintf("is %q at %ds", got, int(x.at.Seconds())+i)
			}
		}
		return ""
	}
	var line []float64
	for _, s := range seconds {
		if w[0] == "shed" {
			line = append(line, s.shed[w[1]][policy.TierPriority(w[2])])
			continue
		}
		line = append(line, shareOf(s.shares[w[0]], w[2]))
	}
	low, high := slices.Min(line), slices.Max(line)
	switch w[3] {
	case "from":
		if low < number(4)-quantum/2 || high > number(6)+quantum/2 {
			return fmt.Sprintf("goes from %.4f to %.4f", low, high)
		}
	case "swings":
		if high-low > number(6) {
			return fmt.Sprintf("swings by %.4f, from %.4f to %.4f", high-low, low, high)
		}
	case "turns":
		if n := turns(line); n > int(number(6)) {
			return fmt.Sprintf("turns %d times", n)
		}
	default:
		if want, within := number(3), number(5); low < want-within || high > want+within {
			return fmt.Sprintf("goes from %.4f to %.4f", low, high)
		}
	}
	return ""
}

// shareOf is that of a cluster, or of all of a region.
func shareOf(shares map[string]float64, name string) float64 {
	if x, ok := shares[name]; ok {
		return x
	}
	return region(shares, name)
}

// turns counts how often a line changes its direction.
func turns(line []float64) int {
	n, way := 0, 0.0
	for i := 1; i < len(line); i++ {
		d := line[i] - line[i-1]
		if d > -quantum/2 && d < quantum/2 {
			continue
		}
		if d*way < 0 {
			n++
		}
		way = d
	}
	return n
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// timeline tells the run in a line for every ten seconds in which something changed: shares in percent by
// source and region, and of clusters the load in percent of what they do and the wait in ms.
func (p *play) timeline() string {
	var b strings.Builder
	last := ""
	for i := 9; i < len(p.record); i += 10 {
		s, line := p.record[i], ""
		for _, source := range sortedKeys(s.shares) {
			line += "  " + source + ":"
			for _, to := range sortedKeys(s.shares) {
				line += fmt.Sprintf(" %5.1f", 100*shareOf(s.shares[source], to))
			}
		}
		for _, c := range sortedKeys(s.load) {
			line += fmt.Sprintf("  %s %.0f/%.0f", c, 100*s.load[c], s.ttft[c])
		}
		for _, source := range sortedKeys(s.shed) {
			for _, priority := range slices.Sorted(maps.Keys(s.shed[source])) {
				line += fmt.Sprintf("  %s sheds %.0f%% of %s", source, 100*s.shed[source][priority], tierName(priority))
			}
		}
		if line != last {
			fmt.Fprintf(&b, "\n%5ds%s", i+1, line)
		}
		last = line
	}
	return b.String()
}
