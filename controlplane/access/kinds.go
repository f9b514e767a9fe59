package access

import (
	"fmt"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
)

// rule is what scopes mean for one kind.
type rule struct {
	// named is what the names of this kind are; empty: a name tells nothing, and parts are asked.
	named dimension
	// parts is what a document is about; each part has to be in scope by itself. Nil: no scope that
	// bounds something covers it.
	parts func(*policy.Resource) []part
	// names is what documents of the kind can name, and all what each of them is about all of; nil: nothing.
	names, all []dimension
	// tenant owns the document; nil: the kind belongs to no tenant, and every reader sees it.
	tenant func(*policy.Resource) string
}

// rules is the table of kinds. A kind that is not in it needs a caller whose scope is everything, to
// be changed and, where the scope bounds tenants, to be read.
//
//	Region         by its name; its quota store, which keeps the quotas of others too, is out of any scope
//	               that bounds something
//	Cluster        by its region and the models that it serves; where credentials go is out of any scope
//	               that bounds something
//	Model          by its name
//	Tenant         by its name; which organisation's limits hold for it is out of any scope that bounds
//	               something
//	Quota          by its tenant and its model; without one it is about all models, and of an organisation it
//	               is about all tenants
//	TrafficPolicy  by the tenants and models that it matches and the models that it turns requests to;
//	               its requests come from every region
//	RateCard       each price by its region or its model
//	SafetyRule     binds every change, so it is out of any scope that bounds something
//	DrillPlan      by the region that it takes out (of clusters it does not say it), its models and its tenants
var rules = map[policy.Kind]rule{
	policy.KindRegion:        {named: regions, names: []dimension{regions}},
	policy.KindCluster:       {parts: cluster, names: []dimension{regions, models}},
	policy.KindModel:         {named: models, names: []dimension{models}},
	policy.KindTenant:        {named: tenants, names: []dimension{tenants}, tenant: func(r *policy.Resource) string { return r.Metadata.Name }},
	policy.KindQuota:         {parts: quota, names: []dimension{tenants, models}, tenant: quotaTenant},
	policy.KindTrafficPolicy: {parts: traffic, names: []dimension{tenants, models}, all: []dimension{regions}},
	policy.KindRateCard:      {parts: rateCard, names: []dimension{regions, models}},
	policy.KindSafetyRule:    {},
	policy.KindDrillPlan:     {parts: drillPlan, names: dimensions},
}

// about gives the parts of a document.
func (r rule) about(doc *policy.Resource) []part {
	switch {
	case r.named != "":
		return []part{named(r.named, doc.Metadata.Name)}
	case r.parts != nil:
		return r.parts(doc)
	}
	return nil
}

func named(of dimension, name string) part {
	return part{"metadata.name", []saying{one(of, "metadata.name", name)}}
}

// part is something that a document is about: all of what it says must be in scope, and at least one
// of the lists that the scope bounds must be spoken of.
type part struct {
	field string // of the whole part
	says  []saying
}

// saying is one list of names that a part is about.
type saying struct {
	of    dimension
	names []mention
	all   string // not empty: it is about all of them, for this field
}

type mention struct{ field, name string }

func one(of dimension, field, name string) saying {
	return saying{of: of, names: []mention{{field, name}}}
}

// many is about the names of a list, or about all if it is empty.
func many(of dimension, field string, names []string) saying {
	if len(names) == 0 {
		return saying{of: of, all: field}
	}
	s := saying{of: of}
	for i, name := range names {
		s.names = append(s.names, mention{fmt.Sprintf("%s[%d]", field, i), name})
	}
	return s
}

func cluster(r *policy.Resource) []part {
	s, ok := r.Spec.(*policy.ClusterSpec)
	if !ok {
		return nil
	}
	return []part{{"spec", []saying{one(regions, "spec.region", s.Region), many(models, "spec.models", s.Models)}}}
}

func quota(r *policy.Resource) []part {
	s, ok := r.Spec.(*policy.QuotaSpec)
	if !ok {
		return nil
	}
	about := saying{of: models, all: "spec.model"}
	if s.Model != "" {
		about = one(models, "spec.model", s.Model)
	}
	whose := saying{of: tenants, all: "spec.organization"}
	if s.Organization == "" {
		whose = one(tenants, "spec.tenant", s.Tenant)
	}
	return []part{{"spec", []saying{whose, about}}}
}

// quotaTenant is whose a quota is; that of an organisation belongs to no one tenant, and is seen by those
// who see all.
func quotaTenant(r *policy.Resource) string {
	if s, ok := r.Spec.(*policy.QuotaSpec); ok {
		return s.Tenant
	}
	return ""
}

func traffic(r *policy.Resource) []part {
	s, ok := r.Spec.(*policy.TrafficPolicySpec)
	if !ok {
		return nil
	}
	whose := saying{of: tenants}
	if len(s.Match) == 0 {
		whose.all = "spec.match"
	}
	for i, m := range s.Match {
		at := fmt.Sprintf("spec.match[%d].tenants", i)
		if len(m.Tenants) == 0 {
			whose.all = at
		}
		whose.names = append(whose.names, many(tenants, at, m.Tenants).names...)
	}
	// The objectives of a class hold for whatever else is asked for in it.
	if class := s.Class; class != r.Metadata.Name || class == string(fleet.DefaultClass) {
		whose.all = orElse(whose.all, "spec.class")
	}
	what := many(models, "spec.models", s.Models)
	to := func(field, name string) {
		if name != "" {
			what.names = append(what.names, mention{field, name})
		}
	}
	if s.Rewrite != nil {
		to("spec.rewrite.model", s.Rewrite.Model)
	}
	for i, a := range s.Split {
		to(fmt.Sprintf("spec.split[%d].model", i), a.Model)
	}
	if s.Shadow != nil {
		to("spec.shadow.model", s.Shadow.Model)
	}
	return []part{{"spec", []saying{{of: regions, all: "spec"}, whose, what}}}
}

func orElse(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func rateCard(r *policy.Resource) []part {
	s, ok := r.Spec.(*policy.RateCardSpec)
	if !ok {
		return nil
	}
	parts := []part{}
	for i, g := range s.GPUs {
		at := fmt.Sprintf("spec.gpus[%d]", i)
		parts = append(parts, part{at, []saying{one(regions, at+".region", g.Region)}})
	}
	for i, m := range s.Models {
		at := fmt.Sprintf("spec.models[%d]", i)
		parts = append(parts, part{at, []saying{one(models, at+".model", m.Model)}})
	}
	return parts
}

func drillPlan(r *policy.Resource) []part {
	s, ok := r.Spec.(*policy.DrillPlanSpec)
	if !ok {
		return nil
	}
	where := saying{of: regions, all: "spec.target"}
	if s.Target.Region != "" {
		where = one(regions, "spec.target.region", s.Target.Region)
	}
	return []part{{"spec", []saying{where, many(models, "spec.models", s.Models), many(tenants, "spec.tenants", s.Tenants)}}}
}
