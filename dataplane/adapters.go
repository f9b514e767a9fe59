package dataplane

import (
	"net/http"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/adapters"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/table"
	"anabranch/failover"
)

// newLooker makes what looks at adapters, with a connection to each model server that it asks.
func (r *Router) newLooker() (*adapters.Looker, *http.Transport, error) {
	own := &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute}
	l, err := adapters.New(adapters.Options{
		Places: r.outOfUse, Canary: endpoint.CanaryHeader, Now: r.now, Logger: r.o.Logger,
		Send: func(c *table.Cluster, q *http.Request, body []byte) (*http.Response, error) {
			if err := r.sign(c, q, body); err != nil {
				return nil, err
			}
			if transport := r.transportFor(c); transport != nil {
				return transport.RoundTrip(q)
			}
			return own.RoundTrip(q)
		},
	})
	return l, own, err
}

// outOfUse are the models on clusters of this region that failover has taken out of use, by the table, and that have
// adapters, with the model servers there that answer.
func (r *Router) outOfUse() (out []adapters.Place) {
	t := r.tables.Load()
	if t == nil {
		return nil
	}
	for _, m := range t.Models() {
		if len(m.Adapters) == 0 {
			continue
		}
		for _, c := range t.Serving(m.ID) {
			if urls := r.serversOf(c, m.ID); len(urls) > 0 {
				out = append(out, adapters.Place{Cluster: c, Model: m.ID, Adapters: m.Adapters, URLs: urls})
			}
		}
	}
	return out
}

// serversOf are the model servers, or the gateway, of a cluster that is out of use, and that this router reaches.
func (r *Router) serversOf(c *table.Cluster, model fleet.ModelID) (urls []string) {
	health := failover.State(c.Health)
	if h, ok := c.ModelHealth[model]; ok {
		health = failover.State(h.Health)
	}
	place := r.places.Cluster(c.ID)
	if c.Region != r.region || place == nil || health != failover.Evacuated && health != failover.Recovering ||
		c.Kind != table.KindEndpoints && c.Kind != table.KindGateway {
		return nil
	}
	for _, e := range place.Endpoints() {
		if out, _ := e.Ejected(); !out && !lacks(e, model) {
			urls = append(urls, e.URL)
		}
	}
	return urls
}

// adapterReport adds which adapters are missing where.
func (r *Router) adapterReport(report *routerpb.Report) {
	for _, c := range report.GetClusters() {
		c.MissingAdapters = r.looker.Missing(fleet.ClusterID(c.GetCluster()), fleet.ModelID(c.GetModel()))
	}
}
