package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/inquiry"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
)

const (
	// askOne bounds the wait for one router, askMost how many are asked in turn, and askAll the whole.
	askOne  = 1200 * time.Millisecond
	askMost = 6
	askAll  = inquiry.Timeout
)

// ClusterEndpoints is how one router sees the endpoints of a cluster, at the moment in which it was asked.
type ClusterEndpoints struct {
	Cluster fleet.ClusterID `json:"cluster"`
	Region  fleet.RegionID  `json:"region"`
	At      time.Time       `json:"at"`
	// From is the router that says so, Others how many more of the region could be asked.
	From   Origin `json:"from"`
	Others int    `json:"others"`
	// Sight is what that router sees: servers (each model server), pool (the gateway, and its pool in sums), provider,
	// cluster (it stands elsewhere and sees the cluster as a whole), or none. About says it in a sentence.
	Sight string `json:"sight"`
	About string `json:"about"`
	// Ejected: this router sends the cluster nothing, for Reason. OwnRequests of its clients are there now.
	Ejected     bool   `json:"ejected"`
	Reason      string `json:"reason"`
	OwnRequests int64  `json:"ownRequests"`
	// Endpoints by id; Left is how many more there are. Where not all are told of, those come first that are not in full
	// use.
	Endpoints []EndpointSight `json:"endpoints"`
	Left      int             `json:"left"`
	// Silent are routers that were asked before, and why they said nothing.
	Silent []SilentRouter `json:"silent"`
}

// SilentRouter is a router that gave no answer.
type SilentRouter struct {
	Router fleet.RouterID `json:"router"`
	Region fleet.RegionID `json:"region"`
	Why    string         `json:"why"`
}

// EndpointSight is an endpoint of a cluster as a router sees it.
type EndpointSight struct {
	ID    fleet.EndpointID `json:"id"`
	URL   string           `json:"url"`
	Class string           `json:"class"` // of GPU; empty: not known
	// State is ready, starting (it gets Ramp of its usual share), busy (it said that it has no room) or ejected, for
	// Reason.
	State  string  `json:"state"`
	Reason string  `json:"reason"`
	Ramp   float64 `json:"ramp"`
	// Freshness and SignalAgeMs of its own metrics; -1: there are none.
	Freshness   string `json:"freshness"`
	SignalAgeMs int64  `json:"signalAgeMs"`
	// Waiting and Running are requests there now, whosever; Slots how many its batch takes, as told or learned;
	// OwnRequests those of this router.
	Waiting     float64 `json:"waiting"`
	Running     float64 `json:"running"`
	Slots       float64 `json:"slots"`
	OwnRequests int64   `json:"ownRequests"`
	// KVUsage, 0..1, of the KV cache; 0 without metrics. BacklogTokens of this router's prompts are still to be computed.
	KVUsage       float64 `json:"kvUsage"`
	BacklogTokens float64 `json:"backlogTokens"`
	// PoolReady is how many servers of a gateway's pool are ready; -1: not told, or no gateway.
	PoolReady int `json:"poolReady"`
	// Adapters are the LoRA adapters believed loaded, by the server's names, AdaptersLeft how many more; AdaptersMost
	// fit, 0: not told.
	Adapters     []string `json:"adapters"`
	AdaptersLeft int      `json:"adaptersLeft"`
	AdaptersMost int      `json:"adaptersMost"`
	// Models that the cluster serves, and how this endpoint fares with each.
	Models []EndpointModel `json:"models"`
}

// EndpointModel is how an endpoint fares with a model. Rates are learned from answers of all endpoints of the same GPU
// class that the router sends to.
type EndpointModel struct {
	Model fleet.ModelID `json:"model"`
	// Used: it is, as far as the model goes. Otherwise Reason says why not.
	Used   bool   `json:"used"`
	Reason string `json:"reason"`
	// Learned: enough has been seen. Until then the rates are what the router begins with.
	Learned bool `json:"learned"`
	// PrefillTokensPerSecond of prompts that are not cached; DecodeTokensPerSecond of one answer, in the batch of now.
	PrefillTokensPerSecond float64 `json:"prefillTokensPerSecond"`
	DecodeTokensPerSecond  float64 `json:"decodeTokensPerSecond"`
	// OverheadMs of a first token whatever its prompt; StepMs between tokens with nothing else in the batch, StepMoreMs
	// more for each request in it.
	OverheadMs float64 `json:"overheadMs"`
	StepMs     float64 `json:"stepMs"`
	StepMoreMs float64 `json:"stepMoreMs"`
	// TTFTP50Ms and TTFTP95Ms of answers from here of late; 0: too few.
	TTFTP50Ms float64 `json:"ttftP50Ms"`
	TTFTP95Ms float64 `json:"ttftP95Ms"`
}

// endpointsOf asks a router how it sees the endpoints of a cluster.
func (s *Server) endpointsOf(c echo.Context) error {
	limit := maxLimit
	if c.QueryParam("limit") != "" {
		var err error
		if limit, err = limitOf(c); err != nil {
			return err
		}
	}
	asked := fleet.RouterID(c.QueryParam("router"))
	if asked != "" {
		if err := fleet.CheckName(string(asked)); err != nil {
			return newProblem(codeInvalidRequest, fmt.Sprintf("router %s.", err))
		}
	}
	doc, known := s.localView(c).Get(policy.KindCluster, c.Param("name"))
	if !known {
		return notFound(policy.KindCluster, c.Param("name"))
	}
	out := ClusterEndpoints{
		Cluster: fleet.ClusterID(doc.Metadata.Name), Region: fleet.RegionID(doc.Spec.(*policy.ClusterSpec).Region), Silent: []SilentRouter{},
	}
	near, all := witnesses(s.o.Signals.Snapshot(s.o.Now()), out.Cluster, out.Region)
	if asked != "" {
		all = slices.DeleteFunc(all, func(o signal.Observation) bool { return o.Router() != asked })
		if len(all) == 0 {
			return newProblem(codeRouterAway, fmt.Sprintf("Router %s is connected to no node, as far as this one knows; /v1/routers lists those that are.", asked)).after(time.Second)
		}
	}
	if s.o.Inquiries == nil || len(all) == 0 {
		return newProblem(codeRouterAway, fmt.Sprintf("No router is connected, in %s or elsewhere, that could say how it sees the endpoints of %s.", out.Region, out.Cluster)).after(5 * time.Second)
	}
	out.Others = max(near-1, 0)
	got, err := s.inspect(c.Request().Context(), &out, all, limit)
	if err != nil {
		return err
	}
	out.show(got, s.o.Now())
	return c.JSON(http.StatusOK, out)
}

// witnesses are the connected routers in the order in which they are asked, near of which stand in the cluster's region
// and have reported of late; those come first. Which of them is first differs by cluster and stays the same, so that
// who looks again sees the same router's word.
func witnesses(now signal.Snapshot, cluster fleet.ClusterID, region fleet.RegionID) (near int, all []signal.Observation) {
	rank := func(o signal.Observation) int {
		switch {
		case !slices.Contains(o.Hello.GetFeatures(), routerpb.Feature_FEATURE_INSPECT):
			return 3
		case o.Region() != region:
			return 2
		case o.Freshness(now.At) != signal.Fresh:
			return 1
		}
		return 0
	}
	draw := func(o signal.Observation) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(string(cluster) + "/" + string(o.Router()))) // never fails
		return h.Sum64()
	}
	for _, o := range now.Routers {
		if !o.Connected {
			continue
		}
		all = append(all, o)
		if rank(o) == 0 {
			near++
		}
	}
	slices.SortFunc(all, func(a, b signal.Observation) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(draw(a), draw(b)), cmp.Compare(a.Router(), b.Router()))
	})
	return near, all
}

// inspect asks one router after another until one answers.
func (s *Server) inspect(ctx context.Context, out *ClusterEndpoints, routers []signal.Observation, limit int) (inquiry.Inspection, error) {
	ctx, cancel := context.WithTimeout(ctx, askAll)
	defer cancel()
	var last error
	for _, o := range routers[:min(len(routers), askMost)] {
		if ctx.Err() != nil {
			break
		}
		one, end := context.WithTimeout(ctx, askOne)
		got, err := s.o.Inquiries.Inspect(one, o.Router(), out.Cluster, uint32(limit)) //nolint:gosec // 1 to 1,000
		end()
		if err == nil {
			return got, nil
		}
		last = err
		out.Silent = append(out.Silent, SilentRouter{o.Router(), o.Region(), whySilent(err)})
	}
	if len(out.Silent) == 1 && !errors.Is(last, context.DeadlineExceeded) {
		return inquiry.Inspection{}, problemOfInquiry(last, out.Silent[0].Router)
	}
	var why []string
	for _, r := range out.Silent {
		why = append(why, fmt.Sprintf("%s %s", r.Router, r.Why))
	}
	return inquiry.Inspection{}, newProblem(codeRouterSilent, fmt.Sprintf("No router says how it sees the endpoints of %s: %s.", out.Cluster, strings.Join(why, "; "))).after(time.Second)
}

// show fills in what the router said.
func (e *ClusterEndpoints) show(got inquiry.Inspection, now time.Time) {
	e.From, e.At, e.Endpoints = Origin{got.Router, got.Region, got.Node}, now.UTC(), []EndpointSight{}
	sight := got.Sight
	e.Ejected, e.Reason, e.OwnRequests, e.Left = sight.GetEjected(), sight.GetReason(), sight.GetInFlight(), int(sight.GetLeft())
	switch {
	case !sight.GetKnown():
		e.Sight = "none"
		e.About = fmt.Sprintf("The table of %s does not have the cluster yet.", got.Router)
	case sight.GetRemote():
		e.Sight = "cluster"
		e.About = fmt.Sprintf("%s stands in %s and reaches the cluster by way of the routers of %s: it sees no endpoint.", got.Router, got.Region, e.Region)
	case sight.GetKind() == policy.TypeGateway:
		e.Sight = "pool"
		e.About = "A gateway stands before the pods and chooses among them: which there are is its own. It tells of its pool in sums."
	case sight.GetKind() == policy.TypeProvider:
		e.Sight = "provider"
		e.About = "A provider shows nothing of what serves its answers; its load is what it says of its limits."
	default:
		e.Sight = "servers"
		e.About = fmt.Sprintf("As %s sees each model server.", got.Router)
	}
	for _, p := range sight.GetPlaces() {
		e.Endpoints = append(e.Endpoints, endpointSight(p))
	}
}

func endpointSight(p *routerpb.PlaceSight) EndpointSight {
	x := EndpointSight{
		ID: fleet.EndpointID(p.GetId()), URL: p.GetUrl(), Class: p.GetClass(), State: p.GetState(), Reason: p.GetReason(), Ramp: rough(p.GetRamp()),
		Freshness: p.GetFreshness(), SignalAgeMs: p.GetAgeMs(), Waiting: rough(p.GetWaiting()), Running: rough(p.GetRunning()),
		Slots: rough(p.GetSlots()), OwnRequests: p.GetInFlight(), KVUsage: rough(p.GetKvUsage()), BacklogTokens: rough(p.GetBacklogTokens()),
		PoolReady: int(p.GetPoolReady()), Adapters: append([]string{}, p.GetAdapters()...), AdaptersLeft: int(p.GetAdaptersLeft()),
		AdaptersMost: int(p.GetAdaptersMost()), Models: []EndpointModel{},
	}
	batch := max(x.Running/float64(max(x.PoolReady, 1)), 1)
	for _, m := range p.GetModels() {
		step := signal.Number(m.GetStepMs()) + signal.Number(m.GetStepMoreMs())*batch
		decode := 0.0
		if step > 0 {
			decode = 1000 / step
		}
		x.Models = append(x.Models, EndpointModel{
			Model: fleet.ModelID(m.GetModel()), Used: !m.GetLacks(), Reason: m.GetReason(), Learned: m.GetKnown(),
			PrefillTokensPerSecond: rough(m.GetPrefillPerS()), DecodeTokensPerSecond: rough(decode),
			OverheadMs: rough(m.GetOverheadMs()), StepMs: rough(m.GetStepMs()), StepMoreMs: rough(m.GetStepMoreMs()),
			TTFTP50Ms: rough(m.GetTtftP50Ms()), TTFTP95Ms: rough(m.GetTtftP95Ms()),
		})
	}
	return x
}

// whySilent words why a router gave no answer.
func whySilent(err error) string {
	switch {
	case errors.Is(err, inquiry.ErrTooOld):
		return "has a build that can't be asked"
	case errors.Is(err, inquiry.ErrBusy):
		return "is asked too much"
	case errors.Is(err, context.DeadlineExceeded):
		return "does not answer"
	case errors.Is(err, inquiry.ErrNotConnected), errors.Is(err, inquiry.ErrUnknownRouter):
		return "is not connected to a node that answers"
	}
	return "could not be asked"
}
