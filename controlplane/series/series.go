// Package series keeps numbers of the last while, each at the same times, in memory that is bounded: what charts of
// a node are drawn from. It knows neither what the numbers are of nor how they are come by. What was not told is a
// gap, and stays one.
package series

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"
)

// Bounds on what is kept: an hour at five seconds is 720 values of four bytes, so that the most lines that there may
// be take 24 MB.
const (
	Step     = 5 * time.Second
	Span     = time.Hour
	MaxLines = 8192
)

// slots is how many values of a line are kept.
const slots = int64(Span / Step)

// Key names a line: what is measured, of which sort of thing, and of which one.
type Key struct{ Metric, By, Name string }

func (k Key) compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Metric, o.Metric), cmp.Compare(k.By, o.By), cmp.Compare(k.Name, o.Name))
}

// Store keeps lines. It is safe for concurrent use; the zero Store is empty.
type Store struct {
	mu    sync.Mutex // guards what is below
	lines map[Key]*line
	// began is the slot of the first values, newest that of the last; 0: none have come.
	began, newest int64
}

// line is a ring: the value of a slot stands at the slot modulo its length.
type line struct {
	values [slots]float32
	// newest slot that was told; older ones that were not hold NaN.
	newest int64
}

// Slot is the number of the step that a time is in.
func Slot(at time.Time) int64 { return at.UnixMilli() / Step.Milliseconds() }

func timeOf(slot int64) time.Time { return time.UnixMilli(slot * Step.Milliseconds()).UTC() }

// Add tells values as of a time. Of several in one step the last counts; what is no finite number is a gap. Values of a
// time before the newest are left out, as of a clock that was set back. Lines beyond MaxLines are left out until others have
// said nothing for as long as is kept.
func (s *Store) Add(at time.Time, values map[Key]float64) {
	slot := Slot(at)
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot < s.newest || slot <= 0 {
		return
	}
	if s.lines == nil {
		s.lines, s.began = map[Key]*line{}, slot
	}
	s.newest = slot
	for key, l := range s.lines {
		if slot-l.newest >= slots {
			delete(s.lines, key)
		}
	}
	for key, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		l := s.lines[key]
		if l == nil {
			if len(s.lines) >= MaxLines {
				continue
			}
			l = &line{newest: slot - slots}
			s.lines[key] = l
		}
		l.set(slot, float32(v))
	}
}

func (l *line) set(slot int64, v float32) {
	for gap := max(l.newest+1, slot-slots+1); gap < slot; gap++ {
		l.values[gap%slots] = float32(math.NaN())
	}
	l.values[slot%slots] = v
	l.newest = slot
}

func (l *line) at(slot int64) float64 {
	if slot > l.newest || slot <= l.newest-slots {
		return math.NaN()
	}
	return float64(l.values[slot%slots])
}

// Query is which values are wanted.
type Query struct {
	// Metrics and By are wanted, of the Names; no names: of all.
	Metrics []string
	By      string
	Names   []string
	// From and To are the first and the last time that is wanted; Each is how long one point is, in whole steps.
	From, To time.Time
	Each     time.Duration
	// Worst are the metrics of which a point is the largest of its values, and not their mean.
	Worst []string
}

// Line is a line that was asked for.
type Line struct {
	Key
	// Points from From of the answer on; NaN: a gap.
	Points []float64
}

// Answer is what is kept of what was asked for.
type Answer struct {
	// Since is when the store was told first; zero: never. From is the start of the first point, To the end of the last.
	Since, From, To time.Time
	Lines           []Line // by metric and name
}

// size is how many points a line of the answer has, and which lines it has.
func (s *Store) size(q Query) (points int64, keys []Key) {
	each := int64(max(q.Each, Step) / Step)
	first, last := Slot(q.From)/each, Slot(q.To)/each
	for key := range s.lines {
		if key.By == q.By && slices.Contains(q.Metrics, key.Metric) && (len(q.Names) == 0 || slices.Contains(q.Names, key.Name)) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, Key.compare)
	return max(last-first+1, 0), keys
}

// Read answers a query, unless it would hold more points than most: ok is false then, and points says how many.
func (s *Store) Read(q Query, most int64) (a Answer, points int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.began > 0 {
		a.Since = timeOf(s.began)
	}
	n, keys := s.size(q)
	if points = n * int64(len(keys)); points > most || n > most {
		return a, max(points, n), false
	}
	each := int64(max(q.Each, Step) / Step)
	first := Slot(q.From) / each
	a.From, a.To = timeOf(first*each), timeOf((first+n)*each)
	for _, key := range keys {
		out, l := Line{key, make([]float64, n)}, s.lines[key]
		worst := slices.Contains(q.Worst, key.Metric)
		for i := range n {
			out.Points[i] = l.point((first+i)*each, each, worst)
		}
		a.Lines = append(a.Lines, out)
	}
	return a, points, true
}

// point puts some slots together, without gaps among them.
func (l *line) point(from, n int64, worst bool) float64 {
	sum, most, known := 0.0, math.Inf(-1), 0
	for slot := from; slot < from+n; slot++ {
		if v := l.at(slot); !math.IsNaN(v) {
			sum, most, known = sum+v, max(most, v), known+1
		}
	}
	switch {
	case known == 0:
		return math.NaN()
	case worst:
		return most
	}
	return sum / float64(known)
}
