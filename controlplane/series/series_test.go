package series

import (
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func at(step int) time.Time { return start.Add(time.Duration(step) * Step) }

// told writes points, a gap as "-".
func told(points []float64) string {
	var out []string
	for _, p := range points {
		if math.IsNaN(p) {
			out = append(out, "-")
		} else {
			out = append(out, strconv.FormatFloat(p, 'g', 4, 64))
		}
	}
	return strings.Join(out, " ")
}

func TestGapsStayGaps(t *testing.T) {
	for name, tt := range map[string]struct {
		// values by step; "x" is no number.
		values map[int]float64
		from   int
		to     int
		each   int
		worst  bool
		want   string
	}{
		"one after the other":          {map[int]float64{0: 1, 1: 2, 2: 3}, 0, 2, 1, false, "1 2 3"},
		"a node that was away":         {map[int]float64{0: 1, 4: 5}, 0, 5, 1, false, "1 - - - 5 -"},
		"before its beginning":         {map[int]float64{2: 1}, 0, 3, 1, false, "- - 1 -"},
		"what is no number":            {map[int]float64{0: 1, 1: math.NaN(), 2: math.Inf(1), 3: 2}, 0, 3, 1, false, "1 - - 2"},
		"means of several":             {map[int]float64{0: 1, 1: 2, 2: 3, 3: 5}, 0, 3, 2, false, "1.5 4"},
		"means leave gaps out":         {map[int]float64{0: 1, 3: 5}, 0, 5, 2, false, "1 5 -"},
		"the worst of several":         {map[int]float64{0: 1, 1: 9, 2: 3}, 0, 3, 2, true, "9 3"},
		"older than is kept":           {map[int]float64{0: 1, 720: 2}, 0, 0, 1, false, "-"},
		"the oldest that is kept":      {map[int]float64{0: 1, 719: 2}, 0, 1, 1, false, "1 -"},
		"a long time away":             {map[int]float64{0: 1, 5000: 2}, 4999, 5001, 1, false, "- 2 -"},
		"from after to":                {map[int]float64{0: 1}, 2, 0, 1, false, ""},
		"a step twice, the last holds": {map[int]float64{0: 1}, 0, 0, 1, false, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			var s Store
			for step := range 5001 {
				if v, ok := tt.values[step]; ok {
					if strings.Contains(name, "twice") {
						s.Add(at(step), map[Key]float64{{"m", "region", "eu"}: 7})
					}
					s.Add(at(step), map[Key]float64{{"m", "region", "eu"}: v})
				}
			}
			q := Query{Metrics: []string{"m"}, By: "region", From: at(tt.from), To: at(tt.to), Each: time.Duration(tt.each) * Step}
			if tt.worst {
				q.Worst = []string{"m"}
			}
			a, _, ok := s.Read(q, 1e6)
			if !ok || len(a.Lines) != 1 || told(a.Lines[0].Points) != tt.want {
				t.Errorf("%v %+v, want %s", ok, a, tt.want)
			}
		})
	}
}

func TestAQueryPicksLines(t *testing.T) {
	var s Store
	if a, _, ok := s.Read(Query{Metrics: []string{"m"}, By: "region", From: start, To: start}, 10); !ok || !a.Since.IsZero() || len(a.Lines) != 0 {
		t.Errorf("of nothing: %+v", a)
	}
	values := map[Key]float64{}
	for _, m := range []string{"m", "n"} {
		for _, by := range []string{"region", "cluster"} {
			for _, name := range []string{"us", "eu"} {
				values[Key{m, by, name}] = 1
			}
		}
	}
	s.Add(at(3), values)
	s.Add(at(1), map[Key]float64{{"m", "region", "us"}: 9}) // a clock that was set back
	a, points, ok := s.Read(Query{Metrics: []string{"n", "m"}, By: "region", Names: []string{"us", "ap"}, From: at(3), To: at(4)}, 4)
	if !ok || points != 4 || fmt.Sprint(a.Lines[0].Key, a.Lines[1].Key, len(a.Lines)) != "{m region us} {n region us} 2" {
		t.Errorf("%v %d %+v", ok, points, a)
	}
	if !a.Since.Equal(at(3)) || !a.From.Equal(at(3)) || !a.To.Equal(at(5)) || told(a.Lines[0].Points) != "1 -" {
		t.Errorf("%+v", a)
	}
	if _, points, ok := s.Read(Query{Metrics: []string{"n", "m"}, By: "region", From: at(0), To: at(9)}, 39); ok || points != 40 {
		t.Errorf("too much: %v %d", ok, points)
	}
	if _, _, ok := s.Read(Query{Metrics: []string{"none"}, By: "region", From: time.Unix(1, 0), To: at(9)}, 1000); ok {
		t.Error("an endless time is answered")
	}
}

// TestLinesAreBounded tells more lines than there may be, then others once these are old.
func TestLinesAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 24 MB")
	}
	var s Store
	values := func(prefix string) map[Key]float64 {
		out := map[Key]float64{}
		for i := range MaxLines + 100 {
			out[Key{"m", "region", prefix + strconv.Itoa(i)}] = 1
		}
		return out
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s.Add(at(0), values("a"))
	runtime.GC()
	runtime.ReadMemStats(&after)
	if mb := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) >> 20; len(s.lines) != MaxLines || mb > 32 { //nolint:gosec // a heap is less than that
		t.Errorf("%d lines take %d MB", len(s.lines), mb)
	}
	s.Add(at(int(slots)), values("b"))
	if _, ok := s.lines[Key{"m", "region", "a1"}]; ok || len(s.lines) != MaxLines {
		t.Errorf("%d lines, and what is old stays", len(s.lines))
	}
}

// TestARingIsAsGoodAsAList compares with all values kept.
func TestARingIsAsGoodAsAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Store
		all := map[int64]float64{}
		step, newest := 0, int64(0)
		for range rapid.IntRange(1, 30).Draw(t, "values") {
			step += rapid.SampledFrom([]int{0, 1, 1, 1, 2, 300, 800}).Draw(t, "ahead")
			v := float64(rapid.IntRange(0, 9).Draw(t, "value"))
			s.Add(at(step), map[Key]float64{{"m", "b", "n"}: v})
			newest = Slot(at(step))
			all[newest] = v
		}
		from := rapid.IntRange(max(0, step-750), step+5).Draw(t, "from")
		a, _, ok := s.Read(Query{Metrics: []string{"m"}, By: "b", From: at(from), To: at(step + 5)}, 1e6)
		if !ok || len(a.Lines) != 1 {
			t.Fatalf("%v %+v", ok, a)
		}
		for i, got := range a.Lines[0].Points {
			slot := Slot(at(from + i))
			want, known := all[slot]
			if known = known && slot > newest-slots; known != !math.IsNaN(got) || known && got != want {
				t.Fatalf("step %d is %v, want %v (%v)", from+i, got, want, known)
			}
		}
	})
}
