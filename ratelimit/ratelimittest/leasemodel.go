package ratelimittest

import (
	"slices"
	"sort"
	"time"

	"anabranch/ratelimit"
)

// leaseModel is an authority as one would write it down: every lease on its own, with the time at
// which it ends, and buckets in fractions of a unit. It is for a clock that runs forwards, a ttl
// that stays and limits that stay, and shares no arithmetic with the package.
type leaseModel struct {
	ttl     int64
	levels  map[string]*modelLevel
	lanes   map[string]modelLane
	regions modelRegions
}

type modelLane struct {
	seq int64
	out ratelimit.Out
}

// modelLevel counts in parts: a unit has as many as the limit's period has time units.
type modelLevel struct {
	level  ratelimit.Level
	aside  int64 // shares of regions that are missed, of slots
	parts  int64
	stamp  int64 // of a rate, by the organisation's flow
	leases []modelLease
}

type modelLease struct {
	lane string
	ends int64
	n    int64
}

func newLeaseModel(ttl time.Duration) *leaseModel {
	return &leaseModel{
		ttl: ttl.Microseconds(), levels: map[string]*modelLevel{}, lanes: map[string]modelLane{},
		regions: modelRegions{known: map[string]*modelRegion{}},
	}
}

func (l *modelLevel) size() int64 {
	if l.level.Limit.Kind == ratelimit.Slots || l.level.Limit.Kind == ratelimit.Money {
		return 1
	}
	return l.level.Limit.Period()
}

func (l *modelLevel) leased() (sum int64) {
	for _, x := range l.leases {
		sum += x.n
	}
	return sum
}

func (l *modelLevel) room() int64 {
	room := l.level.Limit.Burst - l.leased()
	if l.level.Limit.Kind == ratelimit.Slots && l.level.Alone && l.aside > 0 {
		room -= (l.level.Limit.Burst*l.aside-1)/ratelimit.ShareParts + 1
	}
	return room
}

// units is the whole units, and set changes them and leaves the parts of one.
func (l *modelLevel) units() int64 {
	size := l.size()
	return (l.parts - (l.parts%size+size)%size) / size
}

func (l *modelLevel) set(units int64) {
	size := l.size()
	l.parts = units*size + (l.parts%size+size)%size
}

func (l *modelLevel) fill(to int64) {
	switch l.level.Limit.Kind {
	case ratelimit.Slots:
		l.parts = l.room()
		return
	case ratelimit.Money:
		l.parts = min(l.parts, l.room())
		return
	}
	unit := l.level.Limit.Unit()
	n := (to - l.stamp) / unit
	l.parts += n * l.level.Limit.Amount
	l.stamp += n * unit
	if full := l.room() * l.size(); l.parts >= full {
		l.parts, l.stamp = full, to
	}
}

// at ends leases one after the other, each at its time.
func (l *modelLevel) at(now int64, r *modelRegions) {
	sort.SliceStable(l.leases, func(i, j int) bool { return l.leases[i].ends < l.leases[j].ends })
	for len(l.leases) > 0 && l.leases[0].ends <= now {
		end := l.leases[0].ends
		if l.level.Limit.Kind != ratelimit.Slots {
			l.fill(r.flow(end))
		}
		l.leases = slices.DeleteFunc(l.leases, func(x modelLease) bool { return x.ends == end })
	}
	if from := l.level.Window.FromUs; l.level.Limit.Kind == ratelimit.Money && l.stamp < from {
		l.parts, l.stamp = l.room(), from
	}
	l.fill(r.flow(now))
}

func (m *leaseModel) lease(in ratelimit.In, now int64) ratelimit.Out {
	lane := in.Lane()
	last := m.lanes[lane]
	if in.Seq == last.seq {
		return last.out
	}
	if in.Seq < last.seq {
		return ratelimit.Out{Status: ratelimit.Late, Epoch: in.Epoch}
	}
	out := ratelimit.Out{Status: ratelimit.Granted, Epoch: in.Epoch, Valid: in.TTL}
	aside := m.regions.at(now, &in)
	busy := false
	ends := (now/m.ttl + 2) * m.ttl
	scarce := int64(1 << 16)
	for i, told := range in.Path {
		l := m.levels[told.Limit.ID]
		if l == nil {
			l = &modelLevel{level: told, stamp: m.regions.flow(now)}
			l.set(told.Limit.Burst)
			m.levels[told.Limit.ID] = l
		}
		l.level, l.aside = told, aside
		l.at(now, &m.regions)
		var before int64 // what it last heard that it holds
		if i < len(last.out.Path) {
			before = last.out.Path[i].Held
		}
		beyond := max(0, told.Used-before)
		carried, back := int64(0), int64(0)
		if l.level.Limit.Kind == ratelimit.Money {
			back = max(0, before-told.Used) // unless the lease lives on
		}
		l.leases = slices.DeleteFunc(l.leases, func(x modelLease) bool {
			if x.lane != lane {
				return false
			}
			carried = max(0, x.n-told.Used)
			back = min(carried, told.Back)
			carried -= back
			return true
		})
		if carried > 0 {
			l.leases = append(l.leases, modelLease{lane, ends, carried})
		}
		l.set(min(max(l.units()+back+told.Refund-beyond, -l.level.Limit.Burst), l.room()))
		if l.level.Limit.Kind == ratelimit.Slots {
			l.parts = l.room()
		}
		there := max(0, l.units())
		if there < told.Want {
			for scarce > 0 && (scarce-1)*told.Want >= there<<16 {
				step := max(1, (scarce-1)-(there<<16)/told.Want)
				scarce -= step
			}
		}
		out.Path = append(out.Path, ratelimit.Grant{Held: carried})
	}
	for i, told := range in.Path {
		l := m.levels[told.Limit.ID]
		g := &out.Path[i]
		wanted := told.Want * scarce >> 16
		if told.Want*scarce&(1<<16-1) != 0 {
			wanted++
		}
		g.Granted = min(wanted, max(0, l.units()))
		g.Held += g.Granted
		l.set(l.units() - g.Granted)
		g.Level = l.units()
		l.leases = slices.DeleteFunc(l.leases, func(x modelLease) bool { return x.lane == lane })
		if g.Held > 0 {
			l.leases = append(l.leases, modelLease{lane, ends, g.Held})
		}
		busy = busy || g.Held > 0 || told.Want > 0
	}
	out.Gap = m.regions.hear(now, &in, busy, ends)
	m.lanes[lane] = modelLane{in.Seq, out}
	return out
}
