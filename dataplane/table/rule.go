package table

import (
	"fmt"
	"net/textproto"
	"slices"
	"strings"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// Types of [HeaderMatch].
const (
	HeaderExact   = "exact"
	HeaderPrefix  = "prefix"
	HeaderPresent = "present"
)

// Rule is the first rule that fits a request: its base model as the client asked for it, its tenant,
// the path and the headers as they came, with names in canonical form as an http.Header has them.
// Nil: none does. A nil tenant fits no rule for particular tenants.
func (t *Table) Rule(model *Model, tenant *Tenant, path string, header map[string][]string) *Rule {
	return t.index.first(model.ID, tenant, path, header)
}

// RuleOf is the rule of a policy, as another region's router has found it. Nil: there is none.
func (t *Table) RuleOf(policy string) *Rule { return t.rules[policy] }

// Rules lists the rules in the order of trying.
func (t *Table) Rules() []*Rule { return t.index.rules }

func (r *Rule) fits(tenant *Tenant, path string, header map[string][]string) bool {
	if len(r.Match) == 0 {
		return true
	}
	for i := range r.Match {
		if r.Match[i].fits(tenant, path, header) {
			return true
		}
	}
	return false
}

func (m *Match) fits(tenant *Tenant, path string, header map[string][]string) bool {
	if len(m.Tenants) > 0 && (tenant == nil || !slices.Contains(m.Tenants, tenant.ID)) {
		return false
	}
	if len(m.Paths) > 0 && !slices.ContainsFunc(m.Paths, func(p string) bool { return pathFits(p, path) }) {
		return false
	}
	for i := range m.Headers {
		if !m.Headers[i].fits(header[m.Headers[i].Name]) {
			return false
		}
	}
	return true
}

func pathFits(pattern, path string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(path, prefix)
	}
	return pattern == path
}

// fits: one of the values does.
func (h *HeaderMatch) fits(values []string) bool {
	for _, v := range values {
		switch h.Type {
		case HeaderPresent:
			return true
		case HeaderPrefix:
			if strings.HasPrefix(v, h.Value) {
				return true
			}
		default:
			if v == h.Value {
				return true
			}
		}
	}
	return false
}

// Arm is the arm of an id, as another region's router has drawn it. Nil: the rule has none of that
// id.
func (r *Rule) Arm(id string) *Arm {
	for i := range r.Arms {
		if r.Arms[i].ID == id {
			return &r.Arms[i]
		}
	}
	return nil
}

// Wants is the model or adapter to ask for, and the only clusters to use, on an arm of the rule; nil:
// on none. No model: as asked. No clusters: any. A nil rule says nothing.
func (r *Rule) Wants(arm *Arm) (model string, only []fleet.ClusterID) {
	if r == nil {
		return "", nil
	}
	model, only = r.Model, r.Clusters
	if arm != nil {
		if arm.Model != "" {
			model = arm.Model
		}
		if len(arm.Clusters) > 0 {
			only = arm.Clusters
		}
	}
	return model, only
}

func (t *Table) addRules(pb *routerpb.Table) error {
	for i, p := range pb.Rules {
		at := fmt.Sprintf("rules[%d]", i)
		r := &Rule{
			Policy: p.GetId(), Class: fleet.ClassID(p.GetClass()), Model: p.GetModel(),
			Residency: p.GetResidency(), Clusters: clusterIDs(p.GetClusters()),
		}
		switch {
		case r.Policy == "":
			return invalid(CodeValue, at+".id", "is empty")
		case t.rules[r.Policy] != nil:
			return invalid(CodeDuplicate, at+".id", "%q is there twice", r.Policy)
		case slices.Contains(r.Residency, ""):
			return invalid(CodeValue, at+".residency", "holds an empty name")
		case slices.Contains(r.Clusters, ""):
			return invalid(CodeValue, at+".clusters", "holds an empty name")
		}
		for _, step := range []func(string, *routerpb.Rule, *Rule) error{t.ruleModels, ruleMatches, t.ruleArms, t.ruleShadow, t.ruleClass} {
			if err := step(at, p, r); err != nil {
				return err
			}
		}
		t.rules[r.Policy] = r
		t.index.add(r)
	}
	return nil
}

func (t *Table) ruleModels(at string, p *routerpb.Rule, r *Rule) error {
	for j, m := range p.GetModels() {
		at := fmt.Sprintf("%s.models[%d]", at, j)
		id := fleet.ModelID(m)
		if n, ok := t.models[m]; !ok || n.model.ID != id {
			return invalid(CodeUnknown, at, "%q is not a base model of the table", m)
		}
		if slices.Contains(r.Models, id) {
			return invalid(CodeDuplicate, at, "%q is there twice", m)
		}
		r.Models = append(r.Models, id)
	}
	return t.servable(at+".model", r.Model)
}

// servable wants a name of a base model or adapter, or none.
func (t *Table) servable(at, name string) error {
	if n, ok := t.models[name]; name != "" && (!ok || n.adapter == "" && string(n.model.ID) != name) {
		return invalid(CodeUnknown, at, "%q is not a base model or adapter of the table", name)
	}
	return nil
}

func ruleMatches(at string, p *routerpb.Rule, r *Rule) error {
	for j, m := range p.GetMatch() {
		at := fmt.Sprintf("%s.match[%d]", at, j)
		out := Match{Paths: m.GetPaths()}
		for _, id := range m.GetTenants() {
			out.Tenants = append(out.Tenants, fleet.TenantID(id))
		}
		if slices.Contains(out.Tenants, "") {
			return invalid(CodeValue, at+".tenants", "holds an empty name")
		}
		if slices.ContainsFunc(out.Paths, func(p string) bool { return !strings.HasPrefix(p, "/") }) {
			return invalid(CodeValue, at+".paths", "holds one that doesn't begin with /")
		}
		for k, h := range m.GetHeaders() {
			header := HeaderMatch{Name: textproto.CanonicalMIMEHeaderKey(h.GetName()), Value: h.GetValue(), Type: h.GetType()}
			if header.Type == "" {
				header.Type = HeaderExact
			}
			switch at := fmt.Sprintf("%s.headers[%d]", at, k); {
			case header.Name == "":
				return invalid(CodeValue, at+".name", "is empty")
			case !slices.Contains([]string{HeaderExact, HeaderPrefix, HeaderPresent}, header.Type):
				return invalid(CodeValue, at+".type", "is %q, want exact, prefix or present", header.Type)
			}
			out.Headers = append(out.Headers, header)
		}
		r.Match = append(r.Match, out)
	}
	return nil
}

func (t *Table) ruleArms(at string, p *routerpb.Rule, r *Rule) error {
	sum := 0.0
	for j, a := range p.GetArms() {
		at := fmt.Sprintf("%s.arms[%d]", at, j)
		arm := Arm{ID: a.GetId(), Share: a.GetWeight(), Model: a.GetModel(), Clusters: clusterIDs(a.GetClusters())}
		switch {
		case arm.ID == "":
			return invalid(CodeValue, at+".id", "is empty")
		case r.Arm(arm.ID) != nil:
			return invalid(CodeDuplicate, at+".id", "%q is there twice", arm.ID)
		case !finite(arm.Share) || arm.Share < 0:
			return invalid(CodeValue, at+".weight", "is %v, want a number >= 0", arm.Share)
		}
		if err := t.servable(at+".model", arm.Model); err != nil {
			return err
		}
		for _, c := range arm.Clusters {
			if len(r.Clusters) > 0 && !slices.Contains(r.Clusters, c) {
				return invalid(CodeWidens, at+".clusters", "%q is not among the clusters of the rule", c)
			}
		}
		sum += arm.Share
		r.Arms = append(r.Arms, arm)
	}
	if len(r.Arms) > 0 && (!(sum > 0) || !finite(sum)) {
		return invalid(CodeWeightSum, at+".arms", "weights sum to %v, want a number > 0", sum)
	}
	for j := range r.Arms {
		r.Arms[j].Share /= sum
	}
	return nil
}

func (t *Table) ruleShadow(at string, p *routerpb.Rule, r *Rule) error {
	s := p.GetShadow()
	if s == nil {
		return nil
	}
	if !finite(s.Share) || s.Share < 0 || s.Share > 1 {
		return invalid(CodeValue, at+".shadow.share", "is %v, want 0 to 1", s.Share)
	}
	if err := t.servable(at+".shadow.model", s.Model); err != nil {
		return err
	}
	if s.Share > 0 {
		r.Shadow = &Shadow{Share: s.Share, Model: s.Model, Clusters: clusterIDs(s.Clusters)}
	}
	return nil
}

// ruleClass wants the rule's class for every base model that it may lead to.
func (t *Table) ruleClass(at string, _ *routerpb.Rule, r *Rule) error {
	if r.Class == "" {
		return invalid(CodeValue, at+".class", "is empty")
	}
	if r.Class == fleet.DefaultClass {
		return nil // built in
	}
	var models []fleet.ModelID
	for _, m := range t.modelIDs {
		if len(r.Models) == 0 || slices.Contains(r.Models, m.ID) {
			models = append(models, m.ID)
		}
	}
	names := []string{r.Model}
	for i := range r.Arms {
		names = append(names, r.Arms[i].Model)
	}
	if r.Shadow != nil {
		names = append(names, r.Shadow.Model)
	}
	for _, name := range names {
		if name != "" {
			models = append(models, t.models[name].model.ID)
		}
	}
	for _, m := range models {
		if _, ok := t.ClassNamed(r.Class, m); !ok {
			return invalid(CodeUnknown, at+".class", "there is no class %q for model %q", r.Class, m)
		}
	}
	return nil
}

func clusterIDs(names []string) []fleet.ClusterID {
	if len(names) == 0 {
		return nil
	}
	ids := make([]fleet.ClusterID, len(names))
	for i, n := range names {
		ids[i] = fleet.ClusterID(n)
	}
	return ids
}
