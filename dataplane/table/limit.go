package table

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/ratelimit"
)

// wire names the kinds of limit as messages do, with what they are to package ratelimit.
var wire = map[string]ratelimit.Kind{
	"requests":            ratelimit.Requests,
	"input-tokens":        ratelimit.InputTokens,
	"output-tokens":       ratelimit.OutputTokens,
	"total-tokens":        ratelimit.TotalTokens,
	"concurrent-requests": ratelimit.Slots,
	"money":               ratelimit.Money,
}

// step is a limit on its way into paths.
type step struct {
	limit  Limit
	shadow bool
	keys   [][]byte // of API keys, to which it is narrowed; none: all
}

// rank orders the steps of a path.
func (s *step) rank() int {
	switch {
	case s.limit.Tenant == "":
		return 0
	case len(s.keys) > 0:
		return 3
	case s.limit.Model != "":
		return 2
	}
	return 1
}

// limit judges one quota.
func limit(at string, p *routerpb.Quota) (step, error) {
	l := Limit{
		Limit: ratelimit.Limit{
			ID: p.GetId(), Kind: wire[p.GetKind()], Amount: p.GetLimit(), PeriodMs: p.GetPeriodMs(), Burst: p.GetBurst(),
		},
		Tenant: fleet.TenantID(p.GetTenant()), Model: fleet.ModelID(p.GetModel()),
		Degraded: p.GetDegraded(), Cut: p.GetOverrun() == "cut",
	}
	s := step{limit: l, shadow: p.GetShadow(), keys: p.GetKeySha256()}
	switch {
	case !name(l.ID):
		return s, invalid(CodeValue, at+".id", "is not 1 to %d printable bytes", maxID)
	case l.Kind == "":
		return s, invalid(CodeValue, at+".kind", "is %q", p.GetKind())
	case !slices.Contains([]string{"", DegradedShare, DegradedOpen, DegradedClosed}, l.Degraded):
		return s, invalid(CodeValue, at+".degraded", "is %q, want share, open or closed", l.Degraded)
	case !slices.Contains([]string{"", "finish", "cut"}, p.GetOverrun()):
		return s, invalid(CodeValue, at+".overrun", "is %q, want finish or cut", p.GetOverrun())
	case l.Tenant == "" && len(s.keys) > 0:
		return s, invalid(CodeValue, at+".key_sha256", "is of no tenant")
	}
	if s.limit.Degraded == "" {
		s.limit.Degraded = DegradedShare
	}
	if l.Kind == ratelimit.Slots || l.Kind == ratelimit.Money {
		s.limit.Burst, s.limit.PeriodMs = l.Amount, 0
	}
	level := ratelimit.Level{Limit: s.limit.Limit}
	if l.Kind == ratelimit.Money {
		if err := s.limit.budget(at, p); err != nil {
			return s, err
		}
		level.Window.NextUs = 1 // the windows are made of calendar and place, which are right
	}
	switch err := level.ValidateRule(); {
	case errors.Is(err, ratelimit.ErrTooLarge):
		return s, invalid(CodeLarge, at+".limit", "%v", err)
	case err != nil:
		return s, invalid(CodeValue, at+".limit", "%v", err)
	}
	return s, nil
}

// budget judges what only money has.
func (l *Limit) budget(at string, p *routerpb.Quota) error {
	l.Calendar = ratelimit.Calendar(p.GetCalendar())
	if l.Calendar != ratelimit.Daily && l.Calendar != ratelimit.Monthly {
		return invalid(CodeValue, at+".calendar", "is %q, want day or month", p.GetCalendar())
	}
	var err error
	if l.Place, err = place(p.GetTimeZone()); err != nil {
		return invalid(CodeValue, at+".time_zone", "%q is not in the time zone database", p.GetTimeZone())
	}
	last := 0
	for j, w := range p.GetWarnPercent() {
		if w > 100 || int(w) <= last {
			return invalid(CodeValue, fmt.Sprintf("%s.warn_percent[%d]", at, j), "is %d, want more than %d and at most 100", w, last)
		}
		last = int(w)
		l.Warn = append(l.Warn, last)
	}
	return nil
}

// places are the time zones found so far, by name. There are some 600 at most.
var places sync.Map

// place finds a time zone; empty is UTC.
func place(name string) (*time.Location, error) {
	if p, ok := places.Load(name); ok {
		return p.(*time.Location), nil
	}
	if name == time.Local.String() {
		return nil, errors.New("the machine's own time zone is another on each router")
	}
	p, err := time.LoadLocation(name)
	if err != nil {
		return nil, err
	}
	places.Store(name, p)
	return p, nil
}
