package rest

import (
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/api/fleet"
	"anabranch/controlplane/signal"
)

// Source is one place that a node of the control plane polls itself, or would.
type Source struct {
	Cluster  fleet.ClusterID  `json:"cluster"`
	Endpoint fleet.EndpointID `json:"endpoint"` // empty: the cluster's gateway
	Region   fleet.RegionID   `json:"region"`
	Node     fleet.NodeID     `json:"node"`
	// Kind of what is read: pool, server or health.
	Kind string `json:"kind"`
	URL  string `json:"url"`
	// Polled: it is at present, or is not, for Why.
	Polled bool   `json:"polled"`
	Why    string `json:"why"`
	// IntervalMs from one poll to the next, TimeoutMs of one request.
	IntervalMs int64 `json:"intervalMs"`
	TimeoutMs  int64 `json:"timeoutMs"`
	// AgeMs of what it said last, -1 if nothing; AskedMs since it was last asked, -1 if never.
	// Freshness is by how much longer ago than its interval it answered.
	AgeMs     int64  `json:"ageMs"`
	AskedMs   int64  `json:"askedMs"`
	Freshness string `json:"freshness"`
	// TookMs is how long the last answer took.
	TookMs float64 `json:"tookMs"`
	// Failures in a row; Error is what was wrong with the last poll, empty if nothing.
	Failures int    `json:"failures"`
	Error    string `json:"error"`
	// Polls since the node began with the source, and Failed of these.
	Polls  uint64 `json:"polls"`
	Failed uint64 `json:"failed"`
}

func (n standing) source(s signal.Source) Source {
	now := n.signals.At
	asked := int64(-1)
	if !s.Polled.IsZero() {
		asked = max(now.Sub(s.Polled).Milliseconds(), 0)
	}
	return Source{
		Cluster: s.Cluster, Endpoint: s.Endpoint, Region: s.Region, Node: s.Node, Kind: s.Kind, URL: s.URL,
		Polled: s.Active, Why: s.Why, IntervalMs: s.Interval.Milliseconds(), TimeoutMs: s.Timeout.Milliseconds(),
		AgeMs: ms(s.Age(now)), AskedMs: asked, Freshness: string(s.Freshness(now)), TookMs: float64(s.Took) / float64(time.Millisecond),
		Failures: s.Failures, Error: s.Error, Polls: s.Polls, Failed: s.Failed,
	}
}

// name tells sources apart, in the order in which they are known.
func (s Source) name() string {
	return fmt.Sprintf("%s %s %s", s.Cluster, s.Endpoint, s.Node)
}

// sources lists what nodes poll, by cluster, endpoint and node, perhaps only some of it.
func (s *Server) sources(c echo.Context) error {
	limit, err := limitOf(c)
	if err != nil {
		return err
	}
	wanted, err := sourceFilterOf(c)
	if err != nil {
		return err
	}
	from, err := sameList(c, "region", "cluster", "polled")
	if err != nil {
		return err
	}
	n := s.standing(s.localView(c))
	all := make([]Source, 0, len(n.signals.Sources))
	for _, x := range n.signals.Sources {
		all = append(all, n.source(x))
	}
	items, next := order[Source]{name: Source.name}.page(all, from, limit, wanted)
	return c.JSON(http.StatusOK, List[Source]{Items: append([]Source{}, items...), NextCursor: next})
}

// sourceFilterOf reads region, cluster and polled.
func sourceFilterOf(c echo.Context) (func(Source) bool, error) {
	region, cluster := c.QueryParam("region"), c.QueryParam("cluster")
	for name, value := range map[string]string{"region": region, "cluster": cluster} {
		if value == "" {
			continue
		}
		if err := fleet.CheckName(value); err != nil {
			return nil, newProblem(codeInvalidRequest, fmt.Sprintf("%s %s.", name, err))
		}
	}
	polled, err := flag(c, "polled")
	if err != nil {
		return nil, err
	}
	anyPolled := c.QueryParam("polled") == ""
	return func(s Source) bool {
		return (region == "" || string(s.Region) == region) && (cluster == "" || string(s.Cluster) == cluster) &&
			(anyPolled || s.Polled == polled)
	}, nil
}
