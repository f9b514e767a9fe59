package table

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// defaultPort is where model servers listen unless told otherwise; vLLM's.
const defaultPort = 8000

// maxName bounds what a model may be called at a cluster, in bytes.
const maxName = 256

func (t *Table) addClusters(pb *routerpb.Table) error {
	for i, p := range pb.Clusters {
		at := fmt.Sprintf("clusters[%d]", i)
		id := fleet.ClusterID(p.GetId())
		if id == "" {
			return invalid(CodeValue, at+".id", "is empty")
		}
		if t.Clusters[id] != nil {
			return invalid(CodeDuplicate, at+".id", "%q is there twice", id)
		}
		r := t.Regions[fleet.RegionID(p.Region)]
		if r == nil {
			return invalid(CodeUnknown, at+".region", "%q is not a region of the table", p.Region)
		}
		if !finite(p.HealthCap) || p.HealthCap < 0 || p.HealthCap > 1 {
			return invalid(CodeValue, at+".health_cap", "is %v, want 0 to 1", p.HealthCap)
		}
		c := &Cluster{
			ID: id, Region: r.ID, Zone: r.Zone, Kind: p.Kind, Health: p.Health, Cap: p.HealthCap,
			Drained: p.Drained, Hash: xxhash.Sum64String(p.Id),
		}
		if err := c.addHealth(at, p.ModelHealth); err != nil {
			return err
		}
		targets := c.addTargets
		if c.untold(pb.GetRegion(), p) {
			targets = func(string, *routerpb.Cluster) error { return nil }
		}
		for _, step := range []func(string, *routerpb.Cluster) error{targets, c.addNames, c.addAuth} {
			if err := step(at, p); err != nil {
				return err
			}
		}
		for _, m := range p.Models {
			model := fleet.ModelID(m)
			if c.Serves(model) {
				return invalid(CodeDuplicate, at+".models", "%q is there twice", m)
			}
			c.Models = append(c.Models, model)
			t.serving[model] = append(t.serving[model], c)
		}
		t.Clusters[id] = c
		r.Clusters = append(r.Clusters, c)
	}
	return nil
}

// addHealth reads the health of models that differs from the cluster's. One that is not served there is passed
// over: the table may be of a build that knows more of models than this one.
func (c *Cluster) addHealth(at string, list []*routerpb.ModelHealth) error {
	for i, h := range list {
		if share := h.GetHealthCap(); !finite(share) || share < 0 || share > 1 {
			return invalid(CodeValue, fmt.Sprintf("%s.model_health[%d].health_cap", at, i), "is %v, want 0 to 1", share)
		}
		if c.ModelHealth == nil {
			c.ModelHealth = make(map[fleet.ModelID]ModelHealth, len(list))
		}
		c.ModelHealth[fleet.ModelID(h.GetModel())] = ModelHealth{Health: h.GetHealth(), Cap: h.GetHealthCap()}
	}
	return nil
}

// CapOf is the share 0..1 of its weight that the cluster's health allows of a model.
func (c *Cluster) CapOf(model fleet.ModelID) float64 {
	if h, ok := c.ModelHealth[model]; ok {
		return h.Cap
	}
	return c.Cap
}

// untold: in a slice of a table for one region, how a cluster of another is reached is left out, since
// only the routers there call it.
func (c *Cluster) untold(slice string, p *routerpb.Cluster) bool {
	return slice != "" && slice != p.GetRegion() && (c.Kind == KindEndpoints || c.Kind == KindGateway) &&
		len(p.GetEndpoints()) == 0 && p.GetDiscovery() == nil && p.GetGatewayUrl() == ""
}

// addTargets reads the fields that belong to the kind.
func (c *Cluster) addTargets(at string, p *routerpb.Cluster) (err error) {
	switch p.Kind {
	case KindGateway, KindProvider:
		if p.GatewayUrl == "" {
			return invalid(CodeNoTarget, at+".gateway_url", "is empty, and the cluster is a %s", p.Kind)
		}
		if c.GatewayURL, err = checkURL(at+".gateway_url", p.GatewayUrl, "http", "https"); err != nil {
			return err
		}
		if p.Kind == KindGateway && p.MetricsUrl != "" {
			c.MetricsURL, err = checkURL(at+".metrics_url", p.MetricsUrl, "http", "https")
		}
		return err
	case KindRouter: // its region's peer_urls
		return nil
	case KindEndpoints:
		if err := c.addDiscovery(at+".discovery", p.Discovery); err != nil {
			return err
		}
		return c.addEndpoints(at, p.Endpoints)
	}
	return invalid(CodeValue, at+".kind", "is %q, want %q, %q, %q or %q", p.Kind, KindEndpoints, KindGateway, KindRouter, KindProvider)
}

func (c *Cluster) addEndpoints(at string, endpoints []*routerpb.Endpoint) error {
	if len(endpoints) == 0 && c.Discovery == nil {
		return invalid(CodeNoTarget, at+".endpoints", "is empty, and the cluster has no gateway and no discovery")
	}
	seen := make(map[string]bool, len(endpoints))
	for j, e := range endpoints {
		at := fmt.Sprintf("%s.endpoints[%d]", at, j)
		if e.GetId() == "" {
			return invalid(CodeValue, at+".id", "is empty")
		}
		if seen[e.Id] {
			return invalid(CodeDuplicate, at+".id", "%q is there twice", e.Id)
		}
		seen[e.Id] = true
		u, err := checkURL(at+".url", e.Url, "http", "https")
		if err != nil {
			return err
		}
		events := ""
		if e.KvEventsUrl != "" {
			if events, err = checkURL(at+".kv_events_url", e.KvEventsUrl, "tcp"); err != nil {
				return err
			}
			if u, err := url.Parse(events); err != nil || u.Port() == "" || u.Path != "" {
				return invalid(CodeValue, at+".kv_events_url", "is not tcp://host:port")
			}
		}
		c.Endpoints = append(c.Endpoints, Endpoint{
			ID: fleet.EndpointID(e.Id), URL: u, Class: strings.ToLower(e.Class), KVEventsURL: events,
		})
	}
	return nil
}

func (c *Cluster) addDiscovery(at string, p *routerpb.Discovery) error {
	if p == nil {
		return nil
	}
	d := &Discovery{
		Kind: p.Kind, Name: p.Name, Namespace: p.Namespace, Port: int(p.Port), Scheme: p.Scheme, Class: strings.ToLower(p.Class),
	}
	switch d.Kind {
	case DiscoverDNS, DiscoverSRV, DiscoverFile:
	case DiscoverEndpointSlices, DiscoverInferencePool:
		if d.Namespace == "" {
			return invalid(CodeValue, at+".namespace", "is empty, and the kind is %s", d.Kind)
		}
	default:
		return invalid(CodeValue, at+".kind", "is %q, want %s", d.Kind,
			strings.Join([]string{DiscoverDNS, DiscoverSRV, DiscoverFile, DiscoverEndpointSlices, DiscoverInferencePool}, ", "))
	}
	if d.Port == 0 {
		d.Port = defaultPort
	}
	if d.Scheme == "" {
		d.Scheme = "http"
	}
	switch {
	case d.Name == "":
		return invalid(CodeValue, at+".name", "is empty")
	case d.Kind == DiscoverFile && !strings.HasPrefix(d.Name, "/"):
		return invalid(CodeValue, at+".name", "is not an absolute path")
	case d.Port < 0 || d.Port > 65535:
		return invalid(CodeValue, at+".port", "is %d, want 1 to 65535", p.Port)
	case d.Scheme != "http" && d.Scheme != "https":
		return invalid(CodeValue, at+".scheme", "is %q, want http or https", d.Scheme)
	}
	c.Discovery = d
	return nil
}

func (c *Cluster) addNames(at string, p *routerpb.Cluster) error {
	for model, name := range p.ModelNames {
		if model == "" || name == "" || len(name) > maxName {
			return invalid(CodeValue, at+".model_names", "calls %q by a name of %d bytes, want 1 to %d", model, len(name), maxName)
		}
	}
	c.Names = p.ModelNames
	return nil
}

func (c *Cluster) addAuth(at string, p *routerpb.Cluster) error {
	at += ".auth"
	if len(p.Auth) == 0 || c.Kind == KindRouter { // peers know each other by their own certificates
		return nil
	}
	if len(p.Auth) > 1 {
		return invalid(CodeValue, at, "has %d credentials, want at most one", len(p.Auth))
	}
	at += "[0]"
	from := p.Auth[0]
	a := &Credential{
		Type: from.GetType(), File: from.GetFile(), Env: from.GetEnv(),
		CertFile: from.GetCertFile(), KeyFile: from.GetKeyFile(), CAFile: from.GetCaFile(),
		Region: from.GetRegion(), Service: from.GetService(), Profile: from.GetProfile(),
	}
	switch a.Type {
	case AuthBearer, AuthSigV4:
		if (a.File == "") == (a.Env == "") {
			return invalid(CodeValue, at, "needs exactly one of file and env")
		}
		if a.Type == AuthSigV4 && (a.Region == "" || a.Service == "") {
			return invalid(CodeValue, at, "needs region and service, and the type is %s", a.Type)
		}
	case AuthMTLS:
		if a.CertFile == "" || a.KeyFile == "" {
			return invalid(CodeValue, at, "needs cert_file and key_file, and the type is %s", a.Type)
		}
		if c.inTheClear() {
			return invalid(CodeValue, at+".type", "is %s, and the cluster is reached without TLS", a.Type)
		}
	default:
		return invalid(CodeValue, at+".type", "is %q, want %q, %q or %q", a.Type, AuthBearer, AuthMTLS, AuthSigV4)
	}
	c.Auth = a
	return nil
}

// inTheClear: some address of the cluster is plain HTTP.
func (c *Cluster) inTheClear() bool {
	plain := func(u string) bool { return strings.HasPrefix(u, "http:") }
	return plain(c.GatewayURL) || c.Discovery != nil && c.Discovery.Scheme == "http" ||
		slices.ContainsFunc(c.Endpoints, func(e Endpoint) bool { return plain(e.URL) })
}
