package endpoint

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/inference"
	"anabranch/dataplane/table"
	"anabranch/failover"
)

// begun is a request of a tenant at an endpoint.
func begun(e *Endpoint, t fleet.TenantID, now time.Time) *Call {
	return e.Begin(Load{Tenant: t, Model: "m", Stream: true}, now)
}

func TestARowIsOfAllEndpoints(t *testing.T) {
	for name, tt := range map[string]struct {
		end  Result
		want bool
	}{
		"silence":        {Result{Outcome: failover.Silence}, true},
		"server faults":  {Result{Outcome: failover.ServerFault}, true},
		"no room":        {Result{Outcome: failover.ServerFault, Busy: true}, false},
		"says nothing":   {Result{Outcome: failover.Ignored}, false},
		"breaks off":     {Result{Outcome: failover.ServerFault, FirstToken: 1}, false},
		"answers":        {Result{Outcome: failover.OK, FirstToken: 1}, false},
		"answers whole":  {Result{Outcome: failover.OK, FirstToken: 1, Usage: inference.Usage{Completion: 3}}, false},
		"cannot be used": {Result{Outcome: failover.ConnectFailure}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, now := still(t)
			for i := range 20 {
				c := begun(r.of("b")[0], fleet.TenantID(fmt.Sprint("t", i%2)), *now)
				if tt.end.FirstToken > 0 && tt.end.Usage.Completion == 0 {
					c.FirstToken(*now)
				}
				c.Done(tt.end, *now)
			}
			b := r.Cluster("b")
			row, yes := b.Unanswered(*now)
			if yes != tt.want || b.Answering("t0", *now).Unanswered != tt.want || b.Answering("other", *now).Unanswered != tt.want {
				t.Errorf("unanswered %v, want %v", yes, tt.want)
			}
			if yes && (!row.All || row.Requests != 20 || row.Trial != time.Second) {
				t.Errorf("%+v", row)
			}
			if out, why := b.Ejected(); out != (name == "cannot be used") {
				t.Errorf("ejected %v: %s", out, why)
			}
			if r.Cluster("a").Answering("t0", *now).Unanswered {
				t.Error("another cluster is unanswered")
			}
		})
	}
}

// One of two endpoints hangs. It is ejected before its requests can speak for both.
func TestWhatAnEjectedEndpointDoesSaysNothingOfTheCluster(t *testing.T) {
	r, now := still(t)
	var all []*Call
	for range 60 {
		all = append(all, begun(r.of("a")[0], "x", *now))
	}
	*now = now.Add(time.Minute)
	for _, c := range all[:30] {
		c.Done(Result{Outcome: failover.Silence}, *now)
	}
	for _, c := range all[30:] {
		c.Overdue(*now)
	}
	if out, _ := r.of("a")[0].Ejected(); !out {
		t.Fatal("it is in use")
	}
	if _, yes := r.Cluster("a").Unanswered(*now); yes {
		t.Error("the cluster is unanswered")
	}
}

func TestRequestsThatWaitCountInTime(t *testing.T) {
	r, now := still(t)
	b := r.Cluster("b")
	e := b.Endpoints()[0]
	many := func() (all []*Call) {
		for range 25 {
			all = append(all, begun(e, "x", *now))
		}
		return all
	}
	overdue := func(all []*Call) bool {
		for _, c := range all {
			c.Overdue(*now)
		}
		_, yes := b.Unanswered(*now)
		return yes
	}
	old := many()
	*now = now.Add(time.Second)
	begun(e, "x", *now).FirstToken(*now)
	*now = now.Add(time.Second)
	if overdue(old) {
		t.Error("those count that were there when another was answered")
	}
	hung := many()[:19]
	*now = now.Add(time.Second)
	for range 2 {
		if overdue(hung) {
			t.Error("nineteen were counted twice")
		}
	}
	for _, c := range hung {
		c.Done(Result{Outcome: failover.Silence}, *now)
	}
	if _, yes := b.Unanswered(*now); yes {
		t.Error("nineteen were counted when they were overdue and when they ended")
	}
	begun(e, "x", *now).Done(Result{Outcome: failover.Silence}, *now)
	if _, yes := b.Unanswered(*now); !yes {
		t.Error("twenty in a row did not count")
	}
	for _, c := range old { // late, but answered
		c.FirstToken(*now)
	}
	if _, yes := b.Unanswered(*now); yes {
		t.Error("an answer that was late did not end it")
	}
	if overdue(old) {
		t.Error("requests count that have content")
	}
	hop := r.Cluster("e").Hop(Load{Model: "m"}, *now)
	hop.Overdue(*now)
	if _, yes := r.Cluster("e").Unanswered(*now); yes {
		t.Error("a cluster of another region has a row")
	}
}

func TestWhatIsOverdue(t *testing.T) {
	r, _ := still(t)
	e := r.of("b")[0]
	class := &table.Class{FirstByteFloor: 5 * time.Second}
	stream, whole := Load{Model: "m", Stream: true}, Load{Model: "m"}
	if d := e.Overdue(&stream, time.Second, class); d != 5*time.Second {
		t.Errorf("a stream after %s", d)
	}
	if d := e.Overdue(&stream, 3*time.Second, class); d != 12*time.Second {
		t.Errorf("a stream with a long prompt after %s", d)
	}
	// 200 tokens of 12 ms are believed until others have been seen.
	if d := e.Overdue(&whole, time.Second, class); d != 5*time.Second+4*2400*time.Millisecond {
		t.Errorf("a whole answer after %s", d)
	}
	if d := e.Overdue(&Load{Model: "nope"}, 0, class); d != 5*time.Second {
		t.Errorf("of a model that isn't there after %s", d)
	}
}

// A trial is answered: the cluster is back with a tenth of its weight, for whom it was away.
func TestTheWayBack(t *testing.T) {
	r, now := still(t)
	b := r.Cluster("b")
	e := b.Endpoints()[0]
	fail := func(n int) {
		for range n {
			begun(e, "x", *now).Done(Result{Outcome: failover.ServerFault}, *now)
		}
	}
	fail(20)
	if b.Try("x", *now) || b.Try("y", now.Add(time.Minute)) {
		t.Fatal("tried too soon, or by another")
	}
	*now = now.Add(time.Second)
	if a := b.Answering("x", *now); !a.Unanswered || !a.Trial || !b.Try("x", *now) {
		t.Fatalf("no trial: %+v", a)
	}
	if a := b.Answering("x", *now); a.Trial || b.Try("x", *now) {
		t.Fatal("a second trial")
	}
	fail(1) // it is the trial
	*now = now.Add(2*time.Second - 1)
	if b.Answering("x", *now).Trial {
		t.Error("the pause has not doubled")
	}
	*now = now.Add(1)
	if !b.Try("x", *now) {
		t.Fatal("no second trial")
	}
	begun(e, "x", *now).Done(Result{Outcome: failover.Ignored}, *now)
	if *now = now.Add(2 * time.Second); !b.Try("x", *now) {
		t.Fatal("a trial that said nothing was not made up for")
	}
	begun(e, "x", *now).FirstToken(*now)
	if a := b.Answering("x", *now); a != (Answering{Share: rampStart}) {
		t.Errorf("after an answer: %+v", a)
	}
	if a := b.Answering("y", *now); a != (Answering{Share: 1}) {
		t.Errorf("for another tenant: %+v", a)
	}
	for range rampAnswers {
		begun(e, "x", *now).Done(Result{Outcome: failover.OK, FirstToken: 1}, *now)
	}
	if a := b.Answering("x", now.Add(rampFor)); a.Share != 1 {
		t.Errorf("in the end: %+v", a)
	}
	fail(3)
	if row, yes := b.Unanswered(*now); !yes || row.Trial != 2*time.Second {
		t.Errorf("after a relapse: %+v, %v", row, yes)
	}
	b.unanswered.restored(*now)
	if !b.Answering("x", *now).Trial {
		t.Error("a restored endpoint did not bring the trial forward")
	}
}

func TestOfManyAtOnceOneTries(t *testing.T) {
	r, now := still(t)
	b := r.Cluster("b")
	at := *now
	for range 20 {
		begun(b.Endpoints()[0], "x", at).Done(Result{Outcome: failover.Silence}, at)
	}
	at = at.Add(time.Second)
	var let atomic.Int64
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			if b.Answering("x", at).Trial && b.Try("x", at) {
				let.Add(1)
			}
			begun(b.Endpoints()[0], "y", at).Done(Result{Outcome: failover.Silence}, at)
		})
	}
	all.Wait()
	if row, _ := b.Unanswered(at); let.Load() != 1 || row.Requests != 84 || !row.All {
		t.Errorf("%d let in; %+v", let.Load(), row)
	}
}

func TestWhileAllIsAnsweredNothingIsAllocated(t *testing.T) {
	r, now := still(t)
	b := r.Cluster("b")
	check := func(when string) {
		t.Helper()
		if n := testing.AllocsPerRun(100, func() {
			b.unanswered.answers(*now)
			_ = b.Answering("x", *now)
			(&Call{cluster: b, endpoint: b.Endpoints()[0]}).undecided(*now)
		}); n > 0 {
			t.Errorf("%v allocations %s", n, when)
		}
	}
	check("at first")
	for range 20 {
		begun(b.Endpoints()[0], "x", *now).Done(Result{Outcome: failover.Silence}, *now)
	}
	b.unanswered.answers(*now)
	check("after a return")
}

// The control plane hears that a cluster is out of use here while all leave it alone, but not when a
// request may try it: it would never get one again.
func TestTheReportTellsOfAClusterThatAnswersNobody(t *testing.T) {
	r, now := still(t)
	b := r.Cluster("b")
	fail := func(n int, tenant fleet.TenantID) {
		for range n {
			begun(b.Endpoints()[0], tenant, *now).Done(Result{Outcome: failover.Silence}, *now)
		}
	}
	fail(22, "x")
	if s := signalOf(t, r.Report(*now), "b"); s.Ejected || s.Failures != 22 {
		t.Errorf("what one tenant met is told of all: %+v", s)
	}
	fail(3, "y")
	s := signalOf(t, r.Report(*now), "b")
	if !s.Ejected || s.EjectReason != "25 requests in a row without an answer" {
		t.Errorf("%v %q", s.Ejected, s.EjectReason)
	}
	*now = now.Add(time.Second)
	if s := signalOf(t, r.Report(*now), "b"); s.Ejected {
		t.Error("ejected although a request may try it")
	}
	b.Try("x", *now)
	if s := signalOf(t, r.Report(*now), "b"); !s.Ejected {
		t.Error("in use although only one tries it")
	}
	begun(b.Endpoints()[0], "x", *now).FirstToken(*now)
	if s := signalOf(t, r.Report(*now), "b"); s.Ejected || s.EjectReason != "" {
		t.Errorf("after an answer: %v %q", s.Ejected, s.EjectReason)
	}
}
