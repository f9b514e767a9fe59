package policy

import (
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"anabranch/api/fleet"
)

// Bounds of labels.
const (
	maxLabels     = 32
	maxLabelKey   = 63
	maxLabelValue = 256
)

// Validate says everything that is wrong with one resource by itself; empty: nothing. It expects
// defaults filled in, as Parse leaves them.
func Validate(r *Resource) []Problem {
	var f finding
	f.metadata(r)
	switch s := r.Spec.(type) {
	case *RegionSpec:
		f.region(r.Metadata.Name, s)
	case *ClusterSpec:
		f.member(s)
	case *ModelSpec:
		f.model(r.Metadata.Name, s)
	case *TenantSpec:
		f.tenant(s)
	case *TrafficPolicySpec:
		f.traffic(s)
	case *QuotaSpec:
		f.quota(s)
	case *RateCardSpec:
		f.rateCard(s)
	case *SafetyRuleSpec:
		f.safetyRule(s)
	case *DrillPlanSpec:
		f.drillPlan(s)
	default:
		f.add("kind", fmt.Sprintf("%q is not known", clip(string(r.Kind))), kindFix(string(r.Kind)))
	}
	return f.problems
}

// Vet adds to the problems that Parse found those of Validate and, if all is given, of Check and
// CheckQuotas. A field
// that was already complained of, above or below, is left alone: what could not be read is not
// "missing" too, and a name that is not legal is not looked for.
func Vet(r *Resource, found []Problem, all Lookup) []Problem {
	if r == nil {
		return found
	}
	out := slices.Clone(found)
	add := func(more []Problem) {
		before := out
		for _, p := range more {
			if !slices.ContainsFunc(before, func(q Problem) bool { return within(p.Field, q.Field) || within(q.Field, p.Field) }) {
				out = append(out, p)
			}
		}
	}
	add(Validate(r))
	if all != nil {
		add(Check(r, all))
		add(CheckQuotas(r, all))
	}
	return out
}

// within: the path is the other or below it.
func within(path, other string) bool {
	rest, ok := strings.CutPrefix(path, other)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// finding collects problems in the order of the fields.
type finding struct{ problems []Problem }

func (f *finding) add(field, reason, fix string) { f.addOf(Ref{}, field, reason, fix) }

// addOf complains with words that name another resource.
func (f *finding) addOf(other Ref, field, reason, fix string) {
	if len(f.problems) < MaxProblems {
		f.problems = append(f.problems, Problem{Field: field, Reason: reason, Fix: fix, Other: other})
	}
}

func (f *finding) metadata(r *Resource) {
	if r.Kind == KindModel {
		f.named("metadata.name", r.Metadata.Name, fleet.CheckModel)
	} else {
		f.named("metadata.name", r.Metadata.Name, fleet.CheckName)
	}
	if len(r.Metadata.Labels) > maxLabels {
		f.add("metadata.labels", fmt.Sprintf("holds %d labels, the limit is %d", len(r.Metadata.Labels), maxLabels), "remove some")
		return
	}
	for _, k := range sortedKeys(r.Metadata.Labels) {
		at := fmt.Sprintf("metadata.labels[%s]", clip(k))
		if !labelKey.MatchString(k) || len(k) > maxLabelKey {
			f.add(at, "is not a legal key", fmt.Sprintf("use letters, digits, '.', '_', '/' and '-', at most %d bytes", maxLabelKey))
		}
		if v := r.Metadata.Labels[k]; len(v) > maxLabelValue || strings.ContainsFunc(v, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			f.add(at, "has a value that is too long or holds control characters", fmt.Sprintf("use at most %d printable bytes", maxLabelValue))
		}
	}
}

var labelKey = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$`)

// named checks a name with one of fleet's rules.
func (f *finding) named(field, name string, rule func(string) error) bool {
	if err := rule(name); err != nil {
		f.add(field, clip128(err.Error()), nameFix(name))
		return false
	}
	return true
}

func nameFix(name string) string {
	if name == "" {
		return "give a name"
	}
	return "rename it"
}

// clip128 bounds a reason that repeats a name.
func clip128(s string) string {
	const longest = 256
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}

// names checks a list of names, which must differ from each other.
func (f *finding) names(field string, list []string, rule func(string) error) {
	seen := make(map[string]bool, len(list))
	for i, name := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		if !f.named(at, name, rule) {
			continue
		}
		if seen[name] {
			f.add(at, fmt.Sprintf("%q appears twice", name), "keep one of them")
		}
		seen[name] = true
	}
}

func (f *finding) oneOf(field, value string, legal []string) {
	if slices.Contains(legal, value) {
		return
	}
	fix := "use one of " + strings.Join(legal, ", ")
	if len(legal) == 1 {
		fix = "use " + legal[0]
	}
	if near := nearest(value, legal); near != "" {
		fix = fmt.Sprintf("did you mean %q? legal: %s", near, strings.Join(legal, ", "))
	}
	if value == "" {
		f.add(field, "is missing", fix)
		return
	}
	f.add(field, fmt.Sprintf("%q is not known", clip(value)), fix)
}

// between wants low <= x <= high, finite.
func (f *finding) between(field string, x, low, high float64) {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		f.add(field, "is not a finite number", "give a finite number")
	case x < 0 && low >= 0:
		f.add(field, plain(x)+" is negative", fmt.Sprintf("give a number from %s to %s", plain(low), plain(high)))
	case x < low || x > high:
		f.add(field, plain(x)+" is out of range", fmt.Sprintf("give a number from %s to %s", plain(low), plain(high)))
	}
}

// plain writes a number without an exponent while that is readable.
func plain(x float64) string {
	if math.Abs(x) < 1e15 {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// web wants an absolute URL of one of the schemes, without credentials, query or fragment.
func (f *finding) web(field, text string, schemes ...string) {
	fix := fmt.Sprintf("write %s://host:port", schemes[0])
	u, err := url.Parse(text)
	switch {
	case text == "":
		f.add(field, "is missing", fix)
	case err != nil:
		f.add(field, "is not a URL", fix) // the error repeats the text, which may hold a password
	case !slices.Contains(schemes, u.Scheme):
		f.add(field, fmt.Sprintf("has the scheme %q", clip(u.Scheme)), "use "+strings.Join(schemes, " or "))
	case u.Hostname() == "":
		f.add(field, "names no host", fix)
	case u.User != nil:
		f.add(field, "holds a user or password", "remove it; name the secret's place in spec.auth")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		f.add(field, "holds a query or fragment", "remove it")
	case len(text) > 2048:
		f.add(field, fmt.Sprintf("is %d bytes long, the limit is 2048", len(text)), fix)
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
