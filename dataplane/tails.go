package dataplane

import (
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/routerpb"
	"anabranch/dataplane/subscribe"
)

const (
	// maxTails is how many tails a router serves: each costs every request a look.
	maxTails = 64
	// tailRate is how many records a second a tail gets unless it asks for another number, and
	// tailRateMost the most that it may ask for.
	tailRate, tailRateMost = 50, 1000
	// tailHeld is how many records wait for whoever takes them.
	tailHeld = 256
	// recordBytes bounds one record on the stream, takenBytes the records of one message.
	recordBytes, takenBytes = 512 << 10, 1 << 20
	// recordPlaces is how many of the clusters a record keeps that would be longer.
	recordPlaces = 50
)

// tails hand the records of requests that end to whoever follows them. With nobody there, a request
// pays for one look at a pointer.
type tails struct {
	now func() time.Time

	mu   sync.Mutex // guards changes of list
	list atomic.Pointer[[]*tail]

	told, dropped prometheus.Counter
}

func newTails(now func() time.Time, r prometheus.Registerer) (*tails, error) {
	t := &tails{
		now: now,
		told: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "anabranch_router_decisions_told_total", Help: "Records of requests that were handed to tails.",
		}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "anabranch_router_decisions_dropped_total",
			Help: "Records of requests that a tail wanted and did not get, because they were above its rate or nobody took them.",
		}),
	}
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "anabranch_router_tails", Help: "Tails of decisions that the control plane follows.",
	}, func() float64 { return float64(len(t.all())) })
	for _, c := range []prometheus.Collector{t.told, t.dropped, open} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *tails) all() []*tail {
	if list := t.list.Load(); list != nil {
		return *list
	}
	return nil
}

// offer hands a record, which must not change any more, to those who want it. It never waits.
func (t *tails) offer(r *Record) {
	list := t.list.Load()
	if list == nil {
		return
	}
	now := t.now().UnixNano()
	for _, tail := range *list {
		tail.offer(r, now)
	}
}

// add begins a tail; nil: there are too many.
func (t *tails) add(f *routerpb.DecisionFilter, perSecond uint32) *tail {
	if perSecond == 0 {
		perSecond = tailRate
	}
	one := &tail{
		of: t, filter: newDecisionFilter(f), each: int64(time.Second) / int64(min(perSecond, tailRateMost)),
		records: make(chan *Record, tailHeld),
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.all()
	if len(list) >= maxTails {
		return nil
	}
	list = append(slices.Clone(list), one)
	t.list.Store(&list)
	return one
}

func (t *tails) remove(one *tail) {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(t.all()), func(x *tail) bool { return x == one })
	if len(list) == 0 {
		t.list.Store(nil)
		return
	}
	t.list.Store(&list)
}

// tail is one of them. Requests put records in, one goroutine takes them out.
type tail struct {
	of      *tails
	filter  decisionFilter
	records chan *Record
	dropped atomic.Uint64

	// each is the time that a record takes up of the rate, due when those let through so far would have
	// been due, both in ns: up to a second's worth may come at once.
	each int64
	due  atomic.Int64
}

func (t *tail) offer(r *Record, now int64) {
	if !t.filter.fits(r) {
		return
	}
	if t.within(now) {
		select {
		case t.records <- r:
			return
		default:
		}
	}
	t.dropped.Add(1)
}

// within says whether the rate allows one more.
func (t *tail) within(now int64) bool {
	for {
		due := t.due.Load()
		next := max(due, now-int64(time.Second)) + t.each
		if next > now {
			return false
		}
		if t.due.CompareAndSwap(due, next) {
			return true
		}
	}
}

// Take hands over what has come.
func (t *tail) Take() (records [][]byte, dropped uint64) {
	bytes := 0
	for bytes < takenBytes {
		var r *Record
		select {
		case r = <-t.records:
		default:
		}
		if r == nil {
			break
		}
		b := encodeRecord(r)
		if b == nil {
			t.dropped.Add(1)
			continue
		}
		bytes += len(b)
		records = append(records, b)
	}
	dropped = t.dropped.Swap(0)
	t.of.told.Add(float64(len(records)))
	t.of.dropped.Add(float64(dropped))
	return records, dropped
}

// Stop ends it.
func (t *tail) Stop() { t.of.remove(t) }

// encodeRecord writes a record as the admin page does, without most of its clusters if it would be too
// long for the stream. Nil: it is too long even so.
func encodeRecord(r *Record) []byte {
	b, err := json.Marshal(r)
	if err == nil && len(b) > recordBytes {
		short := *r
		short.Candidates = r.Candidates[:min(len(r.Candidates), recordPlaces)]
		short.Removed = r.Removed[:min(len(r.Removed), recordPlaces)]
		b, err = json.Marshal(&short)
	}
	if err != nil || len(b) > recordBytes {
		return nil
	}
	return b
}

// Explain gives the control plane the record of a request.
func (r *Router) Explain(id string) *routerpb.Explained {
	answer := &routerpb.Explained{RememberedMost: explainKept}
	if oldest := r.explain.oldest(); oldest != nil {
		answer.OldestUnixMs = oldest.At.UnixMilli()
	}
	if found := r.explain.find(id); found != nil {
		answer.Record = encodeRecord(found)
	}
	return answer
}

// Tail begins to collect records for the control plane.
func (r *Router) Tail(f *routerpb.DecisionFilter, perSecond uint32) subscribe.Tail {
	if t := r.tails.add(f, perSecond); t != nil {
		return t
	}
	return nil
}
