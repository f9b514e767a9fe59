package plan

import (
	"encoding/hex"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/costmodel"
)

// table is everything but the weights.
func (w *world) table(now time.Time) *routerpb.Table {
	t := &routerpb.Table{CreatedUnixMs: now.UnixMilli(), Classes: w.classes()}
	for _, id := range w.regionIDs {
		spec := w.regions[id]
		zone := spec.Zone
		if zone == "" {
			zone = string(id)
		}
		t.Regions = append(t.Regions, &routerpb.Region{
			Id: string(id), Zone: zone, PeerUrls: spec.PeerURLs, RttMs: spec.RTTMs,
		})
	}
	for _, s := range w.sites {
		t.Clusters = append(t.Clusters, s.proto())
	}
	t.Models = w.models()
	t.Tenants = w.tenants()
	t.Quotas = w.quotas()
	return t
}

func (s *site) proto() *routerpb.Cluster {
	c := &routerpb.Cluster{
		Id:         string(s.id),
		Region:     string(s.region),
		Kind:       s.spec.Type,
		Models:     s.spec.Models,
		GatewayUrl: s.spec.GatewayURL,
		MetricsUrl: s.spec.MetricsURL,
		Health:     string(s.health.State),
		HealthCap:  s.health.Cap(),
		Drained:    s.spec.Drained,
	}
	if c.Health == "" {
		c.Health = "HEALTHY"
	}
	if c.Kind == "" {
		c.Kind = policy.DefaultClusterType
	}
	for _, e := range s.spec.Endpoints {
		c.Endpoints = append(c.Endpoints, &routerpb.Endpoint{Id: e.ID, Url: e.URL, Class: e.Class})
	}
	if a := s.spec.Auth; a != nil {
		c.Auth = []*routerpb.Credential{{Type: a.Type, File: a.File, Env: a.Env}}
	}
	return c
}

func (w *world) models() []*routerpb.Model {
	type price struct{ input, output uint64 }
	priced := map[string]price{}
	for _, r := range w.resources.List(policy.KindRateCard) {
		card, ok := r.Spec.(*policy.RateCardSpec)
		if !ok {
			continue
		}
		for _, m := range card.Models {
			if _, known := priced[m.Model]; !known { // of two cards the first by name holds
				priced[m.Model] = price{micros(m.InputPerMTok), micros(m.OutputPerMTok)}
			}
		}
	}
	var out []*routerpb.Model
	for _, r := range w.resources.List(policy.KindModel) {
		spec, ok := r.Spec.(*policy.ModelSpec)
		if !ok {
			continue
		}
		p := priced[r.Metadata.Name]
		out = append(out, &routerpb.Model{
			Id:                  r.Metadata.Name,
			Aliases:             spec.Aliases,
			Adapters:            spec.Adapters,
			OutputWeight:        spec.OutputWeight,
			InputMicrosPerMtok:  p.input,
			OutputMicrosPerMtok: p.output,
		})
	}
	return out
}

func micros(usd float64) uint64 { return uint64(max(costmodel.FromUSD(usd), 0)) }

func (w *world) tenants() []*routerpb.Tenant {
	var out []*routerpb.Tenant
	for _, r := range w.resources.List(policy.KindTenant) {
		spec, ok := r.Spec.(*policy.TenantSpec)
		if !ok {
			continue
		}
		t := &routerpb.Tenant{
			Id:        r.Metadata.Name,
			Tier:      spec.Tier,
			Priority:  policy.TierPriority(spec.Tier),
			Residency: spec.Residency,
		}
		if t.Tier == "" {
			t.Tier = policy.DefaultTier
		}
		for _, k := range spec.APIKeys {
			if sum, err := hex.DecodeString(k.SHA256); err == nil { // validated when it was written
				t.KeySha256 = append(t.KeySha256, sum)
			}
		}
		out = append(out, t)
	}
	return out
}

// quotaPeriod is what QuotaSpec.PerMinute counts over.
const quotaPeriod = time.Minute

// quotas makes one bucket of each limit. While Redis is away each region may give out an equal
// part: a router that cannot ask how much is left can at least not exceed it with the others.
func (w *world) quotas() []*routerpb.Quota {
	share := 1 / float64(max(len(w.regionIDs), 1))
	var out []*routerpb.Quota
	for _, r := range w.resources.List(policy.KindQuota) {
		spec, ok := r.Spec.(*policy.QuotaSpec)
		if !ok {
			continue
		}
		for _, l := range spec.Limits {
			burst := l.Burst
			if burst == 0 {
				burst = l.PerMinute
			}
			out = append(out, &routerpb.Quota{
				Id:       r.Metadata.Name + "/" + l.Kind,
				Tenant:   spec.Tenant,
				Kind:     l.Kind,
				Limit:    l.PerMinute,
				PeriodMs: quotaPeriod.Milliseconds(),
				Burst:    burst,
				Degraded: spec.Degraded,
				Model:    spec.Model,
				Share:    share,
			})
		}
	}
	return out
}
