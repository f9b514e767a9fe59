package failover

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
)

// A scenario is a timeline. Time passes in steps of one second; what stands at a time holds before
// that second's look at the evidence, and what is expected holds after it.
//
//	scale 0.1                                      TimeScale, default 1
//	clusters                                       one line each: name or name/model, region, capacity
//	routers REGION… NAME@REGION…                   one router in each, or further ones by name
//	5s  us: us-a ready 3/4 requests 200 failures 7 saturation 0.9 ttft 3s
//	5s  eu: us-a ejected "reason"                  a router's words hold until it says others
//	5s  eu: us-a requests 20                       (a remote router that gets answers)
//	5s  us silent | us back
//	5s  skew us-a 500ms                            of the worst clock before it
//	5s  builds us-a 2                              of the routers before it
//	5s  lacks us-a legal-lora,support-lora         adapters that are not there; "nothing" for none
//	5s  operator drains us-a | operator restores us-a
//	5s  operator pins us-a 40% 60s | operator unpins us-a
//	5s  expect us-a STATE CAP% "part of the reason"
//
// A cluster is quiet, that is, gets no new requests, as soon as its cap is 0.
type scenario struct {
	t      *testing.T
	cfg    Config
	ids    []Place
	in     map[Place]Evidence
	states map[Place]Cluster
	home   map[string]fleet.RegionID // by router
	silent map[fleet.RouterID]time.Time
	clock  time.Time
}

type line struct {
	number int
	at     time.Duration
	words  []string
}

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 10 {
		t.Fatalf("found %d scenarios (%v)", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := scenario{
				t:      t,
				in:     map[Place]Evidence{},
				states: map[Place]Cluster{},
				home:   map[string]fleet.RegionID{},
				silent: map[fleet.RouterID]time.Time{},
			}
			s.run(s.parse(string(text)))
		})
	}
}

func (s *scenario) parse(text string) []line {
	var lines []line
	for i, raw := range strings.Split(text, "\n") {
		raw, _, _ = strings.Cut(raw, "#")
		words := split(raw)
		if len(words) == 0 {
			continue
		}
		if at, err := time.ParseDuration(words[0]); err == nil {
			lines = append(lines, line{i + 1, at, words[1:]})
			continue
		}
		switch words[0] {
		case "clusters":
		case "scale":
			s.cfg.TimeScale = s.number(i+1, words[1])
		case "routers":
			for _, r := range words[1:] {
				name, region, found := strings.Cut(r, "@")
				if !found {
					region = name
				}
				s.home[name] = fleet.RegionID(region)
			}
		default:
			if len(words) != 3 {
				s.t.Fatalf("line %d: want a cluster's name, region and capacity, got %q", i+1, words)
			}
			id := place(words[0])
			s.ids = append(s.ids, id)
			s.in[id] = Evidence{
				Region:    fleet.RegionID(words[1]),
				Capacity:  s.number(i+1, words[2]),
				Objective: 2 * time.Second,
			}
		}
	}
	return lines
}

// split is strings.Fields, but keeps "quoted text" together.
func split(s string) []string {
	var words []string
	for i, part := range strings.Split(s, `"`) {
		if i%2 == 1 {
			words = append(words, part)
			continue
		}
		words = append(words, strings.Fields(part)...)
	}
	return words
}

func (s *scenario) number(n int, word string) float64 {
	v, err := strconv.ParseFloat(word, 64)
	if err != nil {
		s.t.Fatalf("line %d: %v", n, err)
	}
	return v
}

func (s *scenario) run(lines []line) {
	start := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	slices.SortStableFunc(lines, func(a, b line) int { return int(a.at - b.at) })
	var expected int
	for at := time.Duration(0); len(lines) > 0; at += time.Second {
		s.clock = start.Add(at)
		var expect []line
		for len(lines) > 0 && lines[0].at <= at {
			if lines[0].words[0] == "expect" {
				expect = append(expect, lines[0])
			} else {
				s.say(lines[0])
			}
			lines = lines[1:]
		}
		s.tick()
		for _, l := range expect {
			s.expect(l)
			expected++
		}
	}
	if expected == 0 {
		s.t.Fatal("the scenario expects nothing")
	}
}

func (s *scenario) tick() {
	for _, id := range s.ids {
		in := s.in[id]
		in.Quiet = s.states[id].Cap() == 0 && s.states[id].State != ""
		in.Sights = slices.Clone(in.Sights)
		for i := range in.Sights {
			if since, ok := s.silent[in.Sights[i].Router]; ok {
				in.Sights[i].Age = s.clock.Sub(since)
			}
		}
		s.in[id] = in
	}
	before := s.states
	var changes []Transition
	s.states, changes = StepAll(before, s.in, func(Place) Config { return s.cfg }, s.clock)
	for _, c := range changes {
		if c.From == c.To || before[c.Place].State != c.From && before[c.Place].State != "" ||
			s.states[c.Place].State != c.To || c.Reason == "" || !c.At.Equal(s.clock) {
			s.t.Errorf("transition %+v does not tell what happened to %+v", c, before[c.Place])
		}
	}
}

func (s *scenario) say(l line) {
	w := l.words
	router, speaks := strings.CutSuffix(w[0], ":")
	switch {
	case speaks:
		s.report(l, router)
	case len(w) == 2 && w[1] == "silent":
		s.silent[fleet.RouterID(w[0])] = s.clock
	case len(w) == 2 && w[1] == "back":
		delete(s.silent, fleet.RouterID(w[0]))
	case len(w) >= 3 && w[0] == "operator":
		s.operate(l, w[1], place(w[2]), w[3:])
	case len(w) == 3 && w[0] == "lacks":
		in := s.in[place(w[1])]
		if in.MissingAdapters = nil; w[2] != "nothing" {
			in.MissingAdapters = strings.Split(w[2], ",")
		}
		s.in[place(w[1])] = in
	case len(w) == 3 && (w[0] == "skew" || w[0] == "builds"):
		in := s.in[place(w[1])]
		if w[0] == "builds" {
			in.Versions = int(s.number(l.number, w[2]))
		} else if d, err := time.ParseDuration(w[2]); err != nil {
			s.t.Fatalf("line %d: %v", l.number, err)
		} else {
			in.Skew = d
		}
		s.in[place(w[1])] = in
	default:
		s.t.Fatalf("line %d: unknown statement %q", l.number, w)
	}
}

// operate is what an operator does to a place.
func (s *scenario) operate(l line, act string, at Place, with []string) {
	in := s.in[at]
	switch {
	case act == "drains" || act == "restores":
		in.Drained = act == "drains"
	case act == "unpins":
		in.Pin = Pin{}
	case act == "pins" && len(with) == 2:
		lasts, err := time.ParseDuration(with[1])
		if err != nil {
			s.t.Fatalf("line %d: %v", l.number, err)
		}
		in.Pin = Pin{Until: s.clock.Add(lasts), Share: s.number(l.number, strings.TrimSuffix(with[0], "%")) / 100}
	default:
		s.t.Fatalf("line %d: an operator can't do %q", l.number, act)
	}
	s.in[at] = in
}

func (s *scenario) report(l line, router string) {
	region, ok := s.home[router]
	if !ok {
		s.t.Fatalf("line %d: no router %q", l.number, router)
	}
	id := place(l.words[1])
	in, ok := s.in[id]
	if !ok {
		s.t.Fatalf("line %d: no cluster %q", l.number, id)
	}
	sight := Sight{Router: fleet.RouterID(router), Region: region, Own: region == in.Region}
	for w := l.words[2:]; len(w) > 1; w = w[2:] {
		switch w[0] {
		case "ready":
			sight.Scraped = true
			if _, err := fmt.Sscanf(w[1], "%d/%d", &sight.Ready, &sight.Total); err != nil {
				s.t.Fatalf("line %d: %v", l.number, err)
			}
		case "requests":
			sight.Requests = uint64(s.number(l.number, w[1]))
		case "failures":
			sight.Failures = uint64(s.number(l.number, w[1]))
		case "saturation":
			sight.Saturation = s.number(l.number, w[1])
		case "ttft":
			d, err := time.ParseDuration(w[1])
			if err != nil {
				s.t.Fatalf("line %d: %v", l.number, err)
			}
			sight.TTFTP95 = d
		case "ejected":
			sight.Ejected, sight.Reason = true, w[1]
		default:
			s.t.Fatalf("line %d: unknown word %q", l.number, w[0])
		}
	}
	in.Sights = slices.DeleteFunc(slices.Clone(in.Sights), func(x Sight) bool { return x.Router == sight.Router })
	in.Sights = append(in.Sights, sight)
	s.in[id] = in
}

func (s *scenario) expect(l line) {
	id := place(l.words[1])
	c, ok := s.states[id]
	if !ok {
		s.t.Fatalf("line %d: no cluster %q", l.number, id)
	}
	got := fmt.Sprintf("%s %g%%", c.State, 100*c.Cap())
	if want := strings.Join(l.words[2:4], " "); got != want {
		s.t.Errorf("line %d: at %s %s is %s, want %s (reason: %s)", l.number, l.at, id, got, want, c.Reason)
	}
	if len(l.words) > 4 && !strings.Contains(c.Reason, l.words[4]) {
		s.t.Errorf("line %d: at %s %s gives the reason %q, want %q in it", l.number, l.at, id, c.Reason, l.words[4])
	}
}
