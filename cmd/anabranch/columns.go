package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/policy"
)

// headers of the table of each kind, after NAME.
var headers = map[policy.Kind][]string{
	policy.KindRegion:        {"ZONE", "PEERS", "RTT MS"},
	policy.KindCluster:       {"REGION", "TYPE", "MODELS", "ENDPOINTS", "GPUS", "DRAINED"},
	policy.KindModel:         {"ALIASES", "ADAPTERS"},
	policy.KindTenant:        {"TIER", "RESIDENCY", "KEYS"},
	policy.KindTrafficPolicy: {"CLASS", "MODELS", "REGIONS", "TTFT MS", "SPILL"},
	policy.KindQuota:         {"TENANT", "MODEL", "LIMITS", "DEGRADED"},
	policy.KindRateCard:      {"SOURCE", "GPUS", "MODELS"},
}

// resources prints a table of one kind. Health comes last, where the status tells of it.
func (a *app) resources(kind policy.Kind, items []client.Item) error {
	header := append(append([]string{"NAME"}, headers[kind]...), "REVISION")
	health := false
	rows := make([][]string, 0, len(items))
	for _, i := range items {
		columns, err := columnsOf(kind, i.Spec)
		if err != nil {
			return fmt.Errorf("read %s %s: %w; -o json shows it as it came", kind, i.Metadata.Name, err)
		}
		row := append(append([]string{i.Metadata.Name}, columns...), strconv.FormatUint(i.Metadata.Revision, 10))
		h := healthOf(i.Status)
		health = health || h != ""
		rows = append(rows, append(row, dash(h)))
	}
	if health {
		header = append(header, "HEALTH")
	} else {
		for i := range rows {
			rows[i] = rows[i][:len(header)]
		}
	}
	return a.table(header, rows)
}

// healthOf finds the health in a status; empty: it tells of none.
func healthOf(status json.RawMessage) string {
	var s struct {
		Health any `json:"health"`
	}
	if err := json.Unmarshal(status, &s); err != nil {
		return ""
	}
	h, _ := s.Health.(string)
	return h
}

func columnsOf(kind policy.Kind, raw json.RawMessage) ([]string, error) {
	spec := policy.NewSpec(kind)
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, spec); err != nil {
			return nil, err
		}
	}
	list := func(s []string) string { return dash(strings.Join(s, ",")) }
	switch s := spec.(type) {
	case *policy.RegionSpec:
		var rtt []string
		for _, to := range slices.Sorted(maps.Keys(s.RTTMs)) {
			rtt = append(rtt, fmt.Sprintf("%s=%g", to, s.RTTMs[to]))
		}
		return []string{dash(s.Zone), strconv.Itoa(len(s.PeerURLs)), list(rtt)}, nil
	case *policy.ClusterSpec:
		endpoints, gpus := strconv.Itoa(len(s.Endpoints)), []string(nil)
		if s.Target() != "" {
			endpoints = s.Target()
		}
		for _, g := range s.GPUs {
			gpus = append(gpus, fmt.Sprintf("%d×%s", g.Count, g.Class))
		}
		return []string{s.Region, dash(s.Type), list(s.Models), endpoints, list(gpus), yes(s.Drained)}, nil
	case *policy.ModelSpec:
		return []string{list(s.Aliases), list(s.Adapters)}, nil
	case *policy.TenantSpec:
		return []string{dash(s.Tier), list(s.Residency), strconv.Itoa(len(s.APIKeys))}, nil
	case *policy.TrafficPolicySpec:
		var regions []string
		for _, r := range s.Regions {
			text := r.Region
			if r.Weight != nil {
				text += fmt.Sprintf("=%g", *r.Weight)
			}
			if r.MaxShare != nil {
				text += fmt.Sprintf("≤%g%%", 100**r.MaxShare)
			}
			regions = append(regions, text)
		}
		return []string{dash(s.Class), list(s.Models), list(regions), fmt.Sprintf("%g", s.TTFTObjectiveMs), dash(s.Spill)}, nil
	case *policy.QuotaSpec:
		var limits []string
		for _, l := range s.Limits {
			limits = append(limits, fmt.Sprintf("%d %s/min", l.PerMinute, l.Kind))
		}
		return []string{s.Tenant, dash(s.Model), list(limits), dash(s.Degraded)}, nil
	case *policy.RateCardSpec:
		return []string{dash(s.Source), strconv.Itoa(len(s.GPUs)), strconv.Itoa(len(s.Models))}, nil
	}
	return nil, nil
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
