package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"anabranch/sim/rival"
)

const (
	// MaxBytes is the longest document that is read.
	MaxBytes = 1 << 20
	// MaxSeeds is the most seeds that a scenario is run with.
	MaxSeeds = 1000
	// MaxRequests is the most requests of a generator. A run keeps some 600 bytes of each.
	MaxRequests = 10_000_000
)

// Scenario is a document: a fleet, what comes to it, and what is expected.
type Scenario struct {
	// Name in lower case with hyphens, and About what it shows, in a sentence or two.
	Name, About string
	Fleet       Fleet
	// Workload is merged of its parts, each of a kind: see [Kinds].
	Workload []yaml.Node
	// Policies to compare when nobody says which: "ours" and those of package rival. Empty: all.
	Policies []string
	// Baseline is the policy that others are compared with. Empty: random.
	Baseline string
	// Seeds is how many when nobody says. 0: 5.
	Seeds int
	// Vary names variants, each with what differs from the document by path, such as
	// "workload.0.rate". Empty: one variant without a name, the document itself.
	Vary []Variant
	// Resources are what an operator has written for ours, as YAML documents such as
	// "anabranch apply" takes, beside those that follow from the fleet. Empty: none.
	Resources string
	// Values are parameters of rivals that differ from their makers' defaults: by policy and name, as
	// in [rival.Parameters].
	Values map[string]map[string]float64
	// Interval is over how much time work may be put off in the least that it could cost. 0: a minute.
	Interval time.Duration
	// Full is what differs, by path, in a full run, where the document thins a long trace and has a
	// fleet to match. Empty: nothing is thinned.
	Full map[string]yaml.Node
	// Search are policies whose parameters are searched before they are compared, so that they are as
	// good as they can be here.
	Search []string
	// Expect must hold, or the run fails; Goals are reported as met or missed.
	Expect, Goals []Check

	tree *yaml.Node
	// preference takes the place of what Resources say of cost preferences. Nil: nothing does.
	preference *float64
}

// Variant is the document with some values replaced.
type Variant struct {
	Name string
	Set  map[string]yaml.Node
	// Policies of this variant alone. Empty: the scenario's.
	Policies []string
}

// Check is something expected of the figures; see [Expression].
type Check struct {
	// In is the variant meant, or with a trailing * those that begin so. Empty: each.
	In string
	// That is an expression, and Why says where the figure comes from. Why may be empty.
	That, Why string
}

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.%-]*$`)

// Parse reads a document. The error names the line or the field, and the fix.
func Parse(r io.Reader) (*Scenario, error) {
	doc, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(doc) > MaxBytes {
		return nil, fmt.Errorf("is longer than %d bytes", MaxBytes)
	}
	var root yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(doc))
	if err := dec.Decode(&root); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("is empty")
		}
		return nil, readable(err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("holds more than one document")
	}
	tree := root.Content[0]
	if tree.Kind != yaml.MappingNode {
		return nil, errors.New("is no mapping of name, fleet, workload and so on")
	}
	if err := plain(tree, 0); err != nil {
		return nil, err
	}
	s, err := read(tree)
	if err != nil {
		return nil, err
	}
	s.tree = tree
	return s, s.Validate()
}

func read(tree *yaml.Node) (*Scenario, error) {
	s := &Scenario{}
	if err := decode(tree, s); err != nil {
		return nil, err
	}
	if s.Seeds == 0 {
		s.Seeds = 5
	}
	if s.Baseline == "" {
		s.Baseline = "random"
	}
	return s, nil
}

// Variants are the names in order; one empty name if there are no variants.
func (s *Scenario) Variants() []string {
	if len(s.Vary) == 0 {
		return []string{""}
	}
	var names []string
	for _, v := range s.Vary {
		names = append(names, v.Name)
	}
	return names
}

// Variant is the scenario as a variant has it; "" is the document itself.
func (s *Scenario) Variant(name string) (*Scenario, error) { return s.variant(name, false) }

// variant is the same, in a full run or not.
func (s *Scenario) variant(name string, full bool) (*Scenario, error) {
	tree := clone(s.tree)
	if full {
		if err := change(tree, s.Full); err != nil {
			return nil, err
		}
	}
	var v Variant
	if name != "" {
		i := slices.IndexFunc(s.Vary, func(v Variant) bool { return v.Name == name })
		if i < 0 {
			return nil, s.noVariant(name)
		}
		v = s.Vary[i]
		if err := change(tree, v.Set); err != nil {
			return nil, fmt.Errorf("variant %s: %w", name, err)
		}
	}
	out, err := read(tree)
	switch {
	case err != nil && name != "":
		return nil, fmt.Errorf("variant %s: %w", name, err)
	case err != nil:
		return nil, err
	}
	out.tree = tree
	if len(v.Policies) > 0 {
		out.Policies = v.Policies
	}
	return out, nil
}

func (s *Scenario) noVariant(name string) error {
	if len(s.Vary) == 0 {
		return fmt.Errorf("there is no variant %q; %s has none", name, s.Name)
	}
	return fmt.Errorf("there is no variant %q; there are %s", name, strings.Join(s.Variants(), ", "))
}

// change sets values by their paths.
func change(tree *yaml.Node, values map[string]yaml.Node) error {
	for _, path := range sortedKeys(values) {
		value := values[path]
		if err := set(tree, path, clone(&value)); err != nil {
			return err
		}
	}
	return nil
}

// Validate checks all that can be checked without a run.
func (s *Scenario) Validate() error {
	switch {
	case !nameForm.MatchString(s.Name):
		return fmt.Errorf("name: %q is not lower-case letters, digits and hyphens", s.Name)
	case strings.TrimSpace(s.About) == "":
		return errors.New("about: say in a sentence what it shows")
	case s.Seeds < 1 || s.Seeds > MaxSeeds:
		return fmt.Errorf("seeds: %d is not 1 to %d", s.Seeds, MaxSeeds)
	case len(s.Workload) == 0:
		return errors.New("workload: is empty, so that nothing happens")
	}
	seen := map[string]bool{}
	for i, v := range s.Vary {
		if !nameForm.MatchString(v.Name) {
			return fmt.Errorf("vary[%d].name: %q is not lower-case letters, digits, dots and hyphens", i, v.Name)
		}
		if seen[v.Name] {
			return fmt.Errorf("vary[%d].name: %q is there twice", i, v.Name)
		}
		seen[v.Name] = true
	}
	if err := s.validateVariant(""); err != nil {
		return err
	}
	if err := s.validateFull(); err != nil {
		return err
	}
	for _, v := range s.Vary {
		if err := s.validateVariant(v.Name); err != nil {
			return err
		}
	}
	for i, c := range slices.Concat(s.Expect, s.Goals) {
		if err := s.validateCheck(c); err != nil {
			field := fmt.Sprintf("expect[%d]", i)
			if i >= len(s.Expect) {
				field = fmt.Sprintf("goals[%d]", i-len(s.Expect))
			}
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	return nil
}

// validateFull checks what differs in a full run.
func (s *Scenario) validateFull() error {
	if len(s.Full) == 0 {
		return nil
	}
	v, err := s.variant("", true)
	if err != nil {
		return fmt.Errorf("full: %w", err)
	}
	v.Vary, v.Full = nil, nil
	if err := v.validateVariant(""); err != nil {
		return fmt.Errorf("full: %w", err)
	}
	return nil
}

func (s *Scenario) validateVariant(name string) error {
	v, err := s.Variant(name)
	if err != nil {
		return err
	}
	in := ""
	if name != "" {
		in = "variant " + name + ": "
	}
	spec, err := v.Fleet.spec(v.Name)
	if err == nil {
		err = spec.Validate()
	}
	if err != nil {
		return fmt.Errorf("%sfleet: %w", in, err)
	}
	for i := range v.Workload {
		if _, err := part(&v.Workload[i], 0, ""); err != nil {
			return fmt.Errorf("%sworkload[%d]: %w", in, i, err)
		}
	}
	if _, err := v.oursOptions(spec); err != nil {
		return fmt.Errorf("%sresources: %w", in, err)
	}
	if err := checkValues(v.Values); err != nil {
		return fmt.Errorf("%svalues: %w", in, err)
	}
	for i, p := range slices.Concat(v.Policies, v.Search, []string{v.Baseline}) {
		if !slices.Contains(Policies(), p) {
			return fmt.Errorf("%spolicies[%d]: %w", in, i, noPolicy(p))
		}
	}
	if v.Interval < 0 {
		return fmt.Errorf("%sinterval: %v is below 0", in, v.Interval)
	}
	for _, p := range v.Search {
		if len(rival.Parameters(p)) == 0 {
			return fmt.Errorf("%ssearch: %s has no parameters to search", in, p)
		}
	}
	for _, list := range [][]string{v.Policies, v.Search} {
		if p, ok := twice(list); ok {
			return fmt.Errorf("%spolicies: %s is there twice", in, p)
		}
	}
	return nil
}

func (s *Scenario) validateCheck(c Check) error {
	if c.In != "" && !slices.ContainsFunc(s.Variants(), c.in) {
		return fmt.Errorf("in: %w", s.noVariant(c.In))
	}
	e, err := ParseExpression(c.That)
	if err != nil {
		return fmt.Errorf("that: %w", err)
	}
	for _, p := range slices.Concat(e.Left.Policies, e.Right.Policies) {
		if !slices.Contains(Policies(), p) {
			return fmt.Errorf("that: %w", noPolicy(p))
		}
	}
	return nil
}

// in says whether a check is about a variant.
func (c Check) in(variant string) bool {
	if begin, ok := strings.CutSuffix(c.In, "*"); ok {
		return strings.HasPrefix(variant, begin)
	}
	return c.In == "" || c.In == variant
}
