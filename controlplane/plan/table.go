package plan

import (
	"encoding/hex"
	"maps"
	"math"
	"slices"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/costmodel"
)

// table is everything but the weights.
func (w *world) table(in Input) *routerpb.Table {
	t := &routerpb.Table{CreatedUnixMs: in.Now.UnixMilli(), Classes: w.classProtos()}
	for _, id := range w.regionIDs {
		spec := w.regions[id]
		t.Regions = append(t.Regions, &routerpb.Region{
			Id: string(id), Zone: w.zones[id], PeerUrls: spec.PeerURLs, RttMs: spec.RTTMs, QuotaStore: quotaStore(spec.QuotaStore),
		})
	}
	for _, s := range w.sites {
		t.Clusters = append(t.Clusters, s.proto())
	}
	t.Models = w.models(in.Measured)
	t.Tenants = w.tenants()
	w.addQuotas(t, in)
	t.Rules = w.rules()
	return t
}

func (s *site) proto() *routerpb.Cluster {
	c := &routerpb.Cluster{
		Id:         string(s.id),
		Region:     string(s.region),
		Kind:       s.spec.Type,
		Models:     s.spec.Models,
		GatewayUrl: s.spec.Target(),
		MetricsUrl: s.spec.MetricsURL,
		Health:     string(nameOf(s.whole.State)),
		HealthCap:  s.whole.Cap(),
		Drained:    s.spec.Drained,
		ModelNames: s.spec.ModelNames,
	}
	for _, m := range slices.Sorted(maps.Keys(s.health)) {
		at := wellOr(s.health[m])
		if state, share := string(nameOf(at.State)), at.Cap(); state != c.Health || share != c.HealthCap {
			c.ModelHealth = append(c.ModelHealth, &routerpb.ModelHealth{Model: string(m), Health: state, HealthCap: share})
		}
	}
	if c.Kind == "" {
		c.Kind = policy.DefaultClusterType
	}
	for _, e := range s.spec.Endpoints {
		c.Endpoints = append(c.Endpoints, &routerpb.Endpoint{Id: e.ID, Url: e.URL, Class: e.Class, KvEventsUrl: e.KVEventsURL})
	}
	if d := s.spec.Discovery; d != nil {
		c.Discovery = &routerpb.Discovery{
			Kind: d.Kind, Name: d.Name, Namespace: d.Namespace, Port: uint32(max(d.Port, 0)), Scheme: d.Scheme, Class: d.Class,
		}
	}
	if a := s.spec.Auth; a != nil {
		c.Auth = []*routerpb.Credential{{
			Type: a.Type, File: a.File, Env: a.Env, CertFile: a.CertFile, KeyFile: a.KeyFile, CaFile: a.CAFile,
			Region: a.Region, Service: a.Service, Profile: a.Profile,
		}}
	}
	return c
}

// HealthCap is the part of its weight, 0..1, that a cluster of a table may take of a model by its health; 0 of nil.
func HealthCap(c *routerpb.Cluster, model fleet.ModelID) float64 {
	for _, h := range c.GetModelHealth() {
		if h.GetModel() == string(model) {
			return h.GetHealthCap()
		}
	}
	return c.GetHealthCap()
}

// Residency is what a table of some resources says of where requests may be served: its regions with their zones, tenants
// and rules, and nothing else.
func Residency(resources Lookup) *routerpb.Table {
	w := survey(Input{Resources: resources})
	t := &routerpb.Table{Tenants: w.tenants(), Rules: w.rules()}
	for _, id := range w.regionIDs {
		t.Regions = append(t.Regions, &routerpb.Region{Id: string(id), Zone: w.zones[id]})
	}
	return t
}

// budgeted is the price of a model's tokens to budgets of money.
func (w *world) budgeted(id fleet.ModelID, spec *policy.ModelSpec, measured costmodel.Micros) costmodel.TokenPrice {
	if p, known := w.tokens[string(id)]; known {
		return p
	}
	output := math.Ceil(float64(max(measured, 0)) * max(spec.OutputWeight, 0)) // of micro-dollars, so that none is lost
	return costmodel.TokenPrice{Input: min(max(measured, 0), mostMeasured), Output: costmodel.Micros(min(output, mostMeasured))}
}

// mostMeasured bounds a price that was measured, in micro-dollars per million tokens: a million dollars, as
// rate cards may say.
const mostMeasured = 1e12

func (w *world) models(measured map[fleet.ModelID]costmodel.Micros) []*routerpb.Model {
	var out []*routerpb.Model
	for _, r := range w.resources.List(policy.KindModel) {
		spec, ok := r.Spec.(*policy.ModelSpec)
		if !ok {
			continue
		}
		p := w.budgeted(fleet.ModelID(r.Metadata.Name), spec, measured[fleet.ModelID(r.Metadata.Name)])
		m := &routerpb.Model{
			Id:                  r.Metadata.Name,
			Aliases:             spec.Aliases,
			Adapters:            spec.Adapters,
			OutputWeight:        spec.OutputWeight,
			InputMicrosPerMtok:  uint64(p.Input),
			OutputMicrosPerMtok: uint64(p.Output),
		}
		if at := r.Metadata.CreatedAt; !at.IsZero() {
			m.CreatedUnixMs = at.UnixMilli()
		}
		out = append(out, m)
	}
	return out
}

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
		if of := policy.OrganizationOf(r); of != t.GetId() {
			t.Organisation = of
		}
		for _, k := range spec.APIKeys {
			sum, err := hex.DecodeString(k.SHA256)
			if err != nil {
				continue // validated when it was written
			}
			if ends := k.Expires(); !ends.IsZero() {
				t.ExpiringKeys = append(t.ExpiringKeys, &routerpb.ExpiringKey{Sha256: sum, ExpiresUnixMs: ends.UnixMilli()})
			} else {
				t.KeySha256 = append(t.KeySha256, sum)
			}
		}
		t.Jwt = signedTokens(spec.JWT)
		out = append(out, t)
	}
	return out
}

// signedTokens describes the tokens of a tenant for routers.
func signedTokens(list []policy.JWTSpec) []*routerpb.JwtRule {
	var out []*routerpb.JwtRule
	for _, j := range list {
		rule := &routerpb.JwtRule{Issuer: j.Issuer, Audiences: j.Audiences, JwksUrl: j.JWKSURL, Jwks: j.JWKS}
		for _, name := range slices.Sorted(maps.Keys(j.Claims)) {
			rule.Claims = append(rule.Claims, &routerpb.JwtClaim{Name: name, Value: j.Claims[name]})
		}
		out = append(out, rule)
	}
	return out
}
