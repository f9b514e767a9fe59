package override

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// script plays one scenario on a desk.
type script struct {
	*desk
	ids map[string]string // by the names that the scenario gives
}

// TestScenarios plays what is in testdata/scenarios: lines "TIME give ORDER [for TERM] -> NAME",
// "TIME cancel NAME", "TIME file ORDER [for TERM]" or "file nothing", "TIME restart", and
// "TIME says WHAT", in the words of tells.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "scenarios", "*.txt"))
	if err != nil || len(files) < 3 {
		t.Fatalf("scenarios %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := &script{newDesk(t), map[string]string{}}
			n := 0
			for line := range strings.Lines(string(text)) {
				n++
				line = strings.TrimSpace(line)
				if line == "" || strings.HasPrefix(line, "#") {
					continue
				}
				if err := s.play(line); err != nil {
					t.Fatalf("%s:%d: %s: %v", file, n, line, err)
				}
			}
		})
	}
}

func (s *script) play(line string) error {
	when, rest, _ := strings.Cut(line, " ")
	at, err := time.ParseDuration(when)
	if err != nil {
		return err
	}
	s.pass(at - time.Unix(0, s.ns.Load()).Sub(noon))
	verb, rest, _ := strings.Cut(strings.TrimSpace(rest), " ")
	switch verb {
	case "says":
		want := strings.TrimPrefix(rest, "nothing")
		if got := tells(s.Current()); got != want {
			return fmt.Errorf("it says %q", got)
		}
	case "give":
		order, name, _ := strings.Cut(rest, " -> ")
		ask, err := asked(order)
		if err != nil {
			return err
		}
		given, err := s.Give(ask)
		s.ids[name] = given.ID
		return err
	case "cancel":
		return s.Cancel(s.ids[rest], "ann")
	case "file":
		return s.write(rest)
	case "restart":
		s.desk = open(s.t, s.dir, s.ns)
	default:
		return fmt.Errorf("nobody can %q", verb)
	}
	return nil
}

// write writes the file with one order, or with none.
func (s *script) write(order string) error {
	text := "orders: []\n"
	if order != "nothing" {
		a, err := asked(order)
		if err != nil {
			return err
		}
		text = fmt.Sprintf("orders:\n- {kind: %s, target: %q, for: %s, actor: bob, reason: test}\n", a.Kind, a.Target, a.For)
	}
	path := filepath.Join(s.dir, FileName)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	now := time.Unix(0, s.ns.Load())
	return os.Chtimes(path, now, now)
}

// asked reads "KIND [ARGUMENT] [for TERM]".
func asked(order string) (Ask, error) {
	a := Ask{Actor: "ann", Reason: "test"}
	order, a.For, _ = strings.Cut(order, " for ")
	kind, argument, _ := strings.Cut(strings.TrimSpace(order), " ")
	a.Kind = Kind(kind)
	var err error
	switch a.Kind {
	case Evacuate, Restore:
		a.Target = argument
	case Shed:
		a.Priority = new(int32)
		_, err = fmt.Sscan(argument, a.Priority)
	case Revert:
		if argument != "" {
			_, err = fmt.Sscan(argument, &a.Revision)
		}
	}
	return a, err
}
