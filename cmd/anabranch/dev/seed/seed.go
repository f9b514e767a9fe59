// Package seed describes the fleet that `anabranch dev` runs and writes it down as resources: regions
// with published distances, clusters of two GPU generations, models, tenants, quotas, a policy and
// a rate card. The layout is plain data, so that a test can seed the same fleet at addresses of its
// own; the documents are one template, seed.yaml, that a reader can also take as an example.
package seed

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"text/template"

	"anabranch/controlplane/policy"
)

//go:embed seed.yaml
var documents string

var page = template.Must(template.New("seed.yaml").Option("missingkey=error").Parse(documents))

// Names of what is seeded, in the order in which a listing shows them.
const (
	SmallModel = "llama-3.1-8b"
	LargeModel = "llama-3.1-70b"
)

// Policy is the one that steers all traffic at first, RateCard what GPUs and tokens cost.
const (
	Policy   = "default"
	RateCard = "aws-2026"
)

// Adapters of [SmallModel].
var Adapters = []string{"support-lora", "legal-lora"}

// Tiers of the seeded tenants, by name.
var Tiers = map[string]string{"acme": "top", "globex": "standard", "initech": "batch"}

// Tenants lists the names in [Tiers], sorted.
func Tenants() []string { return slices.Sorted(maps.Keys(Tiers)) }

// Models lists every name that a client may put into a request: base models and adapters.
func Models() []string { return append([]string{SmallModel, LargeModel}, Adapters...) }

// AdaptersOf lists the adapters of a base model; nil: it has none.
func AdaptersOf(model string) []string {
	if model == SmallModel {
		return Adapters
	}
	return nil
}

// Documents writes the whole seed as one YAML stream, in an order in which every reference points
// backwards. keys holds the lower-case hex SHA-256 of each tenant's API key, by tenant; all of
// [Tenants] must be there.
func Documents(l Layout, keys map[string]string) ([]byte, error) {
	for _, t := range Tenants() {
		if keys[t] == "" {
			return nil, fmt.Errorf("seed documents: no API key hash for tenant %q", t)
		}
	}
	var b bytes.Buffer
	if err := page.Execute(&b, struct {
		Layout
		Keys map[string]string
	}{l, keys}); err != nil {
		return nil, fmt.Errorf("seed documents: %w", err)
	}
	return b.Bytes(), nil
}

// Resources parses and validates what [Documents] writes.
func Resources(l Layout, keys map[string]string) ([]*policy.Resource, error) {
	docs, err := Documents(l, keys)
	if err != nil {
		return nil, err
	}
	rs, problems := policy.ParseAll(docs)
	for _, r := range rs {
		for _, p := range policy.Validate(r) {
			p.Field = fmt.Sprintf("%s/%s %s", r.Kind, r.Metadata.Name, p.Field)
			problems = append(problems, p)
		}
	}
	if len(problems) == 0 {
		return rs, nil
	}
	errs := make([]error, 0, len(problems))
	for _, p := range problems {
		errs = append(errs, fmt.Errorf("%s: %s; %s", p.Field, p.Reason, p.Fix))
	}
	return nil, fmt.Errorf("seed documents: %w", errors.Join(errs...))
}
