package redisbucket

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestAnAbsenceIsToldOnceWithItsErrorAndItsEnd(t *testing.T) {
	var out bytes.Buffer
	h := health{log: slog.New(slog.NewTextHandler(&out, nil))}
	lines := func() []string { return strings.Split(strings.TrimSpace(out.String()), "\n") }
	gone := errors.New("dial tcp 10.0.0.9:6379: connection refused")
	h.fail("a", gone, false)
	h.back("a")
	if out.Len() != 0 {
		t.Errorf("one failure is told: %s", &out)
	}
	h.fail("a", gone, false)
	h.fail("a", gone, false)
	h.fail("a", gone, true)
	h.fail("b", gone, true)
	if all := lines(); len(all) != 1 || !strings.Contains(all[0], "level=WARN") || !strings.Contains(all[0], "away") || !strings.Contains(all[0], "connection refused") {
		t.Errorf("%q", all)
	}
	h.back("a")
	h.back("a")
	if all := lines(); len(all) != 1 {
		t.Errorf("told as back while a part is away: %q", all)
	}
	h.back("b")
	if all := lines(); len(all) != 2 || !strings.Contains(all[1], "level=INFO") || !strings.Contains(all[1], "is back") || !strings.Contains(all[1], "away=") {
		t.Errorf("%q", all)
	}
	h.fail(everything, gone, true)
	if all := lines(); len(all) != 3 {
		t.Errorf("the next absence is not told: %q", all)
	}
	var silent health
	silent.fail("a", gone, true)
	silent.back("a")
}
