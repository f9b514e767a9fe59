package ratelimittest

import (
	"bufio"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"anabranch/ratelimit"
)

//go:embed testdata/lease
var texts embed.FS

// leaseScenarios plays each text in testdata/lease. A line is one of
//
//	limit NAME KIND AMOUNT PERIOD_MS BURST COLD [alone] declare or change a limit
//	window NAME FROM NEXT SPENT                         of money, in microseconds since the start
//	policy VERSION                                      of the calls from here on; also: epoch N, ttl MS, young 0|1
//	shares REGION=PARTS…                                of the calls from here on
//	at MICROSECONDS                                     since the start; may go back
//	lease ROUTER SEQ NAME=WANT[,USED[,BACK[,REFUND]]]… -> STATUS [gap=FROM,TO] NAME=GRANTED,LEVEL,HELD…
//
// where a router of a region is REGION/NAME and is told of a gap, and # starts a comment.
func leaseScenarios(t *testing.T, fresh lenderMaker) {
	files, err := fs.Glob(texts, "testdata/lease/*.txt")
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
			p := lender{s: s, clock: clock, levels: map[string]ratelimit.Level{}, in: Call()}
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

type lender struct {
	s      ratelimit.Lender
	clock  *Clock
	levels map[string]ratelimit.Level
	in     ratelimit.In
}

func (p *lender) play(t *testing.T, line string) error {
	t.Helper()
	call, want, _ := strings.Cut(line, "->")
	words := strings.Fields(call)
	switch words[0] {
	case "limit":
		n, err := numbers(words[3:min(7, len(words))], 4)
		if err != nil {
			return err
		}
		l := p.levels[words[1]]
		l.Limit = ratelimit.Limit{ID: words[1], Kind: ratelimit.Kind(words[2]), Amount: n[0], PeriodMs: n[1], Burst: n[2]}
		l.Cold, l.Alone = n[3], slices.Equal(words[7:], []string{"alone"})
		p.levels[words[1]] = l
		return nil
	case "window":
		n, err := numbers(words[2:], 3)
		if err != nil {
			return err
		}
		l := p.levels[words[1]]
		l.Window = ratelimit.Window{FromUs: Start + n[0], NextUs: Start + n[1], Spent: n[2]}
		p.levels[words[1]] = l
		return nil
	case "shares":
		return p.share(words[1:])
	case "lease":
		return p.lease(t, words[1:], strings.Fields(want))
	}
	n, err := numbers(words[1:], 1)
	if err != nil {
		return err
	}
	switch words[0] {
	case "at":
		p.clock.Set(Start + n[0])
	case "policy":
		p.in.Policy = n[0]
	case "epoch":
		p.in.Epoch = n[0]
	case "ttl":
		p.in.TTL = time.Duration(n[0]) * time.Millisecond
	case "young":
		p.in.Young = n[0] == 1
	default:
		return fmt.Errorf("no such word: %s", words[0])
	}
	return nil
}

func (p *lender) share(words []string) error {
	p.in.Shares = nil
	for _, w := range words {
		region, parts, _ := strings.Cut(w, "=")
		n, err := numbers([]string{parts}, 1)
		if err != nil {
			return err
		}
		p.in.Shares = append(p.in.Shares, ratelimit.Share{Region: region, Parts: n[0]})
	}
	return nil
}

func (p *lender) lease(t *testing.T, words, wanted []string) error {
	t.Helper()
	in := p.in
	in.Router, in.Path = words[0], nil
	if region, _, ok := strings.Cut(words[0], "/"); ok {
		in.Region = region
	}
	seq, err := numbers(words[1:2], 1)
	if err != nil {
		return err
	}
	in.Seq = seq[0]
	for _, w := range words[2:] {
		name, told, _ := strings.Cut(w, "=")
		l, ok := p.levels[name]
		if !ok {
			return fmt.Errorf("no such limit: %s", name)
		}
		parts := strings.Split(told, ",")
		n, err := numbers(parts, len(parts))
		if err != nil {
			return err
		}
		for i, to := range []*int64{&l.Want, &l.Used, &l.Back, &l.Refund}[:len(n)] {
			*to = n[i]
		}
		in.Path = append(in.Path, l)
	}
	out, err := p.s.Lease(t.Context(), in)
	if err != nil {
		return err
	}
	got := []string{out.Status.String()}
	if out.Gap.From == ratelimit.Always {
		got = append(got, fmt.Sprintf("gap=always,%v", out.Gap.To))
	} else if out.Gap != (ratelimit.Gap{}) {
		got = append(got, fmt.Sprintf("gap=%v,%v", out.Gap.From, out.Gap.To))
	}
	for i, g := range out.Path {
		got = append(got, fmt.Sprintf("%s=%d,%d,%d", in.Path[i].Limit.ID, g.Granted, g.Level, g.Held))
	}
	if g, w := strings.Join(got, " "), strings.ReplaceAll(strings.Join(wanted, " "), "_", ""); g != w {
		return fmt.Errorf("got %s", g)
	}
	if out.Status == ratelimit.Granted && out.Valid != in.TTL {
		return fmt.Errorf("valid for %v, want %v", out.Valid, in.TTL)
	}
	return nil
}

// numbers reads so many whole numbers, in which _ may stand.
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
