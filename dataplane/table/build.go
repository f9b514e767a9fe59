package table

import (
	"crypto/sha256"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// MaxBytes is the size budget of a table on the wire: some 50,000 tenants and 5,000 endpoints.
const MaxBytes = 16 << 20

// sumTolerance is how far the shares of one list may be from 1.
const sumTolerance = 1e-6

// defaultOutputWeight stands in for a model without one; it is ModelSpec's default.
const defaultOutputWeight = 6

// Codes of [Invalid]: stable, and sent to the control plane when a table is refused.
const (
	CodeEmpty     = "table_empty"     // no regions, clusters or models
	CodeTooLarge  = "table_too_large" // over MaxBytes
	CodeRef       = "ref_missing"     // can't be ordered
	CodeDuplicate = "duplicate"       // an id twice
	CodeUnknown   = "unknown_name"    // speaks of what the table doesn't have
	CodeValue     = "value_invalid"   // a number, URL or word that can't be
	CodeNoTarget  = "cluster_empty"   // a cluster with nowhere to send to
	CodeWeightSum = "weights_sum"     // shares don't sum to 1
	CodeServes    = "weight_model"    // a share for a cluster that doesn't serve the model
	CodeWidens    = "rule_widens"     // an arm that goes where its rule doesn't
	CodeLarge     = "limit_too_large" // a limit that can't be counted exactly
	CodePath      = "path_too_long"   // requests with more limits than can be counted together, or too many ways to combine them
)

// Invalid says why a table is refused.
//
//nolint:errname // table.Invalid says it where it is used
type Invalid struct {
	Code    string // one of the codes above
	Field   string // where in the table, e.g. "weights[3].clusters[0].weight"
	Message string // for a person
}

// Error reads as "field: message (code)".
func (e *Invalid) Error() string { return fmt.Sprintf("%s: %s (%s)", e.Field, e.Message, e.Code) }

func invalid(code, field, format string, args ...any) error {
	return &Invalid{Code: code, Field: field, Message: fmt.Sprintf(format, args...)}
}

// Build judges a message and indexes it. It refuses, with an [*Invalid], what no router should
// obey: an empty table, shares that aren't numbers or don't sum to 1, names that lead nowhere,
// clusters without a target, URLs that can't be dialled, more than [MaxBytes]. Tenants, clusters and
// places of residence that a rule names may be unknown: they fit nothing, which only narrows it. In a
// slice for one region, clusters of others need no target. The table keeps pb, which must not be changed
// afterwards.
func Build(pb *routerpb.Table) (*Table, error) {
	if pb == nil || len(pb.Regions) == 0 || len(pb.Clusters) == 0 || len(pb.Models) == 0 {
		return nil, invalid(CodeEmpty, "table", "has %d regions, %d clusters and %d models; each needs at least one",
			len(pb.GetRegions()), len(pb.GetClusters()), len(pb.GetModels()))
	}
	if n := proto.Size(pb); n > MaxBytes {
		return nil, invalid(CodeTooLarge, "table", "is %d bytes, the limit is %d", n, MaxBytes)
	}
	ref := RefOf(pb.Ref)
	if ref.ClusterID == "" || ref.Revision == 0 {
		return nil, invalid(CodeRef, "ref", "needs a cluster_id and a revision")
	}
	t := &Table{
		Ref:      ref,
		Created:  time.UnixMilli(pb.CreatedUnixMs),
		Regions:  make(map[fleet.RegionID]*Region, len(pb.Regions)),
		Clusters: make(map[fleet.ClusterID]*Cluster, len(pb.Clusters)),
		proto:    pb,
		models:   make(map[string]named, len(pb.Models)),
		serving:  make(map[fleet.ModelID][]*Cluster, len(pb.Models)),
		tenants:  make(map[fleet.TenantID]*Tenant, len(pb.Tenants)),
		keys:     make(map[[sha256.Size]byte]key, len(pb.Tenants)),
		tokens:   make(map[string][]*TokenRule),
		orgs:     make(map[string]*Organisation, len(pb.Organisations)),
		ways:     make(map[fleet.TenantID]*ways),
		classes:  make(map[classKey]*Class, len(pb.Classes)),
		weights:  make(map[weightKey][]Weight, len(pb.Weights)),
		sheds:    make(map[weightKey]Shed),
		rules:    make(map[string]*Rule, len(pb.Rules)),
		index:    index{models: make(map[fleet.ModelID]set), tenants: make(map[fleet.TenantID]set)},
	}
	for _, step := range []func(*routerpb.Table) error{
		t.addRegions, t.addModels, t.addClusters, t.addTenants, t.addOrganisations, t.addQuotas, t.addClasses, t.addWeights, t.addRules, t.addDrill,
	} {
		if err := step(pb); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *Table) addRegions(pb *routerpb.Table) error {
	for i, p := range pb.Regions {
		at := fmt.Sprintf("regions[%d]", i)
		id := fleet.RegionID(p.GetId())
		if id == "" {
			return invalid(CodeValue, at+".id", "is empty")
		}
		if t.Regions[id] != nil {
			return invalid(CodeDuplicate, at+".id", "%q is there twice", id)
		}
		r := &Region{ID: id, Zone: p.Zone, RTT: make(map[fleet.RegionID]time.Duration, len(p.RttMs))}
		if r.Zone == "" {
			r.Zone = p.Id
		}
		for j, u := range p.PeerUrls {
			clean, err := checkURL(fmt.Sprintf("%s.peer_urls[%d]", at, j), u, "https")
			if err != nil {
				return err
			}
			r.PeerURLs = append(r.PeerURLs, clean)
		}
		for to, ms := range p.RttMs {
			if !finite(ms) || ms < 0 || ms > maxMs {
				return invalid(CodeValue, at+".rtt_ms", "to %q is %v, want 0 to %d", to, ms, int64(maxMs))
			}
			r.RTT[fleet.RegionID(to)] = milliseconds(ms)
		}
		var err error
		if r.QuotaStore, err = quotaStore(at+".quota_store", p.QuotaStore); err != nil {
			return err
		}
		t.Regions[id] = r
	}
	return nil
}

func (t *Table) addModels(pb *routerpb.Table) error {
	add := func(at, name string, n named) error {
		if name == "" {
			return invalid(CodeValue, at, "is empty")
		}
		if _, ok := t.models[name]; ok {
			return invalid(CodeDuplicate, at, "%q names two things", name)
		}
		t.models[name] = n
		return nil
	}
	for i, p := range pb.Models {
		at := fmt.Sprintf("models[%d]", i)
		m := &Model{
			ID: fleet.ModelID(p.GetId()), Aliases: p.GetAliases(), Adapters: p.GetAdapters(),
			OutputWeight: p.GetOutputWeight(), InputMicros: p.GetInputMicrosPerMtok(), OutputMicros: p.GetOutputMicrosPerMtok(),
		}
		if ms := p.GetCreatedUnixMs(); ms > 0 {
			m.Created = time.UnixMilli(ms)
		}
		if !finite(m.OutputWeight) || m.OutputWeight < 0 {
			return invalid(CodeValue, at+".output_weight", "is %v, want a number > 0", m.OutputWeight)
		}
		if m.OutputWeight == 0 {
			m.OutputWeight = defaultOutputWeight
		}
		if err := add(at+".id", string(m.ID), named{model: m}); err != nil {
			return err
		}
		for j, a := range m.Aliases {
			if err := add(fmt.Sprintf("%s.aliases[%d]", at, j), a, named{model: m}); err != nil {
				return err
			}
		}
		for j, a := range m.Adapters {
			if err := add(fmt.Sprintf("%s.adapters[%d]", at, j), a, named{model: m, adapter: a}); err != nil {
				return err
			}
		}
		t.modelIDs = append(t.modelIDs, m)
	}
	return nil
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// maxMs bounds durations, a day in ms, so that none overflows.
const maxMs = 24 * 3600 * 1000

func milliseconds(ms float64) time.Duration {
	return time.Duration(ms * float64(time.Millisecond))
}
