package world

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"anabranch/sim/workload"
)

// order is in what order requests got their first tokens.
func order(r *Result) []uint64 {
	records := slices.Clone(r.Records)
	slices.SortFunc(records, func(a, b Record) int { return int(a.First - b.First) })
	var ids []uint64
	for _, rec := range records {
		ids = append(ids, rec.ID)
	}
	return ids
}

// oneAtATime lets a request go when the router has none under way.
func oneAtATime(id uint64, v *View) bool { return v.Clusters[0].InFlight == 0 }

func TestRequestsWaitByPriorityThenInOrder(t *testing.T) {
	t.Parallel()
	words, requests := map[uint64]string{}, []workload.Request(nil)
	for i, priority := range []int32{0, -10, 50, 0, 50, 100} {
		r := ask(uint64(i+1), time.Duration(i)*ms, 10)
		r.Priority = priority
		words[r.ID], requests = "wait", append(requests, r)
	}
	p := scripted(words)
	p.allowed = oneAtATime
	r := play(t, three(1), p, requests...)
	if got, want := order(r), []uint64{1, 6, 3, 5, 4, 2}; !slices.Equal(got, want) {
		t.Errorf("they went in the order %v, want %v", got, want)
	}
	for _, rec := range r.Records[1:] {
		// 77 ms of decoding each, and half a millisecond's way to the pod and back.
		if place := slices.Index(order(r), rec.ID); rec.Queued < time.Duration(place)*77*ms-5*ms || rec.Queued > rec.First-rec.At {
			t.Errorf("%d was number %d, and waited %v of %v", rec.ID, place, rec.Queued, rec.First-rec.At)
		}
	}
}

// A request goes on as soon as another has ended, not only when the router looks again.
func TestAnEndWakesThoseThatWait(t *testing.T) {
	t.Parallel()
	p := scripted(map[uint64]string{1: "wait", 2: "wait"})
	p.allowed = oneAtATime
	r := play(t, three(1), p, ask(1, 0, 10), ask(2, 3*ms, 10))
	if got, want := r.Records[1].Queued, r.Records[0].Last-3*ms; got != want {
		t.Errorf("it waited for %v, want %v", got, want)
	}
	p = scripted(map[uint64]string{1: "wait"})
	p.allowed = func(_ uint64, v *View) bool { return v.Now >= 33*ms }
	if r = play(t, three(1), p, ask(1, 0, 1)); r.Records[0].Queued != 40*ms {
		t.Errorf("it waited for %v, want until the next look each 10 ms", r.Records[0].Queued)
	}
}

func TestThoseBehindOneOfTheirKindAreNotAsked(t *testing.T) {
	t.Parallel()
	s := three(1)
	s.Models = append(s.Models, Model{ID: "other", Profile: "llama-3.1-8b"})
	s.Clusters[0].Model = "other"
	s.Tenants = []Tenant{{ID: "berlin", Residency: []string{"eu"}}}
	asked := map[uint64]int{}
	p := &turns{}
	p.route = func(r *workload.Request, v *View) (Route, bool) {
		asked[r.ID]++
		return Route{Cluster: -1, Wait: true}, v.Now < 100*ms
	}
	requests := []workload.Request{ask(1, 0, 1), ask(2, 1, 1), ask(3, 2, 1), ask(4, 3, 1), ask(5, 4, 1)}
	requests[2].Model, requests[3].Tenant, requests[4].Tenant = "other", "berlin", "berlin"
	play(t, s, p, requests...)
	if asked[1] < 10 || asked[3] < 10 || asked[4] < 10 {
		t.Errorf("the first of each kind was asked again and again: %v", asked)
	}
	if asked[2] != 2 || asked[5] != 2 {
		t.Errorf("those behind them when they came and when they went: %v", asked)
	}
}

// youngest is a policy that lets the latest go first, one at a time.
type youngest struct {
	script
	waits []uint64
	gone  []uint64
}

func (p *youngest) Route(r *workload.Request, v *View) Route {
	to := p.script.Route(r, v)
	i := slices.Index(p.waits, r.ID)
	switch {
	case to.Wait && i < 0:
		p.waits = append(p.waits, r.ID)
	case !to.Wait && i >= 0:
		p.waits = slices.Delete(p.waits, i, i+1)
	}
	return to
}

func (p *youngest) Release(v *View) (uint64, bool) {
	if len(p.waits) == 0 || v.Clusters[0].InFlight > 0 {
		return 0, false
	}
	return p.waits[len(p.waits)-1], true
}

func (p *youngest) Gone(r *workload.Request, _ *View) {
	p.gone = append(p.gone, r.ID)
	p.waits = slices.DeleteFunc(p.waits, func(id uint64) bool { return id == r.ID })
}

func TestAPolicyMayHaveItsOwnOrder(t *testing.T) {
	t.Parallel()
	words, requests := map[uint64]string{}, []workload.Request(nil)
	for i := range 5 {
		words[uint64(i+1)] = "wait"
		requests = append(requests, ask(uint64(i+1), time.Duration(i)*ms, 50))
	}
	p := &youngest{script: *scripted(words)}
	p.allowed = oneAtATime
	s := three(1)
	s.Timeout = 1200 * ms // each takes 386 ms: the last in turn does not live to see it
	r := play(t, s, p, requests...)
	var ends string
	for _, rec := range r.Records {
		ends += fmt.Sprintf(" %d:%v", rec.ID, rec.End)
	}
	if want := " 1:ok 2:gave-up 3:ok 4:ok 5:ok"; ends != want || !slices.Equal(p.gone, []uint64{2}) || len(p.waits) > 0 {
		t.Errorf("ends%s, want%s; %v were told to have gone, %v still wait", ends, want, p.gone, p.waits)
	}
	r.Records = slices.Delete(r.Records, 1, 2)
	if got := order(r); !slices.Equal(got, []uint64{1, 5, 4, 3}) {
		t.Errorf("they went in the order %v", got)
	}
}

// What waits in a router of another region is known as gone when its client has left.
func TestThoseWhoLeaveAreTakenOutOfDistantQueues(t *testing.T) {
	t.Parallel()
	s := three(1)
	s.Timeout = 200 * ms
	p := &youngest{script: *scripted(map[uint64]string{1: "1/wait", 2: "2/0"})}
	r := play(t, s, p, ask(1, 0, 1), ask(2, time.Second, 1))
	if r.Records[0].End != GaveUp || !slices.Equal(p.gone, []uint64{1}) {
		t.Errorf("it ends %v; gone are %v", r.Records[0].End, p.gone)
	}
	if got := r.Records[0].Queued; got != 0 {
		t.Errorf("when its client left nobody knew that it had waited; %v", got)
	}
	if r.Series.Queue[1][0] != 0 || r.Series.Queue[0][0] != 0 {
		t.Errorf("somebody still waits: %v", r.Series.Queue)
	}
}
