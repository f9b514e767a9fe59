package publish

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/state"
	"anabranch/controlplane/usage"
)

// Usages takes in what clients of routers used, until the state has counted it.
type Usages interface {
	// Take must not wait. An error says what is wrong with the message.
	Take(fleet.RouterID, fleet.RegionID, *routerpb.UsageReport) error
}

// consumption is the account's side of a session. Only the session's goroutine touches it.
type consumption struct {
	on      bool // the router takes part
	greeted bool // it knows that there is an account
	// run and sequence are of its newest message that is not acknowledged; sequence 0: there is none.
	run      string
	sequence uint64
}

// used hears what the router's clients used.
func (x *session) used(m *routerpb.UsageReport) error {
	if x.s.o.Usages == nil {
		return nil
	}
	if err := x.s.o.Usages.Take(x.router, x.region, m); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	x.consumption.run, x.consumption.sequence = usage.Name(x.router, m.GetRun()), m.GetSequence()
	return nil
}

// taken is what to tell the router of the account now, nil if nothing, and the session's side of it once it is
// on its way.
func (x *session) taken(view *state.View) (*routerpb.ToRouter, consumption) {
	c := x.consumption
	if !c.on || x.s.o.Usages == nil || !usage.Open(view) {
		return nil, c
	}
	m := &routerpb.UsageTaken{}
	switch {
	case c.sequence != 0 && view.Account().Counted(c.run) >= c.sequence:
		m.Sequence, c.sequence = c.sequence, 0
	case c.greeted:
		return nil, c
	}
	c.greeted = true
	return &routerpb.ToRouter{Body: &routerpb.ToRouter_UsageTaken{UsageTaken: m}}, c
}
