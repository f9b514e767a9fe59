package policy

import (
	"testing"
	"time"
)

func TestTheRulesSayWhichWritesNeedApproval(t *testing.T) {
	const (
		regions  = "SafetyRule regions {approval: {kinds: [Region, Cluster], regions: [us]}}"
		tenants  = "SafetyRule tenants {approval: {kinds: [Tenant], names: [acme], approvals: 2, expiresAfterSeconds: 600}}"
		wide     = "SafetyRule wide {approval: {kinds: [Tenant, Region], expiresAfterSeconds: 3600}}"
		limit    = "SafetyRule limit {changeLimit: {maxMovedShare: 0.5}}"
		inUS     = `Cluster c {region: us, models: [m], endpoints: [{id: e, url: "http://h", class: h100}]}`
		inEU     = `Cluster c {region: eu, models: [m], endpoints: [{id: e, url: "http://h", class: h100}]}`
		day      = 24 * time.Hour
		nobody   = ""
		anything = "SafetyRule x {approval: {kinds: [Model]}}"
	)
	for name, tt := range map[string]struct {
		rules     []string
		old, next string
		want      Approval
	}{
		"no rule":                                  {nil, nobody, "Region us {}", Approval{}},
		"a rule that says nothing of it":           {[]string{limit}, limit, nobody, Approval{}},
		"a region of the rule":                     {[]string{regions}, nobody, "Region us {}", Approval{1, day}},
		"a region that is deleted":                 {[]string{regions}, "Region us {}", nobody, Approval{1, day}},
		"another region":                           {[]string{regions}, nobody, "Region eu {}", Approval{}},
		"another kind":                             {[]string{regions}, nobody, "Tenant us {}", Approval{}},
		"a cluster that comes into a region of it": {[]string{regions}, inEU, inUS, Approval{1, day}},
		"a cluster that leaves one":                {[]string{regions}, inUS, inEU, Approval{1, day}},
		"a cluster elsewhere":                      {[]string{regions}, inEU, inEU, Approval{}},
		"a name of the rule":                       {[]string{tenants}, nobody, "Tenant acme {}", Approval{2, 10 * time.Minute}},
		"another name":                             {[]string{tenants}, nobody, "Tenant globex {}", Approval{}},
		"the strictest of two":                     {[]string{wide, tenants}, "Tenant acme {}", nobody, Approval{2, 10 * time.Minute}},
		"only those that protect it":               {[]string{tenants, wide}, nobody, "Tenant globex {}", Approval{1, time.Hour}},
		"the rules themselves":                     {[]string{anything, limit}, nobody, "SafetyRule y {rollout: {}}", Approval{1, day}},
		"the rules themselves, by the strictest":   {[]string{anything, tenants}, "SafetyRule limit {rollout: {}}", nobody, Approval{2, 10 * time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			all := kinds{}
			for _, doc := range tt.rules {
				all[KindSafetyRule] = append(all[KindSafetyRule], resource(t, doc))
			}
			var old, next *Resource
			of := &Resource{}
			for _, r := range []struct {
				doc string
				to  **Resource
			}{{tt.old, &old}, {tt.next, &next}} {
				if r.doc != nobody {
					*r.to = resource(t, r.doc)
					of = *r.to
				}
			}
			if got := ApprovalOf(all, of.Kind, of.Metadata.Name, old, next); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}
