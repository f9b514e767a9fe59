package ratelimittest

import (
	"bufio"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"testing"

	"anabranch/ratelimit"
)

//go:embed testdata
var texts embed.FS

// scenarios plays each text in testdata. A line is one of
//
//	limit NAME KIND AMOUNT PERIOD_MS BURST           declare or change a limit
//	at MICROSECONDS                                  since the start; may go back
//	take TENANT NAME=COST… -> allowed                 or the reason, then any of
//	                            NAME=REMAINING…       of the tightest of each sort
//	                            retry=MS reset=MS     of the tightest
//	adjust TENANT NAME=COST…
//	bucket TENANT NAME -> LEVEL STAMP PART            stored; the stamp since the start
//
// and # starts a comment.
func scenarios(t *testing.T, fresh maker) {
	files, err := fs.Glob(texts, "testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios found (error %v)", err)
	}
	for _, file := range files {
		text, err := texts.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(path.Base(file), ".txt"), func(t *testing.T) {
			s, clock := fresh(t)
			p := player{s: s, clock: clock, limits: map[string]ratelimit.Limit{}}
			lines := bufio.NewScanner(strings.NewReader(string(text)))
			for n := 1; lines.Scan(); n++ {
				line, _, _ := strings.Cut(lines.Text(), "#")
				if strings.TrimSpace(line) == "" {
					continue
				}
				if err := p.play(t, line); err != nil {
					t.Fatalf("%s:%d: %s\n%v", file, n, strings.TrimSpace(line), err)
				}
			}
		})
	}
}

type player struct {
	s      Subject
	clock  *Clock
	limits map[string]ratelimit.Limit
}

func (p *player) play(t *testing.T, line string) error {
	t.Helper()
	call, want, _ := strings.Cut(line, "->")
	words, wanted := strings.Fields(call), strings.Fields(want)
	switch words[0] {
	case "limit":
		n, err := numbers(words[3:], 3)
		if err != nil {
			return err
		}
		p.limits[words[1]] = ratelimit.Limit{
			ID: words[1], Kind: ratelimit.Kind(words[2]), Amount: n[0], PeriodMs: n[1], Burst: n[2],
		}
		return p.limits[words[1]].Validate()
	case "at":
		n, err := numbers(words[1:], 1)
		if err != nil {
			return err
		}
		p.clock.Set(Start + n[0])
		return nil
	case "adjust":
		steps, err := p.path(words[2:])
		if err != nil {
			return err
		}
		return p.s.Adjust(t.Context(), words[1], steps)
	case "take":
		steps, err := p.path(words[2:])
		if err != nil {
			return err
		}
		d, err := p.s.Take(t.Context(), words[1], steps)
		if err != nil {
			return err
		}
		return told(d, wanted)
	case "bucket":
		n, err := numbers(wanted, 3)
		if err != nil {
			return err
		}
		b, found := p.s.Bucket(words[1], words[2])
		if expected := (ratelimit.Bucket{Level: n[0], StampUs: Start + n[1], Part: n[2]}); !found || b != expected {
			return fmt.Errorf("bucket %d %d %d (found %v)", b.Level, b.StampUs-Start, b.Part, found)
		}
		return nil
	}
	return fmt.Errorf("no such word: %s", words[0])
}

// told compares a decision with its words.
func told(d ratelimit.Decision, wanted []string) error {
	verdict := "allowed"
	if !d.Allowed {
		verdict = string(d.Reason)
	}
	got := map[string]int64{
		"retry":             d.RetryAfterMs,
		"reset":             d.ResetMs,
		d.Requests.Limit.ID: d.Requests.Remaining,
		d.Tokens.Limit.ID:   d.Tokens.Remaining,
	}
	if len(wanted) == 0 || wanted[0] != verdict {
		return fmt.Errorf("%s: %v", verdict, got)
	}
	for _, w := range wanted[1:] {
		name, value, _ := strings.Cut(w, "=")
		if n, ok := got[name]; !ok || strconv.FormatInt(n, 10) != value {
			return fmt.Errorf("%s: %v", verdict, got)
		}
	}
	return nil
}

func (p *player) path(words []string) ([]ratelimit.Charge, error) {
	var out []ratelimit.Charge
	for _, w := range words {
		name, cost, _ := strings.Cut(w, "=")
		l, ok := p.limits[name]
		if !ok {
			return nil, fmt.Errorf("no such limit: %s", name)
		}
		n, err := numbers([]string{cost}, 1)
		if err != nil {
			return nil, err
		}
		out = append(out, ratelimit.Charge{Limit: l, Cost: n[0]})
	}
	return out, nil
}

func numbers(words []string, n int) ([]int64, error) {
	if len(words) != n {
		return nil, fmt.Errorf("%d numbers, want %d", len(words), n)
	}
	out := make([]int64, n)
	for i, w := range words {
		v, err := strconv.ParseInt(strings.ReplaceAll(w, "_", ""), 10, 64)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}
