package world

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"anabranch/sim/workload"
)

// letters of states, in their order.
const letters = "VSD.-"

// pods tells the states of a cluster's pods: V serving, S starting up, D draining, a dot dead, - gone.
func (w *world) letters(cluster int) string {
	var b strings.Builder
	for _, p := range w.clusters[cluster].pods {
		b.WriteByte(letters[p.state])
	}
	return b.String()
}

// Events may overlap in any way: what holds is what those that are active say together.
func TestEventsOverlap(t *testing.T) {
	t.Parallel()
	second := time.Second
	on := func(kind Kind, at, length int, more ...Event) Event {
		e := Event{}
		if len(more) > 0 {
			e = more[0]
		}
		e.Kind, e.At, e.For = kind, time.Duration(at)*second, time.Duration(length)*second
		if e.Region == "" && (places[kind].region || places[kind].cluster) && kind != Partition {
			e.Cluster = "us-east-1"
		}
		return e
	}
	us := Event{Region: "us-east-1"}
	for _, c := range []struct {
		name   string
		events []Event
		want   string // at each half second past: pods, slowness and price of the first, h: it hangs, m: it is mute
	}{
		{"nothing happens", nil, "VVV VVV"},
		{"a loss within a loss", []Event{on(Lost, 1, 6), on(PodLoss, 2, 2)}, "VVV ... ... ... ... ... ... SSS SSS VVV"},
		{"a loss beyond a loss", []Event{on(Lost, 1, 2), on(PodLoss, 2, 4)}, "VVV ... ... .SS .SS .VV SVV SVV VVV"},
		{"a loss during the start-up", []Event{on(PodLoss, 1, 1), on(HalfPods, 3, 1)}, "VVV .VV SVV .V. SVS SVS VVV"},
		{"for ever", []Event{on(PodLoss, 1, 0), on(PodLoss, 2, 1)}, "VVV .VV .VV .VV .VV .VV .VV"},
		{"the region and the cluster", []Event{on(Lost, 1, 3, us), on(Lost, 2, 1)}, "VVV ... ... ... SSS SSS VVV"},
		{"slower and slower", []Event{on(Slow, 1, 4, Event{Pod: -1, Factor: 2}), on(Slow, 2, 1, Event{Factor: 3})}, "VVV VVV*2 VVV*6 VVV*2 VVV*2 VVV"},
		{"slow when it comes back", []Event{on(PodLoss, 1, 1), on(Slow, 0, 0, Event{Factor: 5})}, "VVV*5 .VV*5 SVV*5 SVV*5 VVV*5"},
		{"dearer and cheaper", []Event{on(Price, 1, 4, us), on(Price, 2, 1)}, "VVV VVV$4 VVV$16 VVV$4 VVV$4 VVV"},
		{"hanging twice", []Event{on(Hang, 1, 2), on(Hang, 2, 3)}, "VVV VVVh VVVh VVVh VVVh VVV"},
		{"a dead pod does not hang, and a new one does", []Event{on(Hang, 1, 5), on(PodLoss, 1, 1)}, "VVV .VVh SVVh SVVh VVVh VVVh VVV"},
		{"mute twice", []Event{on(Blackout, 1, 2, us), on(Blackout, 2, 3)}, "VVV VVVm VVVm VVVm VVVm VVV"},
		{"out", []Event{on(ScaleOut, 1, 0, Event{Count: 2})}, "VVV VVVSS VVVSS VVVVV"},
		{"out for a while, too short to serve", []Event{on(ScaleOut, 1, 1)}, "VVV VVVS VVV- VVV-"},
		{"in", []Event{on(ScaleIn, 1, 0, Event{Count: 2})}, "VVV V-- V--"},
		{"in, and back", []Event{on(ScaleIn, 1, 2)}, "VVV VV- VV- VVS VVS VVV"},
		{"in twice", []Event{on(ScaleIn, 1, 3), on(ScaleIn, 2, 3)}, "VVV VV- V-- V-- V-S VSS VSV VVV"},
		{"in by more than there are", []Event{on(ScaleIn, 1, 2, Event{Count: 9})}, "VVV --- --- SSS SSS VVV"},
		{"out, and in again", []Event{on(ScaleOut, 1, 0, Event{Count: 2}), on(ScaleIn, 4, 0, Event{Count: 3})}, "VVV VVVSS VVVSS VVVVV VV---"},
		{"what comes dies, and comes back", []Event{on(ScaleOut, 1, 0), on(Lost, 4, 1)}, "VVV VVVS VVVS VVVV .... SSSS SSSS VVVV"},
		{"what has gone can't die", []Event{on(ScaleIn, 1, 4), on(Lost, 2, 1)}, "VVV VV- ..- SS- SS- VVS VVS VVV"},
		{"what is dead goes", []Event{on(PodLoss, 1, 3, Event{Pod: 2}), on(ScaleIn, 2, 0)}, "VVV VV. VV. VV. VV- VV-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := three(3)
			s.Clusters[0].Pods[0].Options.StartUp = 2 * second
			s.Events = c.events
			for i := range s.Events {
				if s.Events[i].Kind == Price {
					s.Events[i].Factor = 4
				}
			}
			if err := s.Validate(); err != nil {
				t.Fatal(err)
			}
			steps := strings.Fields(c.want)
			w := newWorld(s.WithDefaults(), newList(ask(1, time.Duration(len(steps))*second, 1)), &turns{spec: s, sent: map[*Attempt]int{}}, Options{})
			for i, want := range steps {
				for w.now < time.Duration(i)*second+second/2 {
					w.turn()
				}
				got := w.letters(0)
				if x := w.pods[0].slow; x != 1 {
					got += fmt.Sprint("*", x)
				}
				if x := w.pods[0].price; x != 1 {
					got += fmt.Sprint("$", x)
				}
				if w.clusters[0].hangs {
					got += "h"
				}
				if w.clusters[0].silent {
					got += "m"
				}
				if got != want {
					t.Errorf("after %d.5 s %s, want %s", i, got, want)
				}
			}
			if w.letters(1) != "VVV" || w.pods[3].slow != 1 || w.pods[3].price != 1 {
				t.Errorf("another cluster is %s", w.letters(1))
			}
		})
	}
}

// A pod that is scaled in refuses what is new, ends what it has, and is paid until then.
func TestPodsEndWhatTheyHave(t *testing.T) {
	t.Parallel()
	s := three(2)
	s.Events = []Event{{Kind: ScaleIn, Cluster: "us-east-1", At: 100 * ms}}
	p := scripted(map[uint64]string{1: "0/1", 2: "0/1 0/0", 3: "0/0"})
	late := ask(2, 110*ms, 1)
	r := play(t, s, p, ask(1, 0, 100), late, ask(3, 5*time.Second, 1))
	first, second := r.Records[0], r.Records[1]
	if first.End != OK || first.Attempts != 1 || first.Pod != 1 {
		t.Errorf("what it had: %+v", first)
	}
	if second.End != OK || second.Attempts != 2 || second.Pod != 0 {
		t.Errorf("what came then: %+v", second)
	}
	if got, want := r.Pods[0][1].Alive, first.Last-LocalRTT/2; got != want {
		t.Errorf("it was paid for %v, its last answer took %v", got, want)
	}
}

// A pod that hangs while it drains goes when it has been able to end.
func TestPodsHangWhileTheyDrain(t *testing.T) {
	t.Parallel()
	s := three(2)
	s.Events = []Event{
		{Kind: ScaleIn, Cluster: "us-east-1", At: 100 * ms},
		{Kind: Hang, Cluster: "us-east-1", At: 200 * ms, For: time.Second},
	}
	r := play(t, s, scripted(map[uint64]string{1: "0/1", 2: "1/0"}), ask(1, 0, 100), ask(2, 5*time.Second, 1))
	if got := r.Records[0].Last.Round(10 * ms); got != 1770*ms {
		t.Errorf("the answer ended at %v, 770 ms of work and a second of silence", got)
	}
	if got := r.Pods[0][1].Alive.Round(10 * ms); got != 1770*ms {
		t.Errorf("it was there for %v", got)
	}
}

// While a cluster hangs its metrics look fresh and stand still, however many requests it swallows.
func TestHangingLooksHealthy(t *testing.T) {
	t.Parallel()
	s := three(1)
	s.Events = []Event{{Kind: Hang, Cluster: "us-east-1", At: 500 * ms}}
	s.Timeout = 3 * time.Second
	words, requests := map[uint64]string{99: "1/0"}, []workload.Request(nil)
	for i := range 5 {
		id := uint64(i + 1)
		words[id], requests = "0/0", append(requests, ask(id, time.Duration(300*i)*ms, 1000))
	}
	p := scripted(words)
	looks := 0
	p.tick = func(v *View) {
		pod := v.Clusters[0].Pods
		if v.Router != 0 || v.Now < 2*time.Second || v.Now > 2500*ms {
			return
		}
		looks++
		if x := pod[0]; x.Failing || !x.Known || v.Now-x.At > 50*ms || x.Running != 2 || x.Waiting != 0 || x.InFlight != 5 {
			t.Errorf("at %v it looks like %+v", v.Now, x)
		}
		if x := v.Clusters[0].Told; x.Ready != 1 || x.Running != 2 || x.Waiting != 0 {
			t.Errorf("at %v it tells %+v", v.Now, x)
		}
	}
	r := play(t, s, p, append(requests, ask(99, 6*time.Second, 1))...)
	for i, want := range []End{Cut, Cut, GaveUp, GaveUp, GaveUp, OK} {
		if got := r.Records[i].End; got != want {
			t.Errorf("request %d ends %v, want %v", i+1, got, want)
		}
	}
	if looks < 4 {
		t.Errorf("looked %d times", looks)
	}
}

// Adapters that are in a pod's slots are told, and a pod without slots can't serve them.
func TestAdapters(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{0, 10 * ms} {
		s := three(2)
		s.Clusters[0].Pods = append(s.Clusters[0].Pods, s.Clusters[0].Pods[0])
		s.Clusters[0].Pods[0].Count, s.Clusters[0].Pods[0].Options.MaxAdapters = 1, 2
		s.Clusters[0].Pods[1].Count = 1
		s.Scrape.Delay = delay
		requests := []workload.Request{ask(1, 0, 1), ask(2, 200*ms, 1), ask(3, 400*ms, 1), ask(4, 600*ms, 1), ask(5, 2*time.Second, 1)}
		for i, a := range []string{"b", "a", "c", "a"} {
			requests[i].Adapter = a
		}
		p := scripted(map[uint64]string{1: "0/0", 2: "0/0", 3: "0/0", 4: "0/1 0/0", 5: "1/0"})
		var seen []string
		p.tick = func(v *View) {
			if x := v.Clusters[0].Pods; v.Router == 0 {
				got := fmt.Sprint(x[0].Adapters, x[0].MaxAdapters, x[1].Adapters, x[1].MaxAdapters)
				if len(seen) == 0 || seen[len(seen)-1] != got {
					seen = append(seen, got)
				}
			}
		}
		r := play(t, s, p, requests...)
		if got, want := strings.Join(seen[len(seen)-3:], "; "), "[b] 2 [] 0; [a b] 2 [] 0; [a c] 2 [] 0"; got != want {
			t.Errorf("with a delay of %v seen were %s, want %s", delay, got, want)
		}
		if got := r.Records[3]; got.End != Failed || got.Attempts != 1 {
			t.Errorf("%+v", got)
		}
	}
}
