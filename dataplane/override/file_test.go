package override

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anabranch/api/order"
)

func TestAFileIsReadStrictly(t *testing.T) {
	const head = "orders:\n- "
	who := ", actor: ann, reason: firmware}\n"
	for name, c := range map[string]struct {
		text string
		says string // empty: it is good
	}{
		"nothing":             {"", ""},
		"no orders":           {"orders: []\n", ""},
		"a freeze":            {head + "{kind: freeze" + who, ""},
		"an evacuation":       {head + "{kind: evacuate, target: us-a, for: 2h" + who, ""},
		"a restore":           {head + "{kind: restore, target: region/us, expires: 2026-11-30T12:10:00Z" + who, ""},
		"a revert":            {head + "{kind: revert, revision: 41" + who, ""},
		"shedding batch":      {head + "{kind: shed, priority: 0" + who, ""},
		"named":               {head + "{id: night-shift-7, kind: freeze" + who, ""},
		"an unknown key":      {head + "{kind: freeze, til: x" + who, "til"},
		"a key twice":         {head + "{kind: freeze, kind: freeze" + who, "kind"},
		"another list":        {"order: []\n", "order"},
		"no yaml":             {"orders: [", "yaml"},
		"a bad kind":          {head + "{kind: stop" + who, "order 1: kind"},
		"the second is bad":   {head + "{kind: freeze" + who + "- {kind: evacuate" + who, "order 2: target"},
		"no priority":         {head + "{kind: shed" + who, "priority is missing"},
		"nobody":              {head + "{kind: freeze, reason: x}\n", "actor is missing"},
		"no reason":           {head + "{kind: freeze, actor: x}\n", "reason is missing"},
		"no duration":         {head + "{kind: freeze, for: soon" + who, `"soon" is no duration`},
		"too long":            {head + "{kind: freeze, for: 25h" + who, "at most 24h"},
		"both ends":           {head + "{kind: freeze, for: 1h, expires: 2026-11-30T13:00:00Z" + who, "say the same"},
		"a crooked id":        {head + "{id: A b, kind: freeze" + who, "lower-case"},
		"a long id":           {head + "{id: " + strings.Repeat("x", 64) + ", kind: freeze" + who, "at most 63"},
		"the same id":         {head + "{id: x, kind: freeze" + who + "- {id: x, kind: freeze" + who, "another's"},
		"too many":            {"orders:\n" + strings.Repeat("- {kind: freeze"+who, order.MaxOrders+1), "at most 64"},
		"from the far future": {head + "{kind: freeze, at: 2027-01-01T00:00:00Z" + who, "yet to come"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(c.text), noon, noon)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want it to say %q", err, c.says)
			}
		})
	}
}

func TestWhatAFileLeavesOut(t *testing.T) {
	orders, err := Parse([]byte(`
orders:
- {kind: freeze, actor: ann, reason: x}
- {kind: shed, priority: 50, actor: ann, reason: x, for: 1h, at: "2026-11-30T11:30:00Z"}
`), noon, noon.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if o := orders[0]; o.ID != "file-1" || !o.At.Equal(noon) || !o.Expires.Equal(noon.Add(order.DefaultTerm)) {
		t.Errorf("%+v", o)
	}
	if o := orders[1]; o.ID != "file-2" || o.Priority != 50 || !o.Expires.Equal(noon.Add(30*time.Minute)) {
		t.Errorf("%+v", o)
	}
}

// watch is a file that is looked at once a second.
type watch struct {
	watched
	t   *testing.T
	now time.Time
}

func newWatch(t *testing.T) *watch {
	return &watch{watched: watched{path: filepath.Join(t.TempDir(), FileName)}, t: t, now: time.Now()}
}

func (w *watch) write(text string) {
	w.t.Helper()
	if err := os.WriteFile(w.path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// look polls once and says how many orders there are after it.
func (w *watch) look() int {
	w.now = w.now.Add(time.Second)
	w.poll(w.now)
	return len(w.orders)
}

const aFreeze = "- {kind: freeze, actor: ann, reason: x}\n"

func TestAFileIsTakenWhenItLooksTheSameTwice(t *testing.T) {
	w := newWatch(t)
	for step, c := range []struct {
		write string // "-": nothing, "x": it is removed
		want  int
		bad   bool
	}{
		{"-", 0, false},
		{"orders:\n" + aFreeze, 0, false}, // somebody is writing
		{"orders:\n" + aFreeze + aFreeze, 0, false},
		{"-", 2, false},
		{"-", 2, false},
		{"x", 2, false}, // it may be being replaced
		{"orders:\n" + aFreeze, 2, false},
		{"-", 1, false},
		{"orders: 7\n", 1, false},
		{"-", 1, true}, // a bad file keeps what is in force
		{"-", 1, true},
		{"orders:\n" + aFreeze + aFreeze + aFreeze, 1, true},
		{"-", 3, false},
		{"x", 3, false},
		{"-", 0, false},
	} {
		switch c.write {
		case "-":
		case "x":
			if err := os.Remove(w.path); err != nil {
				t.Fatal(err)
			}
		default:
			w.write(c.write)
		}
		if got := w.look(); got != c.want || (w.err != nil) != c.bad {
			t.Errorf("step %d: %d orders, error %v; want %d, bad: %v", step, got, w.err, c.want, c.bad)
		}
	}
}

func TestAFileThatIsThereAtTheStartIsTakenAtOnce(t *testing.T) {
	w := newWatch(t)
	w.write("orders:\n" + aFreeze)
	if got := w.look(); got != 1 || w.err != nil {
		t.Errorf("%d orders, %v", got, w.err)
	}
}

func TestAFileThatCantBeReadIsTriedAgain(t *testing.T) {
	w := newWatch(t)
	if err := os.Mkdir(w.path, 0o700); err != nil {
		t.Fatal(err)
	}
	if w.look(); w.err == nil || !strings.Contains(w.err.Error(), w.path) {
		t.Errorf("a folder: %v", w.err)
	}
	if err := os.Remove(w.path); err != nil {
		t.Fatal(err)
	}
	w.write("orders:\n" + aFreeze)
	w.look()
	if got := w.look(); got != 1 || w.err != nil {
		t.Errorf("%d orders, %v", got, w.err)
	}
	w.write("orders:\n" + strings.Repeat(" ", maxFile) + aFreeze)
	w.look()
	if got := w.look(); got != 1 || w.err == nil || !strings.Contains(w.err.Error(), "larger than") {
		t.Errorf("%d orders, %v", got, w.err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("orders:\n- {kind: freeze, actor: ann, reason: x, for: 1h}\n")
	f.Add("orders:\n- {kind: shed, priority: -10, actor: a, reason: b, at: 2026-11-30T12:00:00Z}\n")
	f.Add("orders: [{kind: evacuate, target: region/us-east-1, actor: a, reason: b}]")
	f.Add("{}")
	f.Fuzz(func(t *testing.T, text string) {
		orders, err := Parse([]byte(text), noon, noon)
		if err != nil {
			return
		}
		for i := range orders {
			if err := orders[i].Check(noon); err != nil {
				t.Errorf("a wrong order was taken: %v", err)
			}
			if orders[i].Expires.Sub(noon) > order.MaxTerm+order.MaxSkew {
				t.Errorf("an order holds until %s", orders[i].Expires)
			}
		}
		order.Set{}.With(order.DoorFile, orders...).At(noon)
	})
}
