package usage

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

// batch is a command in the making.
type batch struct {
	command *statepb.CountUsage
	minutes map[int64]map[costmodel.Line]costmodel.Usage // by start, and by line without its usage
	latest  int64                                        // of the minutes, the one that was added last
	bytes   int                                          // of the command, about

	tokens, estimated int64 // that are counted, and of them those that no model server told of
	unknown           int   // names that nobody knows
}

// batch makes a command of messages that are not counted, as many as fit. Nil: there are none.
func (g *Gatherer) batch(view *state.View) *batch {
	if !Open(view) {
		return nil
	}
	waiting := g.unseen(view)
	if len(waiting) == 0 {
		return nil
	}
	known := g.names.of(view)
	for most := maxBatch; ; most /= 2 {
		b := gather(waiting, known, most)
		g.price(view, b)
		if proto.Size(b.command) <= maxCommand {
			return b
		}
		if len(b.command.GetRuns()) == 1 { // no router makes such
			b.fold()
			g.price(view, b)
			return b
		}
	}
}

// gather adds up messages to about so many bytes, and one at the least.
func gather(waiting []*message, known *known, most int) *batch {
	b := &batch{command: &statepb.CountUsage{}, minutes: map[int64]map[costmodel.Line]costmodel.Usage{}}
	for i, m := range waiting {
		if i > 0 && (b.bytes+len(m.run)+m.bytes > most || b.minutesWith(m) > maxMinutes) {
			break
		}
		b.add(m, known)
	}
	slices.SortFunc(b.command.GetRuns(), func(x, y *statepb.UsageRun) int { return cmp.Compare(x.GetRun(), y.GetRun()) })
	return b
}

// price makes the command's minutes.
func (g *Gatherer) price(view *state.View, b *batch) {
	b.command.Minutes = nil
	for _, start := range slices.Sorted(maps.Keys(b.minutes)) {
		lines := make([]costmodel.Line, 0, len(b.minutes[start]))
		for l, u := range b.minutes[start] {
			l.Usage = u
			lines = append(lines, l)
		}
		slices.SortFunc(lines, compare)
		b.command.Minutes = append(b.command.Minutes, g.o.Price(view, time.Unix(start, 0).UTC(), lines))
	}
}

// minutesWith is how many minutes the command would count for if a message were added.
func (b *batch) minutesWith(m *message) int {
	more := map[int64]struct{}{}
	for _, minute := range m.said.GetMinutes() {
		if start := startOf(minute); b.minutes[start] == nil {
			more[start] = struct{}{}
		}
	}
	return len(b.minutes) + len(more)
}

// startOf is the minute that a message counts for.
func startOf(m *routerpb.UsageMinute) int64 { return max(m.GetMinuteUnixS(), 0) / 60 * 60 }

// lineOverhead is about what a line of a command takes beside its names, in bytes.
const lineOverhead = 64

// add takes in a message. What a router has put together, since it was cut off, is counted in the first of
// its minutes.
func (b *batch) add(m *message, known *known) {
	b.bytes += len(m.run) + 16
	b.command.Runs = append(b.command.Runs, &statepb.UsageRun{Run: m.run, Sequence: m.said.GetSequence()})
	for _, minute := range m.said.GetMinutes() {
		start := startOf(minute)
		if b.minutes[start] == nil && len(b.minutes) >= maxMinutes {
			start = b.latest
		}
		lines := b.minutes[start]
		if lines == nil {
			lines, b.latest = map[costmodel.Line]costmodel.Usage{}, start
			b.minutes[start] = lines
		}
		for _, said := range minute.GetLines() {
			k, unknown := known.line(said)
			k.Source = m.from
			if _, there := lines[k]; !there {
				b.bytes += len(k.Tenant) + len(k.Model) + len(k.Class) + 2*len(k.Cluster) + len(k.Source) + lineOverhead
			}
			u := usageOf(said)
			lines[k] = lines[k].Plus(u)
			b.unknown += unknown
			b.tokens += u.Input + u.Output
			b.estimated += min(bounded(said.GetEstimated()), u.Input+u.Output)
		}
	}
}

// fold forgets all but clusters and sources, and when it was but for the first minute.
func (b *batch) fold() {
	lines, first := map[costmodel.Line]costmodel.Usage{}, int64(math.MaxInt64)
	for start, all := range b.minutes {
		first = min(first, start)
		for l, u := range all {
			k := costmodel.Line{Tenant: costmodel.Other, Model: costmodel.Other, Class: costmodel.Other, Cluster: l.Cluster, Source: l.Source}
			lines[k] = lines[k].Plus(u)
			b.unknown++
		}
	}
	b.minutes = map[int64]map[costmodel.Line]costmodel.Usage{first: lines}
}

// usageOf is what a line counts, within bounds.
func usageOf(l *routerpb.UsageLine) costmodel.Usage {
	u := costmodel.Usage{
		Input: bounded(l.GetInput()), Cached: bounded(l.GetCached()), Output: bounded(l.GetOutput()),
		Succeeded: bounded(l.GetSucceeded()), Failed: bounded(l.GetFailed()), Bytes: bounded(l.GetBytes()),
	}
	u.Cached = min(u.Cached, u.Input)
	return u
}

func bounded(n int64) int64 { return min(max(n, 0), MaxCount) }

func compare(a, b costmodel.Line) int {
	return cmp.Or(
		cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Model, b.Model),
		cmp.Compare(a.Class, b.Class), cmp.Compare(a.Source, b.Source),
	)
}

// line is the key of a line, with [costmodel.Other] for each name that nobody knows, and how many these are.
func (k *known) line(l *routerpb.UsageLine) (line costmodel.Line, unknown int) {
	name := func(s string, there func(string) bool) string {
		if s == "" || s == costmodel.Other || there(s) {
			return s
		}
		unknown++
		return costmodel.Other
	}
	return costmodel.Line{
		Tenant:  fleet.TenantID(name(l.GetTenant(), k.tenant)),
		Model:   fleet.ModelID(name(l.GetModel(), k.model)),
		Class:   fleet.ClassID(name(l.GetClass(), k.class)),
		Cluster: fleet.ClusterID(name(l.GetCluster(), k.cluster)),
	}, unknown
}
