package main

import (
	"cmp"
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
	policy.KindTrafficPolicy: {"CLASS", "PRIORITY", "MODELS", "MATCH", "DOES", "REGIONS", "TTFT MS", "OBJECTIVE", "SPILL"},
	policy.KindQuota:         {"TENANT", "MODEL", "LIMITS", "DEGRADED"},
	policy.KindRateCard:      {"SOURCE", "GPUS", "MODELS"},
	policy.KindSafetyRule:    {"STAGED", "CANARY", "BAKES", "MAX MOVED", "APPROVAL", "DRILLS"},
	policy.KindDrillPlan:     {"KIND", "TARGET", "MODELS", "PERCENT", "STEPS", "HOLD", "SCHEDULE", "TEST"},
}

// resources prints a table of one kind. Health and whose word a cluster's signals are come last, where
// the status tells of them.
func (a *app) resources(kind policy.Kind, items []client.Item) error {
	header := append(append([]string{"NAME"}, headers[kind]...), "REVISION")
	health, signals, ordered := false, false, false
	rows := make([][]string, 0, len(items))
	for _, i := range items {
		columns, err := columnsOf(kind, i.Metadata.Name, i.Spec)
		if err != nil {
			return fmt.Errorf("read %s %s: %w; -o json shows it as it came", kind, i.Metadata.Name, err)
		}
		row := append(append([]string{i.Metadata.Name}, columns...), strconv.FormatUint(i.Metadata.Revision, 10))
		h := healthOf(i.Status)
		health = health || h != ""
		from := signalsOf(i.Status)
		signals = signals || from != ""
		emergency := emergencyOf(i.Status)
		ordered = ordered || emergency != ""
		rows = append(rows, append(row, dash(h), dash(from), dash(emergency)))
	}
	if health {
		header = append(header, "HEALTH")
	}
	if health && signals && kind == policy.KindCluster {
		header = append(header, "SIGNALS")
	}
	for i := range rows {
		emergency := rows[i][len(rows[i])-1]
		rows[i] = rows[i][:len(header)]
		if ordered {
			rows[i] = append(rows[i], emergency)
		}
	}
	if ordered {
		header = append(header, "EMERGENCY ORDER")
	}
	return a.table(header, rows)
}

// emergencyOf finds the emergency order in a status; empty: none holds.
func emergencyOf(status json.RawMessage) string {
	var s struct {
		Emergency any `json:"emergency"`
	}
	if err := json.Unmarshal(status, &s); err != nil {
		return ""
	}
	words, _ := s.Emergency.(string)
	return words
}

// columnsOf shows what holds, with the defaults of what the resource leaves out.
func columnsOf(kind policy.Kind, name string, raw json.RawMessage) ([]string, error) {
	spec := policy.NewSpec(kind)
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, spec); err != nil {
			return nil, err
		}
	}
	policy.Defaults(&policy.Resource{Kind: kind, Metadata: policy.Metadata{Name: name}, Spec: spec})
	list := func(s []string) string { return dash(strings.Join(s, ",")) }
	switch s := spec.(type) {
	case *policy.RegionSpec:
		var rtt []string
		for _, to := range slices.Sorted(maps.Keys(s.RTTMs)) {
			rtt = append(rtt, fmt.Sprintf("%s=%g", to, s.RTTMs[to]))
		}
		return []string{dash(s.Zone), strconv.Itoa(len(s.PeerURLs)), list(rtt)}, nil
	case *policy.ClusterSpec:
		var gpus []string
		for _, g := range s.GPUs {
			gpus = append(gpus, fmt.Sprintf("%d×%s", g.Count, g.Class))
		}
		return []string{s.Region, dash(s.Type), list(s.Models), endpointsOf(s), list(gpus), yes(s.Drained)}, nil
	case *policy.ModelSpec:
		return []string{list(s.Aliases), list(s.Adapters)}, nil
	case *policy.TenantSpec:
		return []string{dash(s.Tier), list(s.Residency), strconv.Itoa(len(s.APIKeys))}, nil
	case *policy.TrafficPolicySpec:
		return append([]string{dash(s.Class), strconv.Itoa(s.Priority), list(s.Models)}, trafficColumns(s)...), nil
	case *policy.QuotaSpec:
		return quotaColumns(s), nil
	case *policy.RateCardSpec:
		return []string{dash(s.Source), strconv.Itoa(len(s.GPUs)), strconv.Itoa(len(s.Models))}, nil
	case *policy.SafetyRuleSpec:
		return safetyColumns(s), nil
	case *policy.DrillPlanSpec:
		return drillPlanColumns(s), nil
	}
	return nil, nil
}

// quotaColumns shows whose limits they are (an organisation's are said to be), what they are narrowed to,
// and how they hold.
func quotaColumns(s *policy.QuotaSpec) []string {
	var limits []string
	for _, l := range s.Limits {
		switch {
		case l.Money():
			limits = append(limits, fmt.Sprintf("$%s/%s", strconv.FormatFloat(l.USD, 'f', -1, 64), l.Calendar()))
		case l.Kind == policy.LimitConcurrent:
			limits = append(limits, fmt.Sprintf("%d %s", l.Max, l.Kind))
		default:
			limits = append(limits, fmt.Sprintf("%d %s/min", l.PerMinute, l.Kind))
		}
	}
	whose, what, holds := s.Tenant, dash(s.Model), dash(s.Degraded)
	if s.Organization != "" {
		whose = "organization " + s.Organization
	}
	if s.Key != "" {
		whose += " key " + s.Key
	}
	if s.Shadow {
		holds = "shadow"
	}
	return []string{whose, what, dash(strings.Join(limits, ",")), holds}
}

func safetyColumns(s *policy.SafetyRuleSpec) []string {
	out := []string{"-", "-", "-", "-", "-", "-"}
	if r := s.Rollout; r != nil && r.Staged != nil {
		out[0] = yes(*r.Staged)
		if *r.Staged {
			out[1] = dash(r.Canary.Router)
			out[2] = fmt.Sprintf("%ds, %ds", r.Canary.BakeSeconds, r.Region.BakeSeconds)
		}
	}
	if l := s.ChangeLimit; l != nil {
		out[3] = fmt.Sprintf("%g %%", 100*l.MaxMovedShare)
	}
	if p := s.Approval; p != nil {
		var kinds []string
		for _, k := range p.Kinds {
			kinds = append(kinds, policy.Plural(k))
		}
		out[4] = fmt.Sprintf("%s by %d", strings.Join(kinds, ","), p.Approvals)
	}
	if d := s.Drills; d != nil {
		out[5] = fmt.Sprintf("%g %% out, by %d", 100*d.MaxCapacityRemoved, d.Approvals)
	}
	return out
}

// drillPlanColumns shows what a drill takes out, how, and when by itself.
func drillPlanColumns(s *policy.DrillPlanSpec) []string {
	t := s.Target
	target := dash(cmp.Or(t.Region, t.Cluster, strings.Join(t.Clusters, ",")))
	steps := make([]string, 0, len(s.Steps))
	for _, step := range s.Steps {
		steps = append(steps, fmt.Sprintf("%g", step.Percent))
	}
	schedule, test := "-", yes(s.Test)
	if c := s.Schedule; c != nil {
		schedule = c.Cron + " " + c.TimeZone
	}
	if s.Test {
		test = fmt.Sprintf("× %g", s.TimeScale)
	}
	return []string{
		s.Kind, target, dash(strings.Join(s.Models, ",")), fmt.Sprintf("%g", s.Percent), dash(strings.Join(steps, ",")),
		fmt.Sprintf("%ds", s.HoldSeconds), schedule, test,
	}
}

// endpointsOf says where a cluster's requests go: how many endpoints, where more are found, or the URL.
func endpointsOf(s *policy.ClusterSpec) string {
	d := s.Discovery
	switch {
	case s.Type == policy.TypeRouter:
		return "the region's routers"
	case s.Target() != "":
		return s.Target()
	case d == nil:
		return strconv.Itoa(len(s.Endpoints))
	}
	found := d.Kind + " " + join("/", d.Namespace, d.Name)
	if len(s.Endpoints) == 0 {
		return found
	}
	return fmt.Sprintf("%d + %s", len(s.Endpoints), found)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
