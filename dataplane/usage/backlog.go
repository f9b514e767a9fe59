package usage

import (
	"maps"
	"slices"
	"sort"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
)

const (
	hour = 3600
	day  = 24 * hour
)

// backlog is what was used in times that the control plane has not been told of.
type backlog struct {
	maxLines, maxIntervals int
	all                    []*interval // by start; they do not overlap
	lines                  int
}

// interval is a minute, or several, from start to before end in Unix seconds.
type interval struct {
	start, end int64
	lines      map[Key]Use
}

// add keeps what was used in the minute that begins at start.
func (b *backlog) add(start int64, used map[Key]Use) {
	if len(used) == 0 {
		return
	}
	at := sort.Search(len(b.all), func(i int) bool { return b.all[i].end > start })
	if at == len(b.all) || b.all[at].start > start {
		b.all = slices.Insert(b.all, at, &interval{start: start, end: start + 60, lines: used})
		b.lines += len(used)
		return
	}
	b.lines += b.all[at].add(used)
}

// add answers how many lines came on top.
func (v *interval) add(used map[Key]Use) int {
	before := len(v.lines)
	for k, u := range used {
		v.lines[k] = v.lines[k].plus(u)
	}
	return len(v.lines) - before
}

// shrink puts together what is the oldest until there is not too much of it, and answers how many times
// became part of longer ones, or lost their tenants.
func (b *backlog) shrink() (n int) {
	for b.lines > b.maxLines || len(b.all) > b.maxIntervals {
		at := b.within(hour)
		if at < 0 {
			at = b.within(day)
		}
		if at < 0 && len(b.all) > 2 {
			at = 0 // the newest is left as it is: it may be the minute that is running
		}
		switch {
		case at >= 0:
			b.join(at)
		case !b.forget():
			return n
		}
		n++
	}
	return n
}

// within finds the oldest that lies in the same hour, or day, as the one after it; not the newest. -1: there
// is none.
func (b *backlog) within(span int64) int {
	for i := 0; i+2 < len(b.all); i++ {
		if b.all[i].start/span == (b.all[i+1].end-1)/span {
			return i
		}
	}
	return -1
}

// join makes one of an interval and the one after it.
func (b *backlog) join(at int) {
	v, next := b.all[at], b.all[at+1]
	v.end = next.end
	b.lines += v.add(next.lines) - len(next.lines)
	b.all = slices.Delete(b.all, at+1, at+2)
}

// forget lets go of the tenants of the oldest that has some. False: none has.
func (b *backlog) forget() bool {
	for _, v := range b.all {
		anybodys := make(map[Key]Use)
		for k, u := range v.lines {
			anybodys[k.anybodys()] = anybodys[k.anybodys()].plus(u)
		}
		if len(anybodys) < len(v.lines) {
			b.lines += len(anybodys) - len(v.lines)
			v.lines = anybodys
			return true
		}
	}
	return false
}

// maxTold is how many minutes one message tells of: the account takes the time that each needs on all nodes.
const maxTold = 60

// take hands over what ended before a time, the oldest first, up to about so many bytes.
func (b *backlog) take(before int64, most int) []*routerpb.UsageMinute {
	var out []*routerpb.UsageMinute
	size := 0
	for len(b.all) > 0 && b.all[0].end <= before && size < most && len(out) < maxTold {
		v := b.all[0]
		m := &routerpb.UsageMinute{MinuteUnixS: v.start}
		if minutes := (v.end - v.start) / 60; minutes > 1 {
			m.Minutes = uint32(minutes)
		}
		for _, k := range slices.SortedFunc(maps.Keys(v.lines), Key.compare) {
			line := v.lines[k].proto(k)
			if size += proto.Size(line) + 8; len(m.Lines) > 0 && size > most {
				break
			}
			m.Lines = append(m.Lines, line)
			delete(v.lines, k)
			b.lines--
		}
		out = append(out, m)
		if len(v.lines) == 0 {
			b.all = b.all[1:]
		}
	}
	return out
}

func (u Use) proto(k Key) *routerpb.UsageLine {
	return &routerpb.UsageLine{
		Tenant: string(k.Tenant), Model: string(k.Model), Class: string(k.Class), Cluster: string(k.Cluster),
		Input: u.Input, Cached: u.Cached, Output: u.Output, Succeeded: u.Succeeded, Failed: u.Failed, Bytes: u.Bytes, Estimated: u.Estimated,
	}
}
