package kvevents

import (
	"bufio"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anabranch/dataplane/inference"
	"anabranch/dataplane/prefix"
)

// Scenarios are lines of text. A prompt is a word of which each letter is one block of text, of 256
// tokens; engine blocks have 128, so that letter i ends with engine block 2i.
const (
	tokensPerLetter = 256
	blocksPerLetter = 2
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// stage is what a scenario plays on: engines by name, of one family but for their salt.
type stage struct {
	t        *testing.T
	index    *prefix.Index
	glossary *Glossary
	engines  map[string]*actor
	now      time.Time
}

type actor struct {
	book   *Book
	holder *prefix.Holder
	salt   string
	loose  bool // its hashes are of one block's words alone
}

func sum(parts ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, parts...)
	return h.Sum64()
}

// chain is the prompt as the router sees it.
func letters(prompt string) []uint64 {
	c := make([]uint64, len(prompt))
	for i := range c {
		c[i] = sum("text", prompt[:i+1])
	}
	return c
}

// block n of a prompt, from 1, as the engine calls it.
func (a *actor) block(prompt string, n int) uint64 {
	letter := (n - 1) / blocksPerLetter
	if a.loose {
		return sum(a.salt, "loose", prompt[letter:letter+1], n%blocksPerLetter)
	}
	return sum(a.salt, "engine", prompt[:letter+1], n)
}

func (s *stage) engine(name string) *actor {
	a := s.engines[name]
	if a == nil {
		a = &actor{holder: s.index.NewHolder(sum(name))}
		a.book = NewBook(BookOptions{Index: s.index, Holder: a.holder, Glossary: s.glossary, Nodes: 100})
		a.book.Listen(noon)
		s.engines[name] = a
	}
	return a
}

func (s *stage) apply(a *actor, events ...Event) {
	var b Batch
	if err := b.Read(Append(nil, 1, events)); err != nil {
		s.t.Fatal(err)
	}
	a.book.Apply(&b, s.now)
}

// do plays one line: a time, an engine's name, and what happens.
func (s *stage) do(line string) error {
	var at, name, what string
	if _, err := fmt.Sscan(line, &at, &name, &what); err != nil {
		return err
	}
	d, err := time.ParseDuration(at)
	if err != nil {
		return err
	}
	s.now = noon.Add(d)
	a := s.engine(name)
	for _, b := range s.engines {
		b.book.Settle(s.now)
	}
	args := strings.Fields(line)[3:]
	var prompt string
	if len(args) > 0 {
		prompt = args[0]
	}
	switch what {
	case "salted":
		a.salt = prompt
	case "loose":
		a.loose = true
	case "stores", "drops", "offloads":
		var from, to int
		if _, err := fmt.Sscanf(args[1], "%d-%d", &from, &to); err != nil {
			return err
		}
		e := Event{Kind: Stored, BlockSize: tokensPerLetter / blocksPerLetter, Elsewhere: what == "offloads"}
		if e.HasParent = from > 1; e.HasParent {
			e.Parent = a.block(prompt, from-1)
		}
		for n := from; n <= to; n++ {
			e.Hashes = append(e.Hashes, a.block(prompt, n))
		}
		if what == "drops" {
			e = Event{Kind: Removed, Hashes: e.Hashes}
		}
		s.apply(a, e)
	case "clears":
		s.apply(a, Event{Kind: Cleared})
	case "loses":
		a.book.Lost()
		a.book.Listen(s.now)
	case "pauses":
		a.book.Pause()
	case "listens":
		a.book.Listen(s.now)
	case "restarts":
		a.book.Restarted(s.now)
		a.book.Listen(s.now)
	case "answers":
		return s.answers(a, args)
	case "guesses": // a first token of which nothing else is known
		s.index.Confirm(a.holder, letters(prompt), s.now)
	case "has":
		var want int
		if _, err := fmt.Sscan(args[1], &want); err != nil {
			return err
		}
		if got := s.index.Match(a.holder, letters(prompt), s.now).Blocks; got != want {
			return fmt.Errorf("%s has %d blocks of %s", name, got, prompt)
		}
	case "counts":
		c := a.book.Counts()
		got := fmt.Sprintf("wrong %d, torn %d", c.Wrong, c.Torn)
		for r, n := range c.Results {
			if n > 0 {
				got = fmt.Sprintf("%s %d, %s", Result(r), n, got)
			}
		}
		if want := strings.Join(args, " "); got != want {
			return fmt.Errorf("%s counts %s", name, got)
		}
	default:
		return fmt.Errorf("%q is no action", what)
	}
	return nil
}

// answers: a prompt with so many tokens beyond its letters was sent and had its first token; the
// answer ends now.
func (s *stage) answers(a *actor, args []string) error {
	var sent, first time.Duration
	cached, beyond := int64(0), int64(10)
	told := true
	r := Request{Blocks: letters(args[0])}
	for _, arg := range args[1:] {
		key, value, _ := strings.Cut(arg, "=")
		var err error
		switch key {
		case "sent":
			sent, err = time.ParseDuration(value)
		case "first":
			first, err = time.ParseDuration(value)
		case "cached":
			_, err = fmt.Sscan(value, &cached)
		case "beyond":
			_, err = fmt.Sscan(value, &beyond)
		case "untold":
			told = false
		default:
			err = fmt.Errorf("%q is no argument", key)
		}
		if err != nil {
			return err
		}
	}
	r.Prompt = int64(len(args[0]))*tokensPerLetter + beyond
	r.Bytes = int(r.Prompt) * inference.BlockBytes / tokensPerLetter
	r.Cached, r.Began, r.First = cached, noon.Add(sent), noon.Add(first)
	a.book.Ended(r, told, s.now)
	return nil
}

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = f.Close() }()
			s := &stage{t: t, index: prefix.New(1<<14, 0, noon), glossary: NewGlossary(0), engines: map[string]*actor{}, now: noon}
			lines := bufio.NewScanner(f)
			for n := 1; lines.Scan(); n++ {
				line, _, _ := strings.Cut(lines.Text(), "#")
				if line = strings.TrimSpace(line); line == "" {
					continue
				}
				if err := s.do(line); err != nil {
					t.Errorf("%s:%d: %s: %v", name, n, line, err)
				}
			}
		})
	}
}
