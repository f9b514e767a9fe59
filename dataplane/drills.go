package dataplane

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/drill"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/proxy"
	"anabranch/dataplane/route"
	"anabranch/dataplane/table"
	"anabranch/failover"
)

// Drills: what requests do while this router holds a lease of the drill of its table. Whether it does is judged by the
// time, wherever it matters, so that the end of a lease takes everything back by itself.

// headerDrill tells a peer that a request is shifted, by the number of the drill.
const headerDrill = "X-Anabranch-Drill"

// drills is the router's part in the drill under way.
type drills struct {
	holder *drill.Holder
	now    atomic.Pointer[underWay] // nil: the newest table has none

	ways    *prometheus.CounterVec
	refused *prometheus.CounterVec
}

// underWay is what is kept of one drill as long as the table has it.
type underWay struct {
	id      uint64
	counts  drill.Counts
	dead    atomic.Pointer[endpoint.Rehearsal] // nil: nothing is taken for dead
	ejected atomic.Int64                       // when a drilled cluster was ejected first, Unix ms; 0: none was
}

func newDrills(reg prometheus.Registerer, now time.Time) (*drills, error) {
	d := &drills{
		holder: drill.NewHolder(now),
		ways: counters("anabranch_router_drill_requests_total",
			"Clients' requests ended within the scope of the drill of the table, by way: kept (as without it), watched (would have been shifted), shifted, or lifted (shifted, and sent as without the drill where that left no place).",
			"way"),
		refused: counters("anabranch_router_drill_refused_total",
			"Attempts at drilled clusters that a drill had fail, without being sent.", "cluster"),
	}
	for _, way := range []string{drill.Kept.String(), drill.Watched.String(), drill.Shifted.String(), wayLifted} {
		d.ways.WithLabelValues(way)
	}
	return d, register(reg, d.ways, d.refused)
}

// wayLifted is that of a request that was shifted first.
const wayLifted = "lifted"

// TakeDrill takes in a lease of a drill that came at a time.
func (r *Router) TakeDrill(m *routerpb.DrillLease, now time.Time) {
	verdict := r.drills.holder.Take(m, now)
	switch verdict {
	case drill.Malformed:
		r.log.Warn("a lease of a drill can't be obeyed", "drill", m.GetId(), "sequence", m.GetSequence())
	case drill.Finished:
		r.log.Info("the drill is over", "drill", m.GetId(), "sequence", m.GetSequence())
	default:
		r.log.Debug("a lease of a drill came", "drill", m.GetId(), "sequence", m.GetSequence(), "ttl_ms", m.GetTtlMs(), "verdict", string(verdict))
	}
}

// applied begins with the drill of a new table, or forgets that of the one before.
func (d *drills) applied(t *table.Table) {
	was := d.now.Load()
	switch now := t.Drill(); {
	case now == nil:
		d.now.Store(nil)
	case was == nil || was.id != now.ID:
		d.now.Store(&underWay{id: now.ID})
	}
}

// of is what is kept of a table's drill; nil: newer tables don't have it.
func (d *drills) of(t *table.Drill) *underWay {
	if now := d.now.Load(); now != nil && now.id == t.ID {
		return now
	}
	return nil
}

// leased is the lease by which the drill of a table is obeyed now. Nil: it is not, or an emergency order forbids it.
func (r *Router) leased(d *table.Drill) *drill.View {
	if d == nil || r.o.Orders().StopDrills() != nil {
		return nil
	}
	if v := r.drills.holder.View(); v.Obeyed(d, r.drills.holder.At(r.now())) {
		return v
	}
	return nil
}

// drillStands is how this router stands with a drill, which must not be nil.
func (r *Router) drillStands(d *table.Drill, now time.Time) drill.Status {
	if r.o.Orders().StopDrills() != nil {
		return drill.Status{ID: d.ID}
	}
	return r.drills.holder.Status(d, now)
}

// quotaStoreLost: the drill has the quota store not answer.
func (r *Router) quotaStoreLost() bool {
	t := r.tables.Load()
	if t == nil {
		return false
	}
	v := r.leased(t.Drill())
	return v != nil && v.QuotaStoreLost
}

// drilled is what the drill has a request do.
type drilled struct {
	told    uint64 // the drill that a peer has shifted it in
	way     drill.Way
	lifted  bool // it goes as without the drill
	refused int  // attempts
}

// decide settles what the drill has a request do, by the lease of now. A peer's request was decided on where it came
// from: it is shifted if that says so, and not anew. Copies take no part.
func (r *Router) decide(x *trip) {
	d := x.table.Drill()
	if d == nil || x.shadow || x.drilled.lifted {
		return
	}
	x.drilled.way = drill.Outside
	v := r.leased(d)
	switch {
	case v == nil:
	case !x.hop:
		x.drilled.way = drill.Decide(v, d, x.tenant.ID, x.model.ID, x.key)
	case x.drilled.told == d.ID && !v.WatchOnly:
		x.drilled.way = drill.Shifted
	}
}

// shifted says whether the request goes by the drill.
func (x *trip) shifted() bool { return x.drilled.way == drill.Shifted && !x.drilled.lifted }

// drilling lets a choice of clusters go by the drill.
func (r *Router) drilling(x *trip, in *route.Input) {
	if r.decide(x); !x.shifted() {
		return
	}
	in.Drill = x.table.Drill()
	if dead := r.dead(x); dead != nil {
		in.Rehearsed = func(id fleet.ClusterID) (string, bool) {
			if !in.Drill.Drills(id) {
				return "", false
			}
			out, why := dead.Ejected(r.places.Of(x.table.Clusters[id], r.now()))
			return why, out
		}
	}
}

// dead is the rehearsal in which drilled clusters are dead to a request, now. Nil: they are not.
func (r *Router) dead(x *trip) *endpoint.Rehearsal {
	if !x.shifted() {
		return nil
	}
	d := x.table.Drill()
	if v := r.leased(d); v == nil || !v.Dead {
		return nil
	}
	now := r.drills.of(d)
	if now == nil {
		return nil
	}
	if dead := now.dead.Load(); dead != nil {
		return dead
	}
	ids := make([]fleet.ClusterID, len(d.Clusters))
	for i, c := range d.Clusters {
		ids[i] = c.ID
	}
	now.dead.CompareAndSwap(nil, endpoint.NewRehearsal(ids, r.now()))
	return now.dead.Load()
}

// errRehearsed is why an attempt fails that a drill has fail.
var errRehearsed = errors.New("refused by a drill, and not sent")

// refuses has an attempt fail if its place is dead to the request, as one does whose connection is refused.
func (r *Router) refuses(x *trip, t *try) bool {
	dead := r.dead(x)
	if dead == nil || !x.table.Drill().Drills(t.target.Cluster.ID) {
		return false
	}
	t.drilled = true
	t.result = proxy.Result{
		Outcome: failover.ConnectFailure, Retryable: true, Exempt: true, Cause: errRehearsed,
		Err: &proxy.Error{
			Status: http.StatusBadGateway, Type: proxy.TypeServer, Code: "connect_failed", Origin: proxy.FromRouter,
			Message: "a drill has the place not be reached",
		},
	}
	now := r.now()
	r.drills.refused.WithLabelValues(string(t.target.Cluster.ID)).Inc()
	if dead.Refused(t.cluster, t.endpoint, now) {
		r.drilledOut(x.table.Drill().ID, t.cluster.ID, now)
	}
	return true
}

// drilledOut notes that a drilled cluster was ejected by those who rehearse.
func (r *Router) drilledOut(id uint64, cluster fleet.ClusterID, now time.Time) {
	if at := r.drills.now.Load(); at != nil && at.id == id {
		at.ejected.CompareAndSwap(0, now.UnixMilli())
	}
	r.log.Info("a drilled cluster is ejected", "drill", id, "cluster", cluster)
}

// lift has a request that is about to be turned away go as without the drill, once: nobody is turned away for a
// rehearsal. False: it was not shifted, or was lifted before. A peer that finds no place says so to the router that shifted
// it, which may know others.
func (r *Router) lift(x *trip) bool {
	if !x.shifted() || x.hop {
		return false
	}
	x.drilled.lifted = true
	return true
}

// anew has a request that was lifted chosen for once more, from the start.
func (r *Router) anew(x *trip) {
	x.again()
	x.choice = route.Choice{}
	r.choose(x)
}

// tellDrill tells a peer that the request is shifted; empty: it is not.
func (x *trip) tellDrill() string {
	if !x.shifted() {
		return ""
	}
	return strconv.FormatUint(x.table.Drill().ID, 10)
}

// watchDrills does what goes on beside requests while a drill is under way, until ctx ends: what canaries would find
// out of places that are dead to some requests, and telling of leases that run out.
func (r *Router) watchDrills(ctx context.Context) error {
	tick := time.NewTicker(endpoint.RehearsalPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			r.stepDrills(r.now())
		}
	}
}

func (r *Router) stepDrills(now time.Time) {
	if v := r.drills.holder.Look(now); v != nil {
		r.log.Warn("the lease of a drill has run out, requests go by the table again", "drill", v.ID, "sequence", v.Sequence)
	}
	at, t := r.drills.now.Load(), r.tables.Load()
	if at == nil || t == nil {
		return
	}
	dead := at.dead.Load()
	if dead == nil {
		return
	}
	if v := r.leased(t.Drill()); v == nil || !v.Dead || v.ID != at.id {
		at.dead.Store(nil)
		return
	}
	for _, cluster := range dead.Step(r.places, now) {
		r.drilledOut(at.id, cluster, now)
	}
}
