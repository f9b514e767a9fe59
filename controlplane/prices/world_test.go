package prices

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
	"anabranch/costmodel/pricelist"
)

// nodes are those of a cluster: one state for all, and one of them leads.
type nodes struct {
	t *testing.T

	mu      sync.Mutex // guards what is below
	view    *state.View
	leader  string
	refuse  error // of the next proposals
	commits []*statepb.PutPrices
}

// found is a cluster whose state knows prices, with the fleet of clusters.
func found(t *testing.T, clusters string) *nodes {
	n := &nodes{t: t, view: state.Empty(), leader: "n1"}
	n.do(&statepb.Command{Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c", Tokens: []*statepb.Token{{Name: "a", Role: "admin", Sha256: make([]byte, 32)}}}}})
	n.do(&statepb.Command{Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: state.Format}}})
	n.write("Region", "us-east-1", "{}")
	n.write("Region", "eu-west-1", "{}")
	n.write("Model", "m", "{}")
	n.cluster("us-1", "us-east-1", clusters)
	return n
}

// cluster has GPUs, as its spec lists them.
func (n *nodes) cluster(name, region, gpus string) {
	n.write("Cluster", name, fmt.Sprintf("{region: %s, models: [m], endpoints: [{id: e, url: \"http://%s:1\", class: h100}], gpus: [%s]}", region, name, gpus))
}

func (n *nodes) write(kind policy.Kind, name, spec string) {
	n.t.Helper()
	r, problems := policy.Parse(fmt.Appendf(nil, "apiVersion: anabranch/v1\nkind: %s\nmetadata: {name: %s}\nspec: %s\n", kind, name, spec))
	if len(problems) > 0 {
		n.t.Fatalf("%s %s: %+v", kind, name, problems)
	}
	doc := policy.Canonical(r)
	n.do(&statepb.Command{Op: &statepb.Command_Put{Put: &statepb.Put{Kind: string(kind), Name: name, Doc: doc, AnyRevision: true}}})
}

func (n *nodes) do(c *statepb.Command) *statepb.Outcome {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	c.Format, c.AtUnixMs = state.FormatOf(c), max(c.GetAtUnixMs(), 1)
	if c.GetActor() == nil {
		c.Actor = &statepb.Actor{Name: "a", Role: "admin"}
	}
	next, out, err := state.Apply(n.view, n.view.Index()+1, c)
	if err != nil || out.GetCode() != "" {
		n.t.Errorf("%v: %v, %v", c, out, err)
		return out
	}
	n.view = next
	if p := c.GetPutPrices(); p != nil {
		n.commits = append(n.commits, p)
	}
	return out
}

func (n *nodes) View() *state.View {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.view
}

// lead makes a node the leader.
func (n *nodes) lead(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.leader = id
}

func (n *nodes) refusing(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuse = err
}

func (n *nodes) leads(id string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.leader == id
}

// committed are the commands about prices since it was asked last.
func (n *nodes) committed() []*statepb.PutPrices {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.commits
	n.commits = nil
	return all
}

// keeper of a node, that asks groups.
func (n *nodes) keeper(id string, groups ...Group) *Keeper {
	n.t.Helper()
	k, err := New(Options{
		Groups: groups, Leading: func() bool { return n.leads(id) }, View: n.View, Random: func() float64 { return 0.5 },
		Propose: func(ctx context.Context, c *statepb.Command) (*statepb.Outcome, error) {
			n.mu.Lock()
			err := n.refuse
			n.mu.Unlock()
			if err == nil && !n.leads(id) {
				err = errors.New("not the leader")
			}
			if err != nil {
				return nil, err
			}
			return n.do(c), ctx.Err()
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return k
}

// running runs a keeper until the function that is returned has been called.
func running(k *Keeper) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = k.Run(ctx) // which has nothing to say
	}()
	return func() {
		cancel()
		<-done
	}
}

// seller is a source of the test.
type seller struct {
	name string

	mu     sync.Mutex // guards what is below
	offers []costmodel.Offer
	err    error
	asked  []time.Time
	needs  []Need
	hangs  time.Duration
}

func (s *seller) Name() string { return s.name }

func (s *seller) Offers(ctx context.Context) ([]costmodel.Offer, error) {
	s.mu.Lock()
	s.asked = append(s.asked, time.Now())
	offers, err, hangs := s.offers, s.err, s.hangs
	s.mu.Unlock()
	select {
	case <-time.After(hangs):
		return offers, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *seller) says(err error, offers ...costmodel.Offer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.offers = err, offers
}

// times it was asked since it was asked for them last.
func (s *seller) times() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.asked)
	s.asked = nil
	return n
}

func (s *seller) wanted() []Need {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.needs
}

// group of sellers, who remember what they were wanted for.
func groupOf(every time.Duration, sellers ...*seller) Group {
	return Group{Name: "test", Every: every, Sources: func(needs []Need) ([]pricelist.Source, error) {
		var all []pricelist.Source
		for _, s := range sellers {
			s.mu.Lock()
			s.needs = needs
			s.mu.Unlock()
			all = append(all, s)
		}
		return all, nil
	}}
}

// spot is a live price of H100s in us-east-1.
func spot(usd float64) costmodel.Offer {
	return costmodel.Offer{Class: "h100", Instance: "p5.48xlarge", GPUs: 8, Region: "us-east-1", Purchase: costmodel.Spot, PerHour: costmodel.FromUSD(usd), Origin: costmodel.Live, Source: "the market"}
}

// price is what the state knows of it; below 0: nothing.
func (n *nodes) price() float64 {
	for _, o := range n.View().Offers() {
		if o.Class == "h100" && o.Purchase == costmodel.Spot && o.Region == "us-east-1" {
			return o.PerHour.USD()
		}
	}
	return -1
}

const spotH100 = "{class: h100, count: 8, instance: p5.48xlarge, purchase: spot}"

// pass lets virtual time pass, and what is due then be done.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time of synctest
	synctest.Wait()
}
