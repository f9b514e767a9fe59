package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"anabranch/sim/workload"
)

// traced is a document whose workload is a trace.
func traced(kind, extra string) string {
	begin, _, _ := strings.Cut(small, "workload:")
	return begin + fmt.Sprintf(`workload:
  - kind: %s
    file: trace.gz
    regions: [{region: us-east-1}]
    mix: {models: [{model: llama-3.1-8b}]}
%s
    otherwise:
      kind: uniform
      traffic: {arrivals: {rate: 5}, regions: [{region: us-east-1}], requests: 9}
      mix: {models: [{model: llama-3.1-8b}]}
`, kind, extra)
}

const azureRows = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00.0,300,20\n2023-11-16 18:00:01.0,400,30\n2023-11-16 18:00:02.0,500,40\n"

func countOf(t *testing.T, s *Scenario, o Options) int {
	t.Helper()
	src, err := s.source(1, &o)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for {
		if _, ok := src.Next(); !ok {
			break
		}
		n++
	}
	if err := workload.Err(src); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestATraceIsReadWhereItIsAndElseStoodInFor(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "trace.gz"), []byte(azureRows), 0o600); err != nil {
		t.Fatal(err)
	}
	s := parse(t, traced("azure", ""))
	for name, tt := range map[string]struct {
		traces string
		want   int
		share  float64
	}{
		"it is there":     {full, 3, 1},
		"it is not there": {t.TempDir(), 9, 0},
		"no folder":       {"", 9, 0},
	} {
		o := Options{Traces: tt.traces}
		if n := countOf(t, s, o); n != tt.want {
			t.Errorf("%s: %d requests, want %d", name, n, tt.want)
		}
		if share, err := s.thinned(&o); err != nil || share != tt.share {
			t.Errorf("%s: a share of %v, %v", name, share, err)
		}
	}
}

func TestAFullRunThinsNothing(t *testing.T) {
	folder := t.TempDir()
	rows := azureRows + strings.Repeat("2023-11-16 18:00:03.0,500,40\n", 200)
	if err := os.WriteFile(filepath.Join(folder, "trace.gz"), []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	s := parse(t, traced("azure", "    thin: 0.1")+"full: {workload.0.thin: 1}\n")
	thin := countOf(t, s, Options{Traces: folder})
	full, err := s.variant("", true)
	if err != nil {
		t.Fatal(err)
	}
	if all := countOf(t, full, Options{Traces: folder}); all != 203 || thin < 5 || thin > 60 {
		t.Errorf("%d requests thinned, %d of a full run", thin, all)
	}
	if share, err := s.thinned(&Options{Traces: folder}); err != nil || share != 0.1 {
		t.Errorf("a share of %v, %v", share, err)
	}
}

func TestTracesThatAreWrongSayHow(t *testing.T) {
	for want, doc := range map[string]string{
		`file: "../trace" is not the name of a file`: strings.Replace(traced("azure", ""), "trace.gz", "../trace", 1),
		"lengths: azure has no such file":            traced("azure", "    lengths: x"),
		`lengths: "" is not the name of a file`:      traced("servegen", ""),
		"speedup: is -1":                             traced("azure", "    speedup: -1"),
		"otherwise: must be a generator":             strings.Replace(traced("azure", ""), "kind: uniform", "kind: mooncake", 1),
		"otherwise: say what stands in":              strings.Split(traced("azure", ""), "    otherwise:")[0],
		`has no field "colour"`:                      traced("azure", "    colour: red"),
	} {
		if _, err := Parse(strings.NewReader(doc)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "trace.gz"), []byte("no trace\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := parse(t, traced("azure", "")).Run(t.Context(), Options{Traces: folder, Policies: []string{"random"}, Seeds: 1}); err == nil || !strings.Contains(err.Error(), "trace.gz") {
		t.Errorf("a file that is no trace: %v", err)
	}
}

func TestResourcesAreReadAsTheyAreApplied(t *testing.T) {
	with := func(spec string) string {
		return small + "resources: |\n  apiVersion: anabranch/v1\n  kind: TrafficPolicy\n  metadata: {name: p}\n  spec: " + spec + "\n"
	}
	s := parse(t, with("{models: [llama-3.1-8b], costPreference: 1}"))
	spec, err := s.Fleet.spec(s.Name)
	if err != nil {
		t.Fatal(err)
	}
	if o, err := s.oursOptions(spec); err != nil || len(o.Resources) != 1 {
		t.Errorf("%d resources, %v", len(o.Resources), err)
	}
	for want, doc := range map[string]string{
		"resources: line 4": with("{models: [llama-3.1-8b], cost: 1}"),
		"kind":              strings.Replace(with("{}"), "TrafficPolicy", "Wish", 1),
	} {
		if _, err := Parse(strings.NewReader(doc)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}
