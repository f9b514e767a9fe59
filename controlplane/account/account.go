// Package account keeps what requests used and what they and idle clusters cost: by minute for as long as late
// usage may come, then by hour and by day. It is part of the replicated state, and changes only by commands that
// give the same account on every node. Reading it is [Account.Ask].
//
// What clusters cost and what work weighs is told by the commands; package billing makes them.
package account

import (
	"cmp"
	"slices"
	"time"

	"anabranch/controlplane/state/statepb"
)

// Bounds of what is kept, counted back from the last minute that is closed. DESIGN.md has the sum of them.
const (
	// MinutesKept is for how many minutes late usage pays its share of what clusters cost.
	MinutesKept = 120
	// HoursKept and DaysKept are how many hours are kept behind the minutes, and days behind the hours.
	HoursKept = 8 * 24
	DaysKept  = 100
	// MaxOpen is how many minutes may wait to be closed that have usage. Usage of more is counted in one of them.
	MaxOpen = 200
	// MaxMinute, MaxHour and MaxDay are the bytes that one may take, of some 30 to 45 for each key. What is the
	// least is put together beyond that.
	MaxMinute = 32 << 10
	MaxHour   = 40 << 10
	MaxDay    = 40 << 10
	// MaxRuns is how many runs of routers are remembered, MaxRunsEach those of one router, and RunFor how long
	// one that says nothing, by the time of commands. What a router sends again after that is counted again.
	MaxRuns     = 10_000
	MaxRunsEach = 16
	RunFor      = 48 * time.Hour
	// MaxGaps is how many times without bills are remembered, the newest.
	MaxGaps = 64
	// MaxClosed is how many minutes one command may close.
	MaxClosed = 240
	// MaxName bounds names in bytes. What has a longer one is counted as [costmodel.Other]. MaxRunName bounds
	// those of runs.
	MaxName    = 128
	MaxRunName = 256
)

// Lengths of intervals, in seconds.
const (
	minute = 60
	hour   = 3600
	day    = 24 * hour
)

// Account never changes: commands give a new one. The zero Account is one that has not begun.
type Account struct {
	begun, closed int64 // start of the first minute, end of the last one closed; 0: it has not begun
	// By start. What has left the minutes is in the hours, and what has left these in the days.
	minutes, hours, days []*statepb.AccountSpan
	gaps                 []*statepb.AccountGap
	runs                 []*statepb.UsageRun // by name
	lost                 int64
}

// Refusal says why a command does nothing.
type Refusal struct {
	// Stale: another command was first. Else it is wrong.
	Stale          bool
	Field, Message string
}

// Begun is the start of the first minute of the account; zero: it has not begun, and counts nothing yet.
func (a Account) Begun() time.Time { return moment(a.begun) }

// Closed is the end of the last minute that is closed; zero: the account has not begun.
func (a Account) Closed() time.Time { return moment(a.closed) }

// Lost is how many answers were told of that belong to no time that is kept.
func (a Account) Lost() int64 { return a.lost }

// Gaps are the times in which nothing was billed, the oldest first.
func (a Account) Gaps() []Gap {
	out := make([]Gap, len(a.gaps))
	for i, g := range a.gaps {
		out[i] = Gap{moment(g.GetFromUnixS()), moment(g.GetUntilUnixS())}
	}
	return out
}

// Gap is a time for which clusters were not billed.
type Gap struct{ From, Until time.Time }

// floors are the starts of the oldest minute, hour and day that are kept.
func (a Account) floors() (minutes, hours, days int64) {
	minutes = a.closed - MinutesKept*minute
	hours = floor(minutes, hour) - HoursKept*hour
	days = floor(hours, day) - DaysKept*day
	return minutes, hours, days
}

// floor rounds down to a multiple, also below 0.
func floor(at, multiple int64) int64 {
	rest := at % multiple
	if rest < 0 {
		rest += multiple
	}
	return at - rest
}

func moment(unixS int64) time.Time {
	if unixS == 0 {
		return time.Time{}
	}
	return time.Unix(unixS, 0).UTC()
}

func find(list []*statepb.AccountSpan, start int64) (int, bool) {
	return slices.BinarySearchFunc(list, start, func(s *statepb.AccountSpan, start int64) int { return cmp.Compare(s.GetStartUnixS(), start) })
}
