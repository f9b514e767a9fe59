package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"anabranch/sim/report/stat"
)

// leaves of a struct's figures: the paths of its numbers in JSON.
func leaves(v reflect.Value, path string, out map[string]stat.Number) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		at := strings.TrimPrefix(path+"."+name, ".")
		switch {
		case field.Type == reflect.TypeFor[stat.Number]():
			out[at] = stat.Number(v.Field(i).Float())
		case field.Type.Kind() == reflect.Struct:
			leaves(v.Field(i), at, out)
		}
	}
}

// Every figure has one metric, its key is its path in JSON, and it finds that figure and no other.
func TestEveryFigureHasItsMetric(t *testing.T) {
	f := Figures{}
	n := 0.0
	var number func(v reflect.Value)
	number = func(v reflect.Value) {
		for i := range v.NumField() {
			switch field := v.Field(i); {
			case field.Type() == reflect.TypeFor[stat.Number]():
				n++
				field.SetFloat(n)
			case field.Kind() == reflect.Struct:
				number(field)
			}
		}
	}
	number(reflect.ValueOf(&f).Elem())
	want := map[string]stat.Number{}
	leaves(reflect.ValueOf(f), "", want)
	labels := map[string]bool{}
	for _, m := range Metrics() {
		if got, ok := want[m.Key]; !ok || m.Of(&f) != got {
			t.Errorf("%s: %v, and by JSON it is %v", m.Key, m.Of(&f), got)
		}
		delete(want, m.Key)
		if labels[m.Label] {
			t.Errorf("two figures are called %q", m.Label)
		}
		labels[m.Label] = true
	}
	for key := range want {
		t.Errorf("%s has no metric", key)
	}
}

func TestLookup(t *testing.T) {
	m, err := Lookup("ttftMs.p95")
	if err != nil || m.Label != "TTFT P95" || m.Better != -1 || !m.Relative() {
		t.Errorf("%+v %v", m, err)
	}
	if _, err := Lookup("ttft"); err == nil || !strings.Contains(err.Error(), `"ttft"`) {
		t.Errorf("error %v", err)
	}
	if m, _ := Lookup("goodput.share"); m.Relative() || m.Better != 1 {
		t.Errorf("%+v", m)
	}
	for _, keys := range [][]string{columns, changes, deciding} {
		for _, key := range keys {
			if _, err := Lookup(key); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestJSONComesBackAsItWent(t *testing.T) {
	r := golden()
	r.Real, r.Ours, r.Baselines = true, "ours", []string{"round-robin"}
	var there, again bytes.Buffer
	if err := r.WriteJSON(&there); err != nil {
		t.Fatal(err)
	}
	back, err := ReadJSON(bytes.NewReader(there.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range [][]Figures{r.Runs, back.Runs} {
		text, err := json.Marshal(of)
		if err != nil {
			t.Fatal(err)
		}
		if again.Len() > 0 && !bytes.Equal(text, again.Bytes()) {
			t.Error("the runs read differ from those written")
		}
		again.Write(text)
	}
	if !back.Real || back.Ours != "ours" || len(back.Baselines) != 1 || back.Title != r.Title {
		t.Errorf("%+v", back)
	}
	if back.Runs[0].Timeline == nil || back.Runs[1].Timeline != nil {
		t.Error("the timeline of the first seed is kept, and only that")
	}
	if back.Runs[0].Rules.QuotaOver.Known() {
		t.Error("what is unknown has become a figure")
	}
	if Judge(back).Headline != Judge(r).Headline {
		t.Errorf("%q has become %q", Judge(r).Headline, Judge(back).Headline)
	}
}

func TestReadJSONSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "EOF",
		"{":                         "unexpected EOF",
		`{"version":2,"runs":[{}]}`: "version 2 is not 1",
		`{"version":1}`:             "no runs",
		`{"version":1,"runs":[{"policy":"x","timeline":{"seconds":[1],"waiting":[1,2]}}]}`:          "run 1, timeline: 2 values for 1",
		`{"version":1,"runs":[{},{"timeline":{"seconds":[1],"weights":[{"to":"a","values":[]}]}}]}`: "run 2, timeline: 0 values for 1",
		`{"version":1,"runs":[{"ttftMs":{"p50":"x"}}]}`:                                             "cannot unmarshal",
	} {
		if _, err := ReadJSON(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Whatever is read, it never breaks what prints it.
func FuzzReadJSON(f *testing.F) {
	var b bytes.Buffer
	if err := small(golden()).WriteJSON(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"version":1,"runs":[{"policy":"ours","clusters":[{"name":"a","pods":[{}]}],"timeline":{"seconds":[1],"waiting":[]}}]}`))
	f.Add([]byte(`{"version":1,"runs":[{"policy":"ours","timeline":{"seconds":[1,null],"weights":[{"values":[1]}]}},{"policy":"b","clusters":[]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ReadJSON(bytes.NewReader(text))
		if err != nil {
			return
		}
		var out bytes.Buffer
		for _, err := range []error{r.Text(&out, Options{}), r.HTML(&out, Options{}), r.CSV(&out), Compare(r, r).HTML(&out)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestCSVHasARowForEachRun(t *testing.T) {
	r := golden()
	var b bytes.Buffer
	if err := r.CSV(&b); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1+len(r.Runs) || len(rows[0]) != 2+len(Metrics()) || rows[0][2] != "ttftMs.p50" {
		t.Errorf("%d rows of %d fields, the third is %s", len(rows), len(rows[0]), rows[0][2])
	}
	if rows[1][0] != "round-robin" || rows[1][1] != "1" {
		t.Errorf("first row %v", rows[1][:2])
	}
	for _, row := range rows {
		for _, field := range row {
			if field == "NaN" {
				t.Fatal("NaN is no field")
			}
		}
	}
}

func TestSummarise(t *testing.T) {
	runs := golden().Of("ours")
	s := Summarise(runs)
	if s.Policy != "ours" || s.N != 5 || len(s.Figures) != len(Metrics()) {
		t.Errorf("%s %d %d", s.Policy, s.N, len(s.Figures))
	}
	e := s.Figures["ttftMs.p50"]
	sum := stat.Number(0)
	for i := range runs {
		sum += runs[i].TTFT.P50
	}
	near(t, "mean", e.Mean, float64(sum/5))
	if !(e.Low < e.Mean && e.Mean < e.High) || e.N != 5 {
		t.Errorf("%+v", e)
	}
	if none := Summarise(nil); none.N != 0 || none.Figures["seconds"].Mean.Known() {
		t.Errorf("%+v", none)
	}
}

func TestChangedPairsBySeedInAnyOrder(t *testing.T) {
	m := metric("ttftMs.p50")
	a := []Figures{{Seed: 1, TTFT: stat.Spread{P50: 100}}, {Seed: 2, TTFT: stat.Spread{P50: 200}}, {Seed: 9, TTFT: stat.Spread{P50: 1}}}
	b := []Figures{{Seed: 2, TTFT: stat.Spread{P50: 100}}, {Seed: 7, TTFT: stat.Spread{P50: 1}}, {Seed: 1, TTFT: stat.Spread{P50: 50}}}
	c := Changed(m, a, b)
	near(t, "change", c.Mean, -0.5)
	if c.N != 2 {
		t.Errorf("%d pairs", c.N)
	}
}

func TestBaselines(t *testing.T) {
	r := golden()
	if got := strings.Join(r.baselines(), " "); got != "round-robin prefix-hash" {
		t.Errorf("baselines %s", got)
	}
	r.Baselines = []string{"prefix-hash", "not-run"}
	if got := strings.Join(r.baselines(), " "); got != "prefix-hash" {
		t.Errorf("baselines %s", got)
	}
	r.Ours, r.Oracle, r.Baselines = "prefix-hash", "ours", nil
	if got := strings.Join(r.baselines(), " "); got != "round-robin oracle" {
		t.Errorf("baselines %s", got)
	}
}
