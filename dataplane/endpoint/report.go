package endpoint

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// window counts what one model's requests met at a cluster since the last report.
type window struct {
	weight   atomicFloat // output weight of the model
	requests atomic.Uint64
	failures atomic.Uint64
	work     sum
	ttft     histogram
	tokens
	pace
}

// tokens of answers that ended since the last report, and of prompts of which it is known what was cached.
type tokens struct{ input, output, prompted, cached atomic.Uint64 }

// counts an answer. Tells: the place tells how much of prompts it finds cached.
func (t *tokens) counts(prompt, output, cached int64, tells bool) {
	t.input.Add(uint64(max(prompt, 0)))
	t.output.Add(uint64(max(output, 0)))
	if tells {
		t.prompted.Add(uint64(max(prompt, 0)))
		t.cached.Add(uint64(max(cached, 0)))
	}
}

// lookups is what pages of model servers counted since the last report: prompt tokens looked up in prefix caches, and
// found.
type lookups struct{ asked, found sum }

// see takes in what an endpoint's counters did between two pages.
func (l *lookups) see(old, s *Signals) {
	if old == nil || s.asked <= old.asked || old.asked == 0 || s.hits < old.hits {
		return
	}
	l.asked.add(s.asked - old.asked)
	l.found.add(s.hits - old.hits)
}

// sum is a float that many add to.
type sum struct{ bits atomic.Uint64 }

func (s *sum) add(v float64) {
	for {
		old := s.bits.Load()
		if s.bits.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)) {
			return
		}
	}
}

func (s *sum) load() float64 { return math.Float64frombits(s.bits.Load()) }

func (s *sum) drain() float64 { return math.Float64frombits(s.bits.Swap(0)) }

// demand counts what clients asked for, before routing.
type demand struct {
	mu    sync.Mutex // guards asked
	asked map[asked]tally
}

type asked struct {
	model    fleet.ModelID
	class    fleet.ClassID
	priority int32
}

type tally struct{ requests, work float64 }

// Asked counts a client's request for a base model, in work units, before it is routed; priority is what it
// counts as, of which there are to be few. Requests that come from another region's router were counted
// there.
func (r *Registry) Asked(model fleet.ModelID, class fleet.ClassID, priority int32, work float64) {
	d := &r.demand
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asked == nil {
		d.asked = make(map[asked]tally)
	}
	k := asked{model, class, priority}
	t := d.asked[k]
	d.asked[k] = tally{t.requests + 1, t.work + work}
}

// Report tells the control plane what has been seen since the last call: clusters, demand and the
// length of the window. What is not of clusters is the caller's to add. A cluster that serves
// several models is told once for each, its load, which isn't told apart, the same every time.
func (r *Registry) Report(now time.Time) *routerpb.Report {
	r.reports.Lock()
	defer r.reports.Unlock()
	span := now.Sub(r.reported)
	if span <= 0 {
		span = time.Second
	}
	r.reported = now
	out := &routerpb.Report{AtUnixMs: now.UnixMilli(), ClockUnixMs: now.UnixMilli(), WindowMs: uint64(max(span.Milliseconds(), 1))}
	for _, c := range r.all() {
		v := c.look(now)
		asked, found := uint64(c.lookups.asked.drain()), uint64(c.lookups.found.drain())
		for _, model := range c.spec.Load().Models {
			w := c.windows.of(model)
			if w == nil {
				continue // has just come or gone
			}
			s := c.signal(model, w, v, span, now)
			if s.PrefixTokens == 0 {
				s.PrefixTokens, s.CachedTokens = asked, min(found, asked)
			}
			s.Ejected, s.EjectReason = c.gone(model, now)
			out.Clusters = append(out.Clusters, s)
		}
	}
	out.Demand = r.demand.drain(span)
	return out
}

// gone says whether the control plane should count a model of the cluster as ejected here. One that all tenants
// leave alone since it answers nobody is, until a request may try it: were it told so then too, no
// weight, and with it no request, would ever come back.
func (c *Cluster) gone(model fleet.ModelID, now time.Time) (out bool, reason string) {
	if out, reason = c.EjectedOf(model); out {
		return out, reason
	}
	if a := c.Answering("", now); !a.Unanswered || a.Trial {
		return false, ""
	}
	row, out := c.Unanswered(now)
	return out, fmt.Sprintf("%d requests in a row without an answer", row.Requests)
}

func (c *Cluster) signal(model fleet.ModelID, w *window, v *loadView, span time.Duration, now time.Time) *routerpb.ClusterSignal {
	q := w.ttft.quantiles(now, 0.5, 0.95)
	return &routerpb.ClusterSignal{
		Cluster: string(c.ID), Model: string(model),
		Scraped: v.scraped, AgeMs: v.ageMs,
		EndpointsTotal: uint32(v.total), EndpointsReady: uint32(max(v.ready-c.lacking(model), 0)),
		Waiting: v.waiting, Running: v.running, KvUsage: v.kv, Saturation: v.saturation,
		CapacityWork: c.capacity(model, w.weight.load()),
		LoadWork:     w.work.drain() / span.Seconds(),
		Requests:     w.requests.Swap(0), Failures: w.failures.Swap(0),
		TtftP50Ms: ms(q[0]), TtftP95Ms: ms(q[1]),
		InputTokens: w.input.Swap(0), OutputTokens: w.output.Swap(0), PrefixTokens: w.prompted.Swap(0), CachedTokens: w.cached.Swap(0),
	}
}

// lacking counts the model servers in use that a model is not asked of.
func (c *Cluster) lacking(model fleet.ModelID) (n int) {
	for _, e := range c.Endpoints() {
		if out, _ := e.Ejected(); out {
			continue
		}
		if lacks, _ := e.Lacks(model); lacks {
			n += e.ready(e.signals.Load())
		}
	}
	return n
}

// ms is a duration in milliseconds.
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (d *demand) drain(span time.Duration) []*routerpb.DemandSignal {
	d.mu.Lock()
	all := d.asked
	d.asked = nil
	d.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(all), func(a, b asked) int {
		return cmp.Or(cmp.Compare(a.model, b.model), cmp.Compare(a.class, b.class), cmp.Compare(a.priority, b.priority))
	})
	out := make([]*routerpb.DemandSignal, 0, len(all))
	for i, k := range keys {
		if i == 0 || keys[i-1].model != k.model || keys[i-1].class != k.class {
			out = append(out, &routerpb.DemandSignal{Model: string(k.model), Class: string(k.class)})
		}
		s, t := out[len(out)-1], all[k]
		work := t.work / span.Seconds()
		s.RequestsPerS += t.requests / span.Seconds()
		s.WorkPerS += work
		s.Tiers = append(s.Tiers, &routerpb.TierWork{Priority: k.priority, WorkPerS: work})
	}
	return out
}
