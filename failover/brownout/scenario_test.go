package brownout

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// stage is a scenario under way: what a router sees, and where the ladder stands.
type stage struct {
	t      *testing.T
	every  time.Duration
	config Config
	signs  Signs
	// other is the second of two saturations that take turns; flip 0: there is only one.
	other  float64
	flip   time.Duration
	since  time.Duration
	ladder Ladder
}

// TestScenarios plays the stories of testdata/*.txt:
//
//	look every 1s              saturation X|unknown|+Inf [or X every 4s]     waiting | served     shed | kept
//	config [off] [enterAt=X leaveAt=X enter=5s leave=30s]
//
// each at the beginning, or with "at 60s " before it, and "expect 60s|60s..90s step N".
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 10 {
		t.Fatalf("found %d scenarios, error %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			play(t, string(text))
		})
	}
}

type line struct {
	at, until time.Duration
	words     []string
}

func play(t *testing.T, text string) {
	s := &stage{t: t, every: time.Second}
	var says, expects []line
	var end time.Duration
	for raw := range strings.Lines(text) {
		raw, _, _ = strings.Cut(raw, "#")
		words := strings.Fields(raw)
		if len(words) == 0 {
			continue
		}
		l := line{words: words}
		if words[0] == "at" || words[0] == "expect" {
			from, to, span := strings.Cut(words[1], "..")
			l.at = s.duration(from)
			if l.until = l.at; span {
				l.until = s.duration(to)
			}
			l.words = words[2:]
			end = max(end, l.until)
		}
		if words[0] == "expect" {
			expects = append(expects, l)
		} else {
			says = append(says, l)
		}
	}
	if len(expects) == 0 {
		t.Fatal("nothing is expected")
	}
	for len(says) > 0 && says[0].at == 0 {
		s.say(says[0])
		says = says[1:]
	}
	judged := make([]int, len(expects))
	for at := time.Duration(0); at <= end; at += s.every {
		for len(says) > 0 && says[0].at <= at {
			s.since = says[0].at
			s.say(says[0])
			says = says[1:]
		}
		signs := s.signs
		if s.flip > 0 && ((at-s.since)/s.flip)%2 == 1 {
			signs.Saturation = s.other
		}
		s.ladder = s.ladder.Next(signs, s.config, noon.Add(at))
		for i, e := range expects {
			if at < e.at || at > e.until {
				continue
			}
			judged[i]++
			if got := strconv.Itoa(int(s.ladder.Step())); e.words[0] != "step" || got != e.words[1] {
				t.Errorf("at %v it is at step %s, not as expected: %v", at, got, e.words)
			}
		}
	}
	for i, n := range judged {
		if n == 0 {
			t.Errorf("%v: no look falls into %v..%v", expects[i].words, expects[i].at, expects[i].until)
		}
	}
}

func (s *stage) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (s *stage) number(text string) float64 {
	if text == "unknown" {
		text = "NaN"
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return x
}

func (s *stage) say(l line) {
	w := l.words
	switch w[0] {
	case "look":
		s.every = s.duration(w[2])
	case "saturation":
		if s.signs.Saturation, s.flip = s.number(w[1]), 0; len(w) > 2 {
			s.other, s.flip = s.number(w[3]), s.duration(w[5])
		}
	case "waiting", "served":
		s.signs.Waiting = w[0] == "waiting"
	case "shed", "kept":
		s.signs.Shed = w[0] == "shed"
	case "config":
		s.config = Config{}
		for _, field := range w[1:] {
			name, value, _ := strings.Cut(field, "=")
			switch name {
			case "off":
				s.config.Off = true
			case "enterAt":
				s.config.EnterAt = s.number(value)
			case "leaveAt":
				s.config.LeaveAt = s.number(value)
			case "enter":
				s.config.Enter = s.duration(value)
			case "leave":
				s.config.Leave = s.duration(value)
			default:
				s.t.Fatalf("%q says nothing", field)
			}
		}
	default:
		s.t.Fatalf("%v says nothing", w)
	}
}
