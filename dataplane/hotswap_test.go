package dataplane

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
)

// swapping changes a table at random: which endpoints serve where, the weights, the rules, the
// names of models, whether the second cluster is there, and now and then all clusters at once.
type swapping struct {
	base  *routerpb.Table
	names [2]string // of the clusters now
	moves int       // how often all have been swapped
	rnd   *rand.Rand
	stubs []*stub
}

func (s *swapping) next(revision uint64) *routerpb.Table {
	pb := proto.CloneOf(s.base)
	pb.Ref.Revision = revision
	some := func() (all []*routerpb.Endpoint) {
		for i, at := range s.rnd.Perm(len(s.stubs))[:1+s.rnd.IntN(len(s.stubs))] {
			all = append(all, &routerpb.Endpoint{Id: fmt.Sprintf("e%d", i+1), Url: s.stubs[at].URL, Class: []string{"h100", "l40s"}[s.rnd.IntN(2)]})
		}
		return all
	}
	if s.rnd.IntN(4) == 0 { // nothing that a request may have chosen is in the new table
		s.moves++
		s.names = [...][2]string{{"us-a", "us-b"}, {"us-c", "us-d"}, {"us-e", "us-f"}}[s.moves%3]
	}
	for i, c := range pb.Clusters {
		c.Id, c.Endpoints = s.names[i], some()
	}
	first := s.rnd.Float64()
	if s.rnd.IntN(3) == 0 { // the second cluster is gone
		first = 1
		pb.Clusters = pb.Clusters[:1]
	}
	for _, ws := range pb.Weights {
		ws.Clusters = []*routerpb.ClusterWeight{{Cluster: s.names[0], Weight: first}, {Cluster: s.names[1], Weight: 1 - first}}[:len(pb.Clusters)]
	}
	if s.rnd.IntN(2) == 0 {
		rule := &routerpb.Rule{Id: fmt.Sprint("rule-", revision), Class: "interactive", Match: []*routerpb.Match{{Tenants: []string{"globex"}}}, Model: "qwen"}
		if s.rnd.IntN(2) == 0 {
			rule.Clusters = []string{s.names[0]}
		}
		pb.Rules = append(pb.Rules, rule)
	}
	pb.Models[0].Aliases = []string{"best", fmt.Sprint("alias-", revision%3)}
	pb.Classes[0].PickMode = []string{"predicted-ttft", "round-robin", "least-outstanding", "random", "prefix-hash"}[s.rnd.IntN(5)]
	return pb
}

// TestTablesAreSwappedUnderLoad swaps tables while clients ask. What a table no longer has ends what
// it began, and no request notices.
func TestTablesAreSwappedUnderLoad(t *testing.T) {
	const swaps, clients = 100, 32
	steady := func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(time.Duration(rand.IntN(10)) * time.Millisecond): // the model computes
		case <-r.Context().Done():
			return
		}
		if r.Header.Get("X-Streams") == "" {
			answers(w, r)
			return
		}
		send(w, role, content)
		select {
		case <-time.After(time.Duration(rand.IntN(20)) * time.Millisecond):
		case <-r.Context().Done():
			return
		}
		send(w, content, content, finish, counted, done)
	}
	stubs := []*stub{newStub(t, steady), newStub(t, steady), newStub(t, steady), newStub(t, steady)}
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 0.5, endpoints: stubs[:2]}, {id: "us-b", region: us, weight: 0.5, endpoints: stubs[2:]},
	}, func(pb *routerpb.Table) {
		ruled()(pb)
		pb.Classes[0].FirstByteFloorMs = 20_000
	})
	stop := w.run()
	var over atomic.Bool
	var asked atomic.Int64
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for i := 0; !over.Load(); i++ {
				body := askWhole
				if (c+i)%3 > 0 {
					body = askStream
				}
				if i%2 == 0 {
					body = strings.Replace(body, "llama", "best", 1)
				}
				r := w.ask(us, []string{"acme", "globex"}[c%2], body)
				asked.Add(1)
				if r.status != http.StatusOK || r.err != nil || !strings.HasSuffix(r.body, done) && r.body != whole {
					t.Errorf("%d %v %q", r.status, r.err, r.body)
				}
				if strings.HasSuffix(r.body, done) && strings.Count(r.body, `"tok"`) != 3 {
					t.Errorf("not all of it: %q", r.body)
				}
			}
		})
	}
	s := &swapping{base: w.table, names: [2]string{"us-a", "us-b"}, rnd: rand.New(rand.NewPCG(11, 12)), stubs: stubs}
	for i := range uint64(swaps) {
		before := asked.Load()
		w.table = s.next(6 + i)
		w.apply()
		w.eventually("requests go on", func() bool { return asked.Load() >= before+clients/4 })
	}
	over.Store(true)
	all.Wait()
	t.Logf("%d requests over %d tables, all clusters swapped %d times", asked.Load(), swaps, s.moves)
	if s.moves < swaps/10 {
		t.Errorf("all clusters were swapped %d times", s.moves)
	}
	w.idle()
	for i, s := range stubs {
		if s.requests.Load() == 0 {
			t.Errorf("stub %d was never asked", i)
		}
		if s.left.Load() != 0 {
			t.Errorf("%d requests at stub %d were not let to end", s.left.Load(), i)
		}
	}
	n := w.routers[us]
	if n.failed.Load() != 0 {
		t.Errorf("%d failures are counted", n.failed.Load())
	}
	if got := w.settled(stop, "q-requests"); got < asked.Load()/3 || got > asked.Load() {
		t.Errorf("%d requests of globex charged, of %d in all", got, asked.Load())
	}
}

// TestAPlaceThatLeavesTheTableEndsItsRequests: the streams of a place go on when it leaves the
// table, and nothing new goes there.
func TestAPlaceThatLeavesTheTableEndsItsRequests(t *testing.T) {
	for name, gone := range map[string]func(*routerpb.Table, *stub){
		"endpoint": func(pb *routerpb.Table, other *stub) { pb.Clusters[0].Endpoints[0].Url = other.URL },
		"cluster": func(pb *routerpb.Table, _ *stub) {
			pb.Clusters = pb.Clusters[1:]
			pb.Weights[0].Clusters = []*routerpb.ClusterWeight{{Cluster: "us-b", Weight: 1}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, first, second := pair(t, nil)
			begun, let := make(chan struct{}), make(chan struct{})
			first.does(func(rw http.ResponseWriter, _ *http.Request) {
				send(rw, role, content)
				close(begun)
				<-let
				send(rw, content, content, finish, counted, done)
			})
			stop := w.run()
			got := make(chan got, 1)
			go func() { got <- w.ask(us, "globex", askStream) }()
			<-begun
			gone(w.table, second)
			w.table.Ref.Revision++
			w.apply()
			if r := w.ask(us, "acme", askStream); r.status != http.StatusOK || first.requests.Load() != 1 || second.requests.Load() != 1 {
				t.Errorf("%d, %d requests at the place that is gone", r.status, first.requests.Load())
			}
			close(let)
			r := <-got
			if r.status != http.StatusOK || r.err != nil || strings.Count(r.body, `"tok"`) != 3 || !strings.HasSuffix(r.body, done) {
				t.Errorf("%d %v %q", r.status, r.err, r.body)
			}
			w.idle()
			if charged := w.settled(stop, "q-tokens"); charged != 14 {
				t.Errorf("charged %d tokens", charged)
			}
		})
	}
}
