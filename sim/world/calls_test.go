package world

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
)

// calls writes down what a policy is told of attempts: when, which router, what, and of which place.
// A pod that a router doesn't know is a question mark.
func calls(b *strings.Builder) func(what string, a *Attempt, how Outcome, v *View) {
	return func(what string, a *Attempt, how Outcome, v *View) {
		pod := fmt.Sprint(a.Pod)
		if a.Pod < 0 {
			pod = "?"
		}
		fmt.Fprintf(b, "%d router %d %s %d/%s", v.Now.Milliseconds(), v.Router, what, a.Cluster, pod)
		if a.Away {
			b.WriteString(" by the other router")
		}
		if what == "ended" {
			fmt.Fprintf(b, " %v", how)
			if how == Answered {
				fmt.Fprintf(b, ", %d tokens", a.Output)
			}
		}
		fmt.Fprintf(b, "; %d there\n", v.Clusters[a.Cluster].InFlight)
	}
}

func TestPoliciesAreTold(t *testing.T) {
	t.Parallel()
	want := readStories(t, filepath.Join("testdata", "calls.txt"))
	for _, c := range []struct {
		name    string
		events  []Event
		words   string
		output  int
		timeout time.Duration
	}{
		{name: "an answer from the own region", words: "0/0", output: 3},
		{name: "an answer from another region", words: "1/1", output: 3},
		{name: "a refusal in the own region", events: []Event{{Kind: PodLoss, Cluster: "us-east-1"}}, words: "0/0 0/1", output: 1},
		{name: "a refusal in another region", events: []Event{{Kind: PodLoss, Cluster: "eu-west-1"}}, words: "1/0 0/1", output: 1},
		{name: "no place in the own region", words: "0/none 0/1", output: 1},
		{name: "no place in another region", words: "1/none 0/1", output: 1},
		{name: "silence within the bound in another region", events: []Event{{Kind: Hang, Cluster: "eu-west-1"}}, words: "1/0~50ms 0/1", output: 1},
		{name: "a client that leaves the own region", events: []Event{{Kind: Hang, Cluster: "us-east-1"}}, words: "0/0", output: 1, timeout: 500 * ms},
		{name: "a client that leaves another region", events: []Event{{Kind: Hang, Cluster: "eu-west-1"}}, words: "1/0", output: 1, timeout: 500 * ms},
		{name: "a client that leaves a queue in another region", words: "1/wait", output: 1, timeout: 500 * ms},
		{name: "a stream that breaks off in another region", events: []Event{{Kind: PodLoss, Cluster: "eu-west-1", At: 100 * ms}}, words: "1/0", output: 100},
		{name: "a partition under way", events: []Event{{Kind: Partition, Region: "eu-west-1", At: 100 * ms}}, words: "1/0", output: 200},
		{name: "a partition before", events: []Event{{Kind: Partition, Region: "eu-west-1"}}, words: "1/0 0/1", output: 1},
		{name: "the loss of the other region", events: []Event{{Kind: Lost, Region: "eu-west-1", At: 60 * ms}}, words: "1/0 0/1", output: 100},
		{name: "the loss of the own region", events: []Event{{Kind: Lost, Region: "us-east-1", At: 60 * ms}}, words: "1/0", output: 200},
		{name: "a request that doesn't fit", words: "0/0", output: 1 << 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := three(2)
			s.Events, s.Timeout = c.events, c.timeout
			p := scripted(map[uint64]string{1: c.words, 2: "2/0"})
			var b strings.Builder
			log := calls(&b)
			p.log = func(what string, a *Attempt, how Outcome, v *View) {
				if a.Request.ID == 1 {
					log(what, a, how, v)
				}
			}
			// The second gives the first's last messages the time to arrive.
			play(t, s, p, ask(1, 0, c.output), ask(2, 10*time.Second, 1))
			if got := b.String(); got != want[c.name] {
				t.Errorf("told\n%s\nwant\n%s", got, want[c.name])
			}
		})
	}
}

// Clients whose routers are dead turn to another region, and when there is none they fail.
func TestClientsTurnElsewhere(t *testing.T) {
	t.Parallel()
	want := readStories(t, filepath.Join("testdata", "clients.txt"))
	lost := func(region fleet.RegionID, at, length time.Duration) Event {
		return Event{Kind: Lost, Region: region, At: at, For: length}
	}
	for _, c := range []struct {
		name    string
		events  []Event
		words   string
		at      time.Duration
		timeout time.Duration
		end     End
	}{
		{name: "to the nearest region", events: []Event{lost("us-east-1", 0, 0)}, words: "1/0", at: ms, end: OK},
		{name: "to the nearest that lives", events: []Event{lost("us-east-1", 0, 0), lost("eu-west-1", 0, 0)}, words: "2/0", at: ms, end: OK},
		{name: "to their own when it is back in time", events: []Event{lost("us-east-1", 0, 500*ms)}, words: "0/0", at: ms, end: OK},
		{name: "nowhere when all are lost", events: []Event{lost("us-east-1", 0, 0), lost("eu-west-1", 0, 0), lost("ap-northeast-1", 0, 0)}, words: "0/0", at: ms, end: Failed},
		{name: "nowhere when the lost region is cut off, too", events: []Event{lost("us-east-1", 0, 0), {Kind: Partition, Region: "us-east-1"}}, words: "0/0", at: ms, end: Failed},
		{name: "once more when that is lost on their way", events: []Event{lost("us-east-1", 0, 0), lost("eu-west-1", 1010*ms, 0)}, words: "2/0", at: ms, end: OK},
		{name: "until they have had enough", events: []Event{lost("us-east-1", 0, 0), lost("eu-west-1", 1010*ms, 0)}, words: "2/0", at: ms, timeout: 1500 * ms, end: GaveUp},
		{name: "from a queue", events: []Event{lost("us-east-1", 100*ms, 0)}, words: "wait 1/0", at: ms, end: GaveUp, timeout: 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := three(1)
			s.Events, s.Timeout = c.events, c.timeout
			r := play(t, s, scripted(map[uint64]string{1: c.words, 2: "wait"}), ask(1, c.at, 1))
			if rec := r.Records[0]; rec.End != c.end || rec.Region != 0 {
				t.Errorf("%+v, want it to end %v", rec, c.end)
			}
			if got := story(r, 1); got != want[c.name] {
				t.Errorf("the story is\n%s\nwant\n%s", got, want[c.name])
			}
		})
	}
}

// What comes back from a region that the client is not in takes the client's way, too.
func TestClientsElsewhereAreFartherAway(t *testing.T) {
	t.Parallel()
	s := three(1)
	s.Events = []Event{{Kind: Lost, Region: "us-east-1"}}
	r := play(t, s, scripted(map[uint64]string{1: "1/0"}), ask(1, 0, 11))
	rec := r.Records[0]
	// A second until it notices, 34 ms each way, 1 ms in the region, 7.7 ms to the first token.
	if first := rec.First.Round(ms); first != 1077*ms || rec.Last-rec.First < 70*ms || rec.Last != r.Ended {
		t.Errorf("first at %v, last at %v, all over at %v", rec.First, rec.Last, r.Ended)
	}
}
