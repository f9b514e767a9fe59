package subscribe

import (
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// Requests are what a router remembers of requests, hands over of those that end, and sees of where they
// go. The control plane asks over the stream, for its users.
type Requests interface {
	// Explain gives the record of a request by the router's own name of it.
	Explain(id string) *routerpb.Explained
	// Tail begins to collect the records that a filter wants, at most so many a second. Nil: there are
	// too many tails.
	Tail(filter *routerpb.DecisionFilter, perSecond uint32) Tail
	// Inspect tells how the places of a cluster stand, of so many at most; 0: as many as it tells at most.
	Inspect(cluster fleet.ClusterID, most uint32) *routerpb.Inspected
}

// Tail collects records until it is stopped. Nobody waits for whoever takes them.
type Tail interface {
	// Take hands over what has come since the call before, as far as it fits into a message, and how
	// many more there would have been.
	Take() (records [][]byte, dropped uint64)
	// Stop is called once, and nothing after it.
	Stop()
}

const (
	// tellEvery is how often what tails have collected is sent.
	tellEvery = 200 * time.Millisecond
	// defaultLease is how long a tail goes on without being renewed, unless it says so itself, and
	// maxLease the most that it may say.
	defaultLease, maxLease = 10 * time.Second, time.Minute
	// maxTails bounds the tails of a stream, stopped ones that nobody has renewed included.
	maxTails = 64
)

// inquiries are the questions of one stream. Only its session's goroutine touches them.
type inquiries struct {
	to    Requests // nil: nobody is asked
	tails map[uint64]*leased
	tick  *time.Ticker // nil: there are no tails
}

// leased is a tail and the time when it ends by itself.
type leased struct {
	Tail
	until time.Time
}

// features are what this router can be asked.
func (q *inquiries) features() []routerpb.Feature {
	if q.to == nil {
		return nil
	}
	return []routerpb.Feature{routerpb.Feature_FEATURE_EXPLAIN, routerpb.Feature_FEATURE_TAIL, routerpb.Feature_FEATURE_INSPECT}
}

// due ticks while there are tails.
func (q *inquiries) due() <-chan time.Time {
	if q.tick == nil {
		return nil
	}
	return q.tick.C
}

// explain answers a question. Nil: there is nobody to ask, which the hello said.
func (q *inquiries) explain(m *routerpb.Explain) *routerpb.FromRouter {
	if q.to == nil {
		return nil
	}
	answer := q.to.Explain(m.GetRequestId())
	answer.Number = m.GetNumber()
	return &routerpb.FromRouter{Body: &routerpb.FromRouter_Explained{Explained: answer}}
}

// inspect answers a question about a cluster. Nil: as with explain.
func (q *inquiries) inspect(m *routerpb.Inspect) *routerpb.FromRouter {
	if q.to == nil {
		return nil
	}
	answer := q.to.Inspect(fleet.ClusterID(m.GetCluster()), m.GetMost())
	answer.Number = m.GetNumber()
	return &routerpb.FromRouter{Body: &routerpb.FromRouter_Inspected{Inspected: answer}}
}

// follow begins a tail or renews its lease. The answer to a new one says whether it is refused.
func (q *inquiries) follow(m *routerpb.Tail, now time.Time) *routerpb.FromRouter {
	lease := time.Duration(m.GetLeaseMs()) * time.Millisecond
	if lease == 0 {
		lease = defaultLease
	}
	until := now.Add(min(lease, maxLease))
	if known := q.tails[m.GetNumber()]; known != nil {
		known.until = until
		return nil
	}
	if q.to == nil {
		return nil
	}
	var tail Tail
	if len(q.tails) < maxTails {
		tail = q.to.Tail(m.GetFilter(), m.GetRatePerS())
	}
	if tail == nil {
		return decisions(&routerpb.Decisions{Number: m.GetNumber(), Refused: true})
	}
	if q.tick == nil {
		q.tails, q.tick = map[uint64]*leased{}, time.NewTicker(tellEvery)
	}
	q.tails[m.GetNumber()] = &leased{Tail: tail, until: until}
	return decisions(&routerpb.Decisions{Number: m.GetNumber()})
}

// tell gives what the tails have collected, and ends those whose lease is over.
func (q *inquiries) tell(now time.Time) []*routerpb.FromRouter {
	var out []*routerpb.FromRouter
	for number, tail := range q.tails {
		if !now.Before(tail.until) {
			q.stop(number)
			continue
		}
		if records, dropped := tail.Take(); len(records) > 0 || dropped > 0 {
			out = append(out, decisions(&routerpb.Decisions{Number: number, Records: records, Dropped: dropped}))
		}
	}
	return out
}

func decisions(m *routerpb.Decisions) *routerpb.FromRouter {
	return &routerpb.FromRouter{Body: &routerpb.FromRouter_Decisions{Decisions: m}}
}

// stop ends a tail, if there is one of that number.
func (q *inquiries) stop(number uint64) {
	tail := q.tails[number]
	if tail == nil {
		return
	}
	delete(q.tails, number)
	tail.Stop()
	if len(q.tails) == 0 {
		q.tick.Stop()
		q.tick, q.tails = nil, nil
	}
}

// end stops all tails: the stream is over.
func (q *inquiries) end() {
	for number := range q.tails {
		q.stop(number)
	}
}
