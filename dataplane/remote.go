package dataplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"

	"anabranch/api/fleet"
	"anabranch/dataplane/proxy"
	"anabranch/dataplane/route"
	"anabranch/dataplane/table"
	"anabranch/failover"
)

// The headers that tell a peer the rule of policy that speaks of a request, and the arm of its split.
const (
	headerPolicy = "X-Anabranch-Policy"
	headerArm    = "X-Anabranch-Arm"
	// shadowArm stands there for copies of requests; no arm can be called so.
	shadowArm = "(shadow)"
)

// probePath is where a peer says whether a cluster of its region can be used.
const probePath = "/peer/probe"

// peers knows the routers of other regions: their addresses, parsed, and for each region the one
// that answered last. Addresses of endpoints are kept parsed here too.
type peers struct {
	transport http.RoundTripper
	bases     sync.Map // string → *url.URL
	last      sync.Map // fleet.RegionID → *atomic.Uint32
}

func newPeers(transport http.RoundTripper) *peers { return &peers{transport: transport} }

// sync forgets the addresses of the tables before.
func (p *peers) sync(*table.Table) { p.bases.Clear() }

// base parses an address of the table, once.
func (p *peers) base(address string) (*url.URL, error) {
	if u, ok := p.bases.Load(address); ok {
		return u.(*url.URL), nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, err // can't be: the table was validated
	}
	p.bases.Store(address, u)
	return u, nil
}

// keepWarm keeps a connection to the routers of each other region open, so that the first request that
// has to go there pays for no handshake.
func (r *Router) keepWarm(ctx context.Context) error {
	r.relay.Warm(ctx, func() []*url.URL {
		var all []*url.URL
		if t := r.tables.Load(); t != nil {
			for id, region := range t.Regions {
				if id == r.region {
					continue
				}
				for _, address := range region.PeerURLs {
					if u, err := r.peers.base(address); err == nil { // the table was validated
						all = append(all, u)
					}
				}
			}
		}
		return all
	})
	return nil
}

// preferred is the index of the address that answered last in a region.
func (p *peers) preferred(region fleet.RegionID) *atomic.Uint32 {
	if i, ok := p.last.Load(region); ok {
		return i.(*atomic.Uint32)
	}
	i, _ := p.last.LoadOrStore(region, &atomic.Uint32{})
	return i.(*atomic.Uint32)
}

// errNoPeer: a region has no router that can be asked.
var errNoPeer = errors.New("the region has no peer address")

// each calls f with the addresses of a region's routers, the one that answered last first, until f
// says that it got through.
func (p *peers) each(region *table.Region, f func(base *url.URL) (through bool)) error {
	if region == nil || len(region.PeerURLs) == 0 {
		return errNoPeer
	}
	n := uint32(len(region.PeerURLs))
	preferred := p.preferred(region.ID)
	first := preferred.Load() % n
	for i := range n {
		at := (first + i) % n
		base, err := p.base(region.PeerURLs[at])
		if err != nil {
			return err
		}
		if f(base) {
			preferred.Store(at)
			return nil
		}
	}
	return nil
}

// hop sends to a cluster of another region by way of a router there. Of several routers those that
// can't be reached are passed over; the attempt fails when none can.
func (r *Router) hop(ctx context.Context, x *trip, t *try) {
	t.a.Peer = true
	policy, arm := x.tells(t.target)
	t.a.Set = append(traceFields(t.span),
		proxy.Field{Key: proxy.HeaderTenant, Value: string(x.tenant.ID)},
		proxy.Field{Key: proxy.HeaderHop, Value: "1"},
		proxy.Field{Key: proxy.HeaderClass, Value: string(x.class.ID)},
		proxy.Field{Key: proxy.HeaderPriority, Value: strconv.Itoa(int(x.priority))},
		proxy.Field{Key: proxy.HeaderFairness, Value: x.fairness},
		proxy.Field{Key: proxy.HeaderClusterHint, Value: string(t.target.Hint())},
		proxy.Field{Key: headerPolicy, Value: policy},
		proxy.Field{Key: headerArm, Value: arm},
		proxy.Field{Key: headerDrill, Value: x.tellDrill()},
		proxy.Field{Key: proxy.HeaderRequestID, Value: x.id},
		proxy.Field{Key: "X-Request-Id", Value: x.name()},
	)
	t.result = proxy.Result{Outcome: failover.ConnectFailure, Retryable: true, Exempt: true}
	call := x.counted(t.cluster.Hop(x.load, r.now()))
	defer func() { r.done(call, t) }()
	err := r.peers.each(x.table.Regions[t.target.Region], func(base *url.URL) bool {
		t.a.URL = at(base, x.q.URL)
		r.do(ctx, x, t, call)
		return t.result.Outcome != failover.ConnectFailure || t.result.Status != 0
	})
	if err != nil {
		t.result.Cause = err
	}
}

// tells is what the peer is told of the rule and the arm. Routers that follow another control plane know
// none of ours.
func (x *trip) tells(target *route.Target) (policy, arm string) {
	switch {
	case target.Hint() == "":
		return "", ""
	case x.shadow:
		return x.policy(), shadowArm
	}
	return x.policy(), x.armID()
}

// probe asks another region's routers whether a cluster can be used, for its way back into use.
func (r *Router) probe(ctx context.Context, c *table.Cluster) error {
	t := r.tables.Load()
	if t == nil {
		return errNoPeer
	}
	var answer error
	err := r.peers.each(t.Regions[c.Region], func(base *url.URL) bool {
		answer = r.ask(ctx, base, c.ID)
		return answer == nil
	})
	return errors.Join(err, answer)
}

func (r *Router) ask(ctx context.Context, base *url.URL, cluster fleet.ClusterID) error {
	u := *base
	u.Path += probePath
	u.RawQuery = url.Values{"cluster": {string(cluster)}}.Encode()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return err
	}
	answer, err := r.peers.transport.RoundTrip(q)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // what matters of it has been read
	why, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("peer answered %d: %.200q", answer.StatusCode, why)
	}
	return nil
}
