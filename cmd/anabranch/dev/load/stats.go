package load

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// Row is the figures of one region over some time.
type Row struct {
	Region string `json:"region"`
	// Finished = OK + Limited + Failed + Broken.
	Finished int `json:"finished"`
	OK       int `json:"ok"`
	Limited  int `json:"limited"`
	Failed   int `json:"failed"`
	Broken   int `json:"broken"`
	// Retried took more than one attempt; they are counted by outcome as well.
	Retried int `json:"retried"`
	// TTFT of streams, in ms; 0: none finished.
	TTFTP50Ms float64 `json:"ttftP50Ms"`
	TTFTP95Ms float64 `json:"ttftP95Ms"`
	// Served counts answers by the region that gave them.
	Served map[string]int `json:"served"`
}

// Summary is the figures of a whole run.
type Summary struct {
	Seconds float64 `json:"seconds"`
	// Skipped were not sent because too many were in flight already.
	Skipped int   `json:"skipped"`
	Total   Row   `json:"total"`
	Regions []Row `json:"regions"`
	// Slowest is the stream that waited longest for its first content.
	Slowest Slowest `json:"slowest"`
	// Reasons counts failures and breaks by what was wrong, most frequent first.
	Reasons []Reason `json:"reasons"`
}

// Slowest is one stream; its zero value says that there was none.
type Slowest struct {
	TTFTMs    float64 `json:"ttftMs"`
	RequestID string  `json:"requestId"`
}

// Reason is one way to fail, with the id of a request that did.
type Reason struct {
	Text    string `json:"text"`
	Count   int    `json:"count"`
	Example string `json:"example,omitempty"`
}

// tally is a row that still counts.
type tally struct {
	row  Row
	ttft []time.Duration
}

func (t *tally) add(r Result) {
	t.row.Finished++
	switch r.Outcome {
	case OK:
		t.row.OK++
	case Limited:
		t.row.Limited++
	case Broken:
		t.row.Broken++
	case Failed:
		t.row.Failed++
	}
	if r.Attempts > 1 {
		t.row.Retried++
	}
	if r.TTFT > 0 {
		t.ttft = append(t.ttft, r.TTFT)
	}
	if r.Served != "" && r.Outcome != Limited {
		if t.row.Served == nil {
			t.row.Served = map[string]int{}
		}
		t.row.Served[r.Served]++
	}
}

func (t *tally) done(region string) Row {
	row := t.row
	row.Region = region
	slices.Sort(t.ttft)
	row.TTFTP50Ms, row.TTFTP95Ms = quantile(t.ttft, 0.50), quantile(t.ttft, 0.95)
	row.Served = maps.Clone(row.Served)
	return row
}

// quantile is the smallest value that at least the share q of the sorted values do not exceed, in
// ms; of no values 0.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(q * float64(len(sorted)))
	if float64(rank) < q*float64(len(sorted)) {
		rank++
	}
	d := sorted[min(max(rank, 1), len(sorted))-1]
	return float64(d) / float64(time.Millisecond)
}

// Stats counts results; safe for concurrent use.
type Stats struct {
	regions []string // in the order of rows

	mu      sync.Mutex // guards what follows
	total   tally
	whole   map[string]*tally
	second  map[string]*tally
	reasons map[string]*Reason
	slowest Result
	skipped int
}

// NewStats counts for the regions of the routers, in their order.
func NewStats(routers []Router) *Stats {
	s := &Stats{whole: map[string]*tally{}, second: map[string]*tally{}, reasons: map[string]*Reason{}}
	for _, r := range routers {
		if !slices.Contains(s.regions, r.Region) {
			s.regions = append(s.regions, r.Region)
			s.whole[r.Region], s.second[r.Region] = &tally{}, &tally{}
		}
	}
	return s
}

// Add counts a result. Its region must be one of the routers'.
func (s *Stats) Add(r Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total.add(r)
	s.whole[r.Region].add(r)
	s.second[r.Region].add(r)
	if r.TTFT > s.slowest.TTFT {
		s.slowest = r
	}
	if r.Outcome == Failed || r.Outcome == Broken {
		reason := s.reasons[r.Reason]
		if reason == nil {
			reason = &Reason{Text: r.Reason, Example: r.RequestID}
			s.reasons[r.Reason] = reason
		}
		reason.Count++
	}
}

// Skip counts a request that was not sent.
func (s *Stats) Skip() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skipped++
}

// Cut returns the rows since the last cut, and starts anew.
func (s *Stats) Cut() []Row {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := make([]Row, 0, len(s.regions))
	for _, region := range s.regions {
		rows = append(rows, s.second[region].done(region))
		s.second[region] = &tally{}
	}
	return rows
}

// Summary returns the figures of everything counted, over the time given.
func (s *Stats) Summary(took time.Duration) Summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := Summary{
		Seconds: took.Seconds(), Skipped: s.skipped, Total: s.total.done("all"),
		Slowest: Slowest{float64(s.slowest.TTFT) / float64(time.Millisecond), s.slowest.RequestID},
		Regions: []Row{}, Reasons: []Reason{},
	}
	for _, region := range s.regions {
		sum.Regions = append(sum.Regions, s.whole[region].done(region))
	}
	for _, text := range slices.Sorted(maps.Keys(s.reasons)) {
		sum.Reasons = append(sum.Reasons, *s.reasons[text])
	}
	slices.SortStableFunc(sum.Reasons, func(a, b Reason) int { return cmp.Compare(b.Count, a.Count) })
	return sum
}
