package rls

import (
	"context"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"anabranch/api/fleet"
	"anabranch/dataplane/admit"
	"anabranch/dataplane/table"
)

// maxDescriptors of a call, which have a bit each in an ask. Envoy sends one for each rate limit of a
// route and its virtual host.
const maxDescriptors = 32

// judging is the room that a call is judged in.
type judging struct {
	wishes   []wish
	asks     []ask
	verdicts []verdict
	takings  []taking
}

// rooms that are free.
var rooms = sync.Pool{New: func() any { return new(judging) }}

// leave makes the room ready for the next call.
func (j *judging) leave() {
	clear(j.wishes)
	clear(j.asks)
	clear(j.verdicts)
	clear(j.takings)
	j.wishes, j.asks, j.verdicts, j.takings = j.wishes[:0], j.asks[:0], j.verdicts[:0], j.takings[:0]
	rooms.Put(j)
}

// ShouldRateLimit implements the service. It answers with an error only where it can't judge, and
// leaves it to Envoy's failure mode what becomes of the request then.
func (s *Server) ShouldRateLimit(ctx context.Context, q *rlsv3.RateLimitRequest) (out *rlsv3.RateLimitResponse, err error) {
	began := s.o.Now()
	outcome := outcomeDefect
	defer func() {
		if fault := recover(); fault != nil {
			s.log.Error("defect in the rate limit service", slog.Any("fault", fault), slog.String("stack", string(debug.Stack())))
			out, err = nil, status.Error(codes.Internal, "defect of the rate limit service")
		}
		s.metrics.called(q.GetDomain(), outcome, s.o.Now().Sub(began))
	}()
	defer s.atOnce.Add(-1)
	if s.atOnce.Add(1) > int64(s.o.MostAtOnce) {
		outcome = outcomeBusy
		return nil, status.Error(codes.Unavailable, "as many calls are being judged as may be")
	}
	switch n := len(q.GetDescriptors()); {
	case q.GetDomain() == "":
		outcome = outcomeInvalid
		return nil, status.Error(codes.InvalidArgument, "domain is empty: set it in the rate limit filter")
	case n == 0:
		outcome = outcomeInvalid
		return nil, status.Error(codes.InvalidArgument, "there are no descriptors: one is needed")
	case n > maxDescriptors:
		outcome = outcomeInvalid
		return nil, status.Errorf(codes.InvalidArgument, "there are %d descriptors, at most %d are read", n, maxDescriptors)
	}
	if !slices.Contains(s.o.Domains, q.GetDomain()) {
		outcome = outcomeUnknown
		return nothing(len(q.GetDescriptors())), nil
	}
	t := s.o.Tables.Load()
	if t == nil {
		outcome = outcomeNotReady
		return nil, status.Error(codes.Unavailable, "this router has no table yet")
	}
	out, outcome = s.judge(ctx, t, q, began)
	return out, nil
}

// judge answers a call that can be judged.
func (s *Server) judge(ctx context.Context, t *table.Table, q *rlsv3.RateLimitRequest, now time.Time) (*rlsv3.RateLimitResponse, string) {
	j := rooms.Get().(*judging)
	defer j.leave()
	passed := false
	defer func() {
		if !passed { // the call as a whole is refused, or a defect ended it: it is charged nothing
			for i := range j.takings {
				j.takings[i].of.Settle(0, 0, 0)
			}
		}
	}()
	for _, d := range q.GetDescriptors() {
		w := read(d, q.GetHitsAddend())
		w.identify(t, now)
		j.wishes = append(j.wishes, w)
	}
	j.asks = join(j.asks, j.wishes)
	outcome := outcomeUnknown
	for i := range j.asks {
		a := &j.asks[i]
		q, ok := subject(t, a)
		if !ok {
			continue
		}
		if a.done {
			s.finish(t, a, q)
			outcome = outcomeDone
			continue
		}
		x := taking{ask: a, amounts: a.begin()}
		q.Requests, q.Input, q.Output, q.Budget = counted(x.amounts.requests), x.amounts.input, x.amounts.output, s.o.Budget
		r, d := s.o.Quotas.Take(ctx, t, q)
		j.verdicts = append(j.verdicts, verdict{a, d})
		switch {
		case d.Allowed:
			x.of = r
			j.takings = append(j.takings, x)
			if outcome != outcomeShadow {
				outcome = outcomeOK
			}
		case a.shadow:
			outcome = outcomeShadow
		default:
			return answer(j.wishes, j.verdicts), outcomeOver
		}
	}
	passed = true
	for i := range j.takings {
		s.keep(&j.takings[i], now)
	}
	return answer(j.wishes, j.verdicts), outcome
}

// subject is who an ask is about, as the table knows them; not ok: it knows no such tenant. A model that it
// doesn't know is none.
func subject(t *table.Table, a *ask) (q admit.Request, ok bool) {
	q.Tenant, ok = t.Tenant(fleet.TenantID(a.tenant))
	if a.model != "" {
		q.Model, _, _ = t.Model(a.model)
	}
	q.Key = a.key
	return q, ok
}

// taking is what was taken for an ask.
type taking struct {
	ask     *ask
	amounts amounts
	of      reservation
}

// keep settles a request of which nothing more will be told, and keeps one whose end will be.
func (s *Server) keep(x *taking, now time.Time) {
	m := &x.amounts
	requests, input, output := m.requests-m.backRequests, m.input-m.backInput, m.output-m.backOutput
	if x.ask.id == "" {
		x.of.Settle(requests, input, output)
		return
	}
	h := &held{name: x.ask.name(), of: x.of, requests: requests, input: input, output: output}
	if out, why := s.open.put(h, now); out != nil {
		out.estimate()
		s.metrics.ended(why)
	}
}

// finish settles a request that has ended, and charges what one used that is not known here.
func (s *Server) finish(t *table.Table, a *ask, q admit.Request) {
	if a.id != "" {
		if h := s.open.take(a.name()); h != nil {
			h.of.Settle(a.end(h.requests, h.input, h.output))
			s.metrics.ended(endTold)
			return
		}
		s.metrics.strays.Inc()
	}
	requests, input, output := a.end(0, 0, 0)
	q.Requests, q.Input, q.Output = counted(requests), input, output
	s.o.Quotas.Charge(t, q)
}

// counted says so many requests as [admit.Request] does, to which 0 is one.
func counted(requests int64) int64 {
	if requests == 0 {
		return -1
	}
	return requests
}

func (a *ask) name() name { return name{fleet.TenantID(a.tenant), a.id} }
