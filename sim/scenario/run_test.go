package scenario

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// play runs the small document.
func play(t *testing.T, doc string, o Options) *Played {
	t.Helper()
	p, err := parse(t, doc).Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPoliciesAreComparedInEachVariant(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	var told []float64
	p := play(t, small, Options{Policies: []string{"random", Ours}, Seeds: 2, Parallel: 2, Progress: func(done float64) { told = append(told, done) }})
	if len(p.Variants) != 2 {
		t.Fatalf("%d variants", len(p.Variants))
	}
	for _, v := range p.Variants {
		if got := v.Report.Policies(); !slices.Equal(got, []string{"random", Ours}) {
			t.Errorf("%s: policies %v", v.Name, got)
		}
		for _, policy := range v.Report.Policies() {
			runs := v.Report.Of(policy)
			if len(runs) != 2 || runs[0].Seed != 1 || runs[1].Seed != 2 {
				t.Fatalf("%s: runs of %s: %d", v.Name, policy, len(runs))
			}
			for _, r := range runs {
				if r.Ends.Requests != 50 || r.Ends.Answered == 0 {
					t.Errorf("%s: %s: %+v", v.Name, policy, r.Ends)
				}
			}
		}
		if v.Workload.Requests != 50 {
			t.Errorf("%s: %d requests measured", v.Name, v.Workload.Requests)
		}
	}
	if len(told) == 0 || !slices.IsSorted(told) || told[len(told)-1] < 0.999 {
		t.Errorf("progress %v", told)
	}
}

func TestRunsAreTheSameHoweverManyAtOnce(t *testing.T) {
	text := func(parallel int) string {
		var b bytes.Buffer
		for _, v := range play(t, small, Options{Policies: []string{"p2c", Ours}, Seeds: 3, Parallel: parallel}).Variants {
			if err := v.Report.WriteJSON(&b); err != nil {
				t.Fatal(err)
			}
		}
		return b.String()
	}
	if text(1) != text(4) {
		t.Error("four at once make another report than one after the other")
	}
}

func TestExpectationsAreHeldAgainstTheFigures(t *testing.T) {
	doc := small + `
  - {that: random.ends.requests == 50}
goals:
  - {that: random.ends.requests > 50, why: nobody knows}
`
	p := play(t, doc, Options{Policies: []string{"random"}, Seeds: 1, Variants: []string{"slow"}})
	judged := p.Variants[0].Verdicts
	if len(judged) != 3 {
		t.Fatalf("%d verdicts", len(judged))
	}
	// The cluster dies for a while; ours did not run, so that nothing can be said of it.
	for i, want := range []string{
		"✗ expected: ours.ends.failed == 0: there is no ours.ends.failed (nobody is in a hurry)",
		"✓ expected: random.ends.requests == 50: 50 against 50",
		"✗ goal: random.ends.requests > 50: 50 against 50 (nobody knows)",
	} {
		if got := judged[i].Text(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	if p.Holds() {
		t.Error("holds, though what is expected of ours is not known")
	}
	p.Variants[0].Verdicts = judged[1:]
	if !p.Holds() {
		t.Error("a goal that is missed fails the run")
	}
}

func TestParametersAreSearchedBeforeTheyAreCompared(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	doc := strings.Replace(small, "vary:", "search: [spill]\nvary:", 1)
	p := play(t, doc, Options{Policies: []string{"spill", "random"}, Seeds: 1, Variants: []string{"fast"}})
	v := p.Variants[0]
	if text := v.FoundText("spill"); text == "" {
		t.Error("nothing was found for spill")
	}
	if text := v.FoundText("random"); text != "" {
		t.Errorf("random has no parameters, found %s", text)
	}
}

func TestAPartOfTheWorkload(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	p := play(t, small, Options{Policies: []string{"random"}, Seeds: 1, Requests: 7, Variants: []string{"slow"}})
	if got := p.Variants[0].Report.Runs[0].Ends.Requests; got != 7 {
		t.Errorf("%v requests, want 7", got)
	}
}

func TestARunThatIsGivenUpSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := parse(t, small).Run(ctx, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestWhatIsNotThereIsNamed(t *testing.T) {
	for want, o := range map[string]Options{
		`there is no policy "magic"; there are ours, random`: {Policies: []string{"magic"}},
		`there is no variant "snail"; there are slow, fast`:  {Variants: []string{"snail"}},
	} {
		if _, err := parse(t, small).Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

func TestARequestIsExplained(t *testing.T) {
	s := parse(t, small)
	e, err := s.Explain(t.Context(), Options{}, "", Ours, 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := e.Print(&b); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); !strings.Contains(text, "request 3 by ours, seed 1") || !strings.Contains(text, "us-a") || len(e.Steps) < 3 {
		t.Errorf("%s", text)
	}
	if _, err := s.Explain(t.Context(), Options{}, "slow", "random", 1, 5000); err == nil || !strings.Contains(err.Error(), "there is no request 5000; there are 1 to 50") {
		t.Errorf("%v", err)
	}
}

// TestExamplesRun plays the beginning of each scenario that is shipped, in all its variants.
func TestExamplesRun(t *testing.T) {
	for _, name := range Examples() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := Example(name)
			if err != nil {
				t.Fatal(err)
			}
			whole := regexp.MustCompile(`warmup: \w+`).ReplaceAll(text, []byte("warmup: 0s"))
			s, err := Parse(bytes.NewReader(whole))
			if err != nil {
				t.Fatal(err)
			}
			if s.Name != name {
				t.Errorf("is named %s", s.Name)
			}
			if len(s.Expect) == 0 {
				t.Error("expects nothing")
			}
			p, err := s.Run(t.Context(), Options{Policies: []string{Ours, s.Baseline}, Seeds: 1, Parallel: 1, Requests: 300})
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range p.Variants {
				for _, r := range v.Report.Runs {
					if r.Ends.Requests != 300 || r.Ends.Answered < 250 || r.Rules.Violations > 0 {
						t.Errorf("%s: %s: %+v %+v", v.Name, r.Policy, r.Ends, r.Rules)
					}
				}
			}
		})
	}
	if _, err := Example("none"); err == nil || !strings.Contains(err.Error(), "there are adapters") {
		t.Errorf("%v", err)
	}
}
