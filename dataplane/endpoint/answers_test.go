package endpoint

import (
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/inference"
	"anabranch/failover"
)

func TestAnswersAreAsLongAsThoseOfLately(t *testing.T) {
	r, now := still(t)
	if got := r.Answer("m", 256); got != 256 {
		t.Errorf("%d tokens while none has been seen", got)
	}
	here, far := r.of("a")[0], r.Cluster("e")
	ends := func(result Result) {
		result.FirstToken = time.Second
		here.Begin(Load{Model: "m", Stream: true}, *now).Done(result, *now)
		far.Hop(Load{Model: "m", Stream: true}, *now).Done(result, *now)
	}
	ends(Result{Outcome: failover.ServerFault, Output: 5000})
	ends(Result{Outcome: failover.Ignored, Output: 5000})
	if got := r.Answer("m", 256); got != 256 {
		t.Errorf("%d tokens, and none was whole", got)
	}
	ends(Result{Outcome: failover.OK, Output: 40})
	ends(Result{Outcome: failover.OK, Usage: inference.Usage{Completion: 80}, Output: 3})
	if got := r.Answer("m", 256); got < 59 || got > 62 {
		t.Errorf("%d tokens, want the mean of 40 and 80", got)
	}
	for range 400 {
		ends(Result{Outcome: failover.OK, Output: 1000})
	}
	if got := r.Answer("m", 256); got < 990 || got > 1000 {
		t.Errorf("%d tokens long after they became a thousand", got)
	}
	if got := r.Answer("other", 7); got != 7 {
		t.Errorf("%d tokens of another model", got)
	}
}

func TestAModelWithoutAnswersHasNone(t *testing.T) {
	r, now := still(t)
	e := r.of("a")[0]
	e.Begin(Load{Model: "m"}, *now).Done(Result{Outcome: failover.OK, FirstToken: time.Second}, *now) // an embedding
	if got := r.Answer("m", 256); got != 0 {
		t.Errorf("%d tokens", got)
	}
}

func TestAnswersOfModelsThatAreGoneAreForgotten(t *testing.T) {
	r, now := still(t)
	r.of("a")[0].Begin(Load{Model: "m"}, *now).Done(Result{Outcome: failover.OK, FirstToken: time.Second, Output: 9}, *now)
	r.Sync(world(t))
	if got := r.Answer("m", 256); got != 9 {
		t.Errorf("%d tokens after a table with the model", got)
	}
	r.Sync(world(t, func(pb *routerpb.Table) {
		pb.Models = append(pb.Models, &routerpb.Model{Id: "n"})
		for _, c := range pb.Clusters {
			c.Models = []string{"n"}
		}
	}))
	if got := r.Answer(fleet.ModelID("m"), 256); got != 256 {
		t.Errorf("%d tokens of a model that nobody serves", got)
	}
}
