package drill

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"anabranch/api/fleet"
)

// Timeline is a drill by the second, in columns, so that four hours fit: row i of each column is of the
// StepSeconds from FromUnixMs + i*StepSeconds*1000 on. A column that is missing is 0 throughout.
type Timeline struct {
	FromUnixMs int64 `json:"fromUnixMs,omitempty"`
	// StepSeconds is 1, or more where a second each would not fit. Counts are sums, gauges the last, and
	// saturations the highest of a step.
	StepSeconds int `json:"stepSeconds"`
	Rows        int `json:"rows"`
	// Missing are the rows of which nothing is known, first and last.
	Missing [][2]int `json:"missing,omitempty"`
	// Stages say from which row on the drill was where.
	Stages  []TimelineStage `json:"stages,omitempty"`
	Routers []int64         `json:"routers,omitempty"`
	Obeying []int64         `json:"obeying,omitempty"`
	Silent  []int64         `json:"silent,omitempty"`
	Scoped  []int64         `json:"scoped,omitempty"`
	Away    []int64         `json:"away,omitempty"`
	// StreamsLeft are on drilled clusters.
	StreamsLeft     []int64         `json:"streamsLeft,omitempty"`
	Streams         []int64         `json:"streams,omitempty"`
	MicrosPerMinute []int64         `json:"microsPerMinute,omitempty"`
	Tiers           []TierColumns   `json:"tiers,omitempty"`
	Clusters        []ClusterColumn `json:"clusters,omitempty"`
}

// TimelineStage is a state of the drill from a row on.
type TimelineStage struct {
	Row   int   `json:"row"`
	State State `json:"state"`
	Step  int   `json:"step,omitempty"`
	// Shifted is in millionths of the scope's requests.
	Shifted int `json:"shifted,omitempty"`
}

// TierColumns are of one tier.
type TierColumns struct {
	Tier    string  `json:"tier"`
	Total   []int64 `json:"total,omitempty"`
	Retried []int64 `json:"retried,omitempty"`
	Shed    []int64 `json:"shed,omitempty"`
	Limited []int64 `json:"limited,omitempty"`
	Lost    []int64 `json:"lost,omitempty"`
	Broken  []int64 `json:"broken,omitempty"`
	// TTFTP95Ms is 0 in rows without a first token.
	TTFTP95Ms []int64 `json:"ttftP95Ms,omitempty"`
}

// ClusterColumn is of one cluster. At most [MaxReportClusters] have one: the drilled and the most loaded.
type ClusterColumn struct {
	Cluster fleet.ClusterID `json:"cluster"`
	Drilled bool            `json:"drilled,omitempty"`
	// Saturation is in hundredths.
	Saturation []int64 `json:"saturation,omitempty"`
}

// fitting is the timeline by the second, or in the shortest steps with which the report is small enough.
func fitting(r Report, samples []Sample) Timeline {
	for _, step := range []int{1, 2, 5, 10, 30, 60} {
		r.Timeline = timelineOf(samples, step)
		if packed := packedSize(r); packed <= MaxReportBytes {
			return r.Timeline
		}
	}
	return Timeline{StepSeconds: 1} // all else is too large: the report does without
}

// maxRows bounds a timeline whatever the clocks of samples say.
const maxRows = 5 * 60 * 60

// timelineOf puts samples into columns.
func timelineOf(samples []Sample, step int) Timeline {
	t := Timeline{StepSeconds: step}
	if len(samples) == 0 {
		return t
	}
	t.FromUnixMs = samples[0].At
	rows := map[int][]Sample{}
	for _, s := range samples {
		row := int((s.At - t.FromUnixMs + 500) / 1000 / int64(step)) // ticks are not that punctual
		if row < 0 || row >= maxRows {
			continue
		}
		rows[row] = append(rows[row], s)
		t.Rows = max(t.Rows, row+1)
	}
	clusters, tiers := columnsOf(samples)
	places := map[fleet.ClusterID]int{}
	for i, c := range clusters {
		c.Saturation = make([]int64, t.Rows)
		t.Clusters, places[c.Cluster] = append(t.Clusters, c), i
	}
	for _, tier := range tiers {
		t.Tiers = append(t.Tiers, TierColumns{Tier: tier})
	}
	for row := range t.Rows {
		t.row(row, rows[row], places)
	}
	t.trim()
	return t
}

// columnsOf says which clusters and tiers have columns.
func columnsOf(samples []Sample) ([]ClusterColumn, []string) {
	peaks := map[fleet.ClusterID]float64{}
	drilled := map[fleet.ClusterID]bool{}
	var tiers []string
	for _, s := range samples {
		for _, c := range s.Clusters {
			peaks[c.Cluster] = max(peaks[c.Cluster], c.Saturation)
			drilled[c.Cluster] = drilled[c.Cluster] || c.Drilled
		}
		for _, tier := range s.Tiers {
			if !slices.Contains(tiers, tier.Tier) {
				tiers = append(tiers, tier.Tier)
			}
		}
	}
	var clusters []ClusterColumn
	for _, id := range slices.Sorted(maps.Keys(peaks)) {
		clusters = append(clusters, ClusterColumn{Cluster: id, Drilled: drilled[id]})
	}
	slices.SortFunc(clusters, func(a, b ClusterColumn) int {
		if a.Drilled != b.Drilled {
			if a.Drilled {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(peaks[b.Cluster], peaks[a.Cluster]), cmp.Compare(a.Cluster, b.Cluster))
	})
	slices.SortFunc(tiers, compareTiers)
	return clusters[:min(len(clusters), MaxReportClusters)], tiers
}

// row appends one row of what was sampled within it; places are of clusters that have a column.
func (t *Timeline) row(row int, samples []Sample, places map[fleet.ClusterID]int) {
	var last Sample
	var scoped, away int64
	var tiers tierSums
	for _, s := range samples {
		last = s
		scoped, away = scoped+s.Scoped, away+s.Away
		tiers.add(s.Tiers)
		for _, c := range s.Clusters {
			if i, kept := places[c.Cluster]; kept {
				t.Clusters[i].Saturation[row] = max(t.Clusters[i].Saturation[row], int64(math.Round(100*round4(c.Saturation))))
			}
		}
	}
	if len(samples) == 0 {
		if n := len(t.Missing); n > 0 && t.Missing[n-1][1] == row-1 {
			t.Missing[n-1][1] = row
		} else {
			t.Missing = append(t.Missing, [2]int{row, row})
		}
	} else if now := (TimelineStage{row, last.State, last.Step, last.Shifted}); len(t.Stages) == 0 || !t.Stages[len(t.Stages)-1].same(now) {
		t.Stages = append(t.Stages, now)
	}
	for _, c := range []struct {
		to *[]int64
		v  int64
	}{
		{&t.Routers, int64(last.Routers)},
		{&t.Obeying, int64(last.Obeying)},
		{&t.Silent, int64(last.Silent)},
		{&t.Scoped, scoped},
		{&t.Away, away},
		{&t.StreamsLeft, last.StreamsLeft},
		{&t.Streams, last.Streams},
		{&t.MicrosPerMinute, last.MicrosPerMinute},
	} {
		*c.to = append(*c.to, c.v)
	}
	for i := range t.Tiers {
		t.Tiers[i].row(tiers)
	}
}

func (s TimelineStage) same(o TimelineStage) bool {
	return s.State == o.State && s.Step == o.Step && s.Shifted == o.Shifted
}

func (t *TierColumns) row(sums tierSums) {
	var of TierSample
	for _, s := range sums {
		if s.Tier == t.Tier {
			of = s
		}
	}
	p95 := int64(0)
	if q := quantilesOf(of.TTFT); q != nil {
		p95 = int64(math.Round(q.P95))
	}
	for _, c := range []struct {
		to *[]int64
		v  int64
	}{
		{&t.Total, of.Total},
		{&t.Retried, of.Retried},
		{&t.Shed, of.Shed},
		{&t.Limited, of.Limited},
		{&t.Lost, of.Lost},
		{&t.Broken, of.Broken},
		{&t.TTFTP95Ms, p95},
	} {
		*c.to = append(*c.to, c.v)
	}
}

// trim takes columns out that are 0 throughout.
func (t *Timeline) trim() {
	all := []*[]int64{&t.Routers, &t.Obeying, &t.Silent, &t.Scoped, &t.Away, &t.StreamsLeft, &t.Streams, &t.MicrosPerMinute}
	for i := range t.Tiers {
		c := &t.Tiers[i]
		all = append(all, &c.Total, &c.Retried, &c.Shed, &c.Limited, &c.Lost, &c.Broken, &c.TTFTP95Ms)
	}
	for i := range t.Clusters {
		all = append(all, &t.Clusters[i].Saturation)
	}
	for _, c := range all {
		if !slices.ContainsFunc(*c, func(v int64) bool { return v != 0 }) {
			*c = nil
		}
	}
}
