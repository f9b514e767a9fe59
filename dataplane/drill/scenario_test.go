package drill

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
)

// The scenarios of testdata are lines of a time and what happens, or is expected, then:
//
//	drill ID base LETTER | drill none        the table in force has this drill, from the start where no time is given
//	lease ID seq N [base LETTER] [ttl D] [shifted P%] [notafter T] [epoch N] [dead] [lost] [watch] -> VERDICT
//	clock ±D                                 the time of day is set
//	restart                                  the router starts anew
//	expect none [lapsed]                     no lease is obeyed; the last ran out without a word
//	expect seq N shifted P% for D [dead] [lost] [watch]
//
// A lease is for 30 s, until 60 minutes after the start, in epoch 1 unless it says otherwise.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 7 {
		t.Fatalf("%d scenarios, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := &scene{}
			for n, lines := 1, bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); n++ {
				line, _, _ := strings.Cut(lines.Text(), "#")
				if words := strings.Fields(line); len(words) > 0 {
					if err := s.play(words); err != nil {
						t.Errorf("%s:%d: %s: %v", file, n, strings.TrimSpace(line), err)
					}
				}
			}
		})
	}
}

// scene is a router as leases see it. What is expected is held against the same calls that requests make.
type scene struct {
	drill *table.Drill
	now   time.Duration // since the start, by the monotonic clock
	step  time.Duration // by which the time of day was set
	view  *View
}

const sceneStartMs = 1_764_400_000_000

func (s *scene) at() Moment {
	return Moment{Mono: s.now, WallMs: sceneStartMs + (s.now + s.step).Milliseconds()}
}

func (s *scene) play(words []string) (err error) {
	if words[0] != "drill" {
		if s.now, err = time.ParseDuration(words[0]); err != nil {
			return err
		}
		words = words[1:]
	}
	switch words[0] {
	case "drill":
		return s.table(words[1:])
	case "lease":
		return s.lease(words[1:])
	case "clock":
		step, err := time.ParseDuration(words[1])
		s.step += step
		return err
	case "restart":
		s.view = nil
		return nil
	case "expect":
		if got, want := s.stands(), strings.Join(words[1:], " "); got != want {
			return fmt.Errorf("is %q", got)
		}
		return nil
	}
	return fmt.Errorf("%q is nothing that happens", words[0])
}

func (s *scene) table(words []string) error {
	if words[0] == "none" {
		s.drill = nil
		return nil
	}
	id, err := strconv.ParseUint(words[0], 10, 64)
	s.drill = &table.Drill{ID: id}
	copy(s.drill.Base[:], base(words[2]))
	return err
}

// base is the name of a table that is called by a letter.
func base(letter string) []byte { return bytes.Repeat([]byte(letter), 32) }

func (s *scene) lease(words []string) (err error) {
	m := &routerpb.DrillLease{Epoch: 1, TtlMs: 30_000, NotAfterUnixMs: sceneStartMs + time.Hour.Milliseconds()}
	number := func(word string) (n uint64) {
		n, e := strconv.ParseUint(strings.TrimSuffix(word, "%"), 10, 64)
		if e != nil {
			err = e
		}
		return n
	}
	span := func(word string) time.Duration {
		d, e := time.ParseDuration(word)
		if e != nil {
			err = e
		}
		return d
	}
	m.Id = number(words[0])
	for words = words[1:]; words[0] != "->"; words = words[1:] {
		switch word := words[0]; word {
		case "dead":
			m.Dead = true
			continue
		case "lost":
			m.QuotaStoreLost = true
			continue
		case "watch":
			m.WatchOnly = true
			continue
		case "seq":
			m.Sequence = number(words[1])
		case "epoch":
			m.Epoch = number(words[1])
		case "base":
			m.BaseSha256 = base(words[1])
		case "ttl":
			m.TtlMs = uint32(span(words[1]).Milliseconds())
		case "shifted":
			m.ShiftedPpm = uint32(number(words[1])) * Whole / 100
		case "notafter":
			m.NotAfterUnixMs = sceneStartMs + (span(words[1]) + s.step).Milliseconds()
		default:
			return fmt.Errorf("%q is no part of a lease", word)
		}
		words = words[1:]
	}
	if err != nil {
		return err
	}
	before := s.view
	copied := View{}
	if before != nil {
		copied = *before
	}
	var verdict Verdict
	s.view, verdict = Next(before, m, s.at())
	switch {
	case string(verdict) != words[1]:
		return fmt.Errorf("is %s", verdict)
	case before != nil && *before != copied:
		return fmt.Errorf("the lease before, which requests read, was changed")
	}
	return nil
}

// stands says how things are, in the words of a scenario.
func (s *scene) stands() string {
	now := s.at()
	if !s.view.Obeyed(s.drill, now) {
		if s.view.Lapsed(now) && s.drill != nil && s.view.ID == s.drill.ID {
			return "none lapsed"
		}
		return "none"
	}
	v := s.view
	words := fmt.Sprintf("seq %d shifted %d%% for %s", v.Sequence, v.Shifted*100/Whole, v.Remaining(now))
	if v.Dead {
		words += " dead"
	}
	if v.QuotaStoreLost {
		words += " lost"
	}
	if v.WatchOnly {
		words += " watch"
	}
	return words
}
