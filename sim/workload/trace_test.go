package workload

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/sim"
)

// load opens a sample in testdata.
func load(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func zipped(t testing.TB, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func mooncake(t testing.TB, text string, o TraceOptions) *Trace {
	t.Helper()
	s, err := Mooncake(strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMooncakeReadsItsSample(t *testing.T) {
	text := load(t, "mooncake.jsonl")
	s := mooncake(t, string(text), TraceOptions{})
	list := drain(t, s, 1e6, 0)
	if c := s.Counts(); len(list) != 60 || c != (Counts{Read: 60, Given: 60, Thin: 1}) {
		t.Fatalf("%d requests, %+v", len(list), c)
	}
	packed, err := Mooncake(bytes.NewReader(zipped(t, text)), TraceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(list, drain(t, packed, 1e6, 0)) {
		t.Error("compressed it reads differently")
	}
	st, _ := Measure(mooncake(t, string(text), TraceOptions{}), 1e6, 0)
	if st.Hit < 0.3 || len(roots(list)) != 1 || list[0].Session != 0 || list[0].Priority != 50 {
		t.Errorf("hit rate %v, %d first blocks, first request %+v", st.Hit, len(roots(list)), list[0])
	}
}

func TestMooncakeBlocks(t *testing.T) {
	list := drain(t, mooncake(t, `{"timestamp": 0, "input_length": 1100, "output_length": 5, "hash_ids": [0, 1, 2]}
{"timestamp": 0, "input_length": 1030, "output_length": 0, "hash_ids": [0, 1, 3]}

{"timestamp": 10, "input_length": 1024, "output_length": 1, "hash_ids": [5, 1]}
{"timestamp": 20.5, "input_length": 1100, "output_length": 1, "hash_ids": [0, 1], "unknown": {}}
{"timestamp": 20.5, "input_length": 0, "output_length": 1}`, TraceOptions{}), 10, 0)
	lengths := []int{68, 64, 64, 64, 0}
	for i, r := range list {
		if len(r.Blocks) != lengths[i] {
			t.Errorf("request %d has %d blocks of %d tokens, want %d", i, len(r.Blocks), sim.BlockSize, lengths[i])
		}
	}
	if n := common(list[0].Blocks, list[1].Blocks); n != 64 {
		t.Errorf("two ids in common make %d blocks, want 64", n)
	}
	if n := common(list[0].Blocks, list[2].Blocks); n != 0 {
		t.Errorf("an id behind another shares %d blocks", n)
	}
	seen := map[uint64]bool{}
	for _, h := range append(slices.Clone(list[0].Blocks), list[2].Blocks...) {
		if seen[h] {
			t.Fatal("a hash is there twice")
		}
		seen[h] = true
	}
	if list[1].OutputTokens != 1 || list[4].PromptTokens != 1 || list[3].At != 20_500*time.Microsecond {
		t.Errorf("lengths of 0 or times are read wrong: %+v", list[1:])
	}
	other := drain(t, mooncake(t, `{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}`, TraceOptions{Seed: 1}), 10, 0)
	if n := common(list[0].Blocks, other[0].Blocks); n != 0 {
		t.Errorf("workloads of two seeds share %d blocks", n)
	}
}

func TestBadTraces(t *testing.T) {
	good := `{"timestamp": 5, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}` + "\n"
	azure := "TIMESTAMP,ContextTokens,GeneratedTokens\n"
	mc := func(r io.Reader) (Source, error) { return Mooncake(r, TraceOptions{}) }
	az := func(r io.Reader) (Source, error) { return Azure(r, TraceOptions{}) }
	for _, c := range []struct {
		name, text, says string
		read             func(io.Reader) (Source, error)
		before           int // requests that come before
	}{
		{"no JSON", good + "timestamp", "Mooncake trace, line 2: is not a JSON object", mc, 1},
		{"a string for a number", `{"timestamp": "a"}`, "line 1: is not a JSON object", mc, 0},
		{"a field is missing", good + "\n\n" + `{"timestamp": 1}`, "line 4: lacks one of", mc, 1},
		{"time goes back", good + strings.Replace(good, "5", "4", 1), "line 2: timestamp 4 is before that of the line above, 5", mc, 1},
		{"negative time", strings.Replace(good, "5", "-5", 1), "line 1: timestamp is -5", mc, 0},
		{"time beyond all", strings.Replace(good, "5", "1e300", 1), "line 1: timestamp is 1e+300", mc, 0},
		{"negative length", strings.Replace(good, "600", "-600", 1), "line 1: input_length and output_length are -600", mc, 0},
		{"huge length", strings.Replace(good, "600", "99999999999", 1), "line 1: input_length", mc, 0},
		{"negative id", strings.Replace(good, "[0", "[-1", 1), "line 1: is not a JSON object", mc, 0},
		{"too few ids", strings.Replace(good, "600", "6000", 1), "line 1: has 2 hash_ids for 6000 tokens", mc, 0},
		{"blocks of another size", strings.Replace(good, "600", "32", 1), "line 1: has 2 hash_ids for 32 tokens, want one for each 512", mc, 0},
		{"an endless line", good + strings.Repeat("x", 2<<20), "line 2: is longer than 1048576 bytes", mc, 1},
		{"compressed and cut off", string(zipped(t, []byte(good))[:40]), "unexpected EOF", mc, 0},
		{"empty", "", "Azure trace: is empty, want a header", az, 0},
		{"another header", "a,b\n", "line 1: the header has no column TIMESTAMP", az, 0},
		{"too few values", azure + "2023-11-16 18:17:03.97,1\n", "line 2: has 2 values, the header 3", az, 0},
		{"no time", azure + "yesterday,1,2\n", `line 2: TIMESTAMP is "yesterday"`, az, 0},
		{"time goes back in a table", azure + "2023-11-16 18:17:03,1,2\n2023-11-16 18:17:02,1,2\n", "line 3: TIMESTAMP 2023-11-16 18:17:02 is before", az, 1},
		{"a leap of centuries", azure + "2023-11-16 18:17:03,1,2\n9023-11-16 18:17:02,1,2\n", "line 3: TIMESTAMP 9023-11-16 18:17:02 is more than", az, 1},
		{"no number", azure + "2023-11-16 18:17:03,1,2.5\n", `line 2: GeneratedTokens is "2.5"`, az, 0},
		{"negative tokens", azure + "2023-11-16 18:17:03,-1,2\n", `line 2: ContextTokens is "-1"`, az, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := c.read(strings.NewReader(c.text))
			n := 0
			if err == nil {
				for _, ok := s.Next(); ok; _, ok = s.Next() {
					n++
				}
				err = Err(s)
				if !s.Ended() {
					t.Error("not ended")
				}
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || n != c.before {
				t.Errorf("%d requests and error %v, want %d and one that says %q", n, err, c.before, c.says)
			}
		})
	}
	if _, err := Mooncake(strings.NewReader("\x1f\x8bno gzip"), TraceOptions{}); err == nil || !strings.Contains(err.Error(), "gzip header") {
		t.Errorf("a broken gzip header: %v", err)
	}
}

func TestAzureReadsItsSample(t *testing.T) {
	text := load(t, "azure.csv")
	s, err := Azure(bytes.NewReader(zipped(t, text)), TraceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	list := drain(t, s, 1e6, 0)
	if len(list) != 40 || list[0].At != 0 || list[0].Blocks != nil {
		t.Fatalf("%d requests, first %+v", len(list), list[0])
	}
	// Later files of the publisher have a zone, and others may order columns as they like.
	s, err = Azure(strings.NewReader("\ufeffGeneratedTokens,x,ContextTokens,TIMESTAMP\n7,,5,2024-05-10 00:00:00.009930+00:00\n8,,6,2024-05-10 00:00:01.009930+00:00\n"), TraceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	list = drain(t, s, 10, 0)
	if len(list) != 2 || list[1].At != time.Second || list[1].PromptTokens != 6 || list[1].OutputTokens != 8 {
		t.Errorf("got %+v", list)
	}
}

func TestTraceWindowSpeedAndLimit(t *testing.T) {
	text := string(load(t, "mooncake.jsonl"))
	all := drain(t, mooncake(t, text, TraceOptions{}), 1e6, 0)
	inside := 0
	for _, r := range all {
		if r.At >= 9*time.Second && r.At < 30*time.Second {
			inside++
		}
	}
	s := mooncake(t, text, TraceOptions{From: 9 * time.Second, Length: 21 * time.Second, Speedup: 3})
	list := drain(t, s, 1e6, 0)
	if len(list) != inside || list[0].At != 0 || list[len(list)-1].At != 6*time.Second {
		t.Errorf("%d requests from %v to %v, want %d from 0 to 6s", len(list), list[0].At, list[len(list)-1].At, inside)
	}
	if c := s.Counts(); c.Outside == 0 || c.Read != c.Given+c.Outside {
		t.Errorf("counts %+v", c)
	}
	if n := len(drain(t, mooncake(t, text, TraceOptions{Requests: 7}), 1e6, 0)); n != 7 {
		t.Errorf("%d requests, want 7", n)
	}
	slow := drain(t, mooncake(t, text, TraceOptions{Speedup: 0.5}), 1e6, 0)
	if slow[59].At != 2*all[59].At {
		t.Errorf("at half speed the last comes at %v", slow[59].At)
	}
}

func TestCapsCutWhatIsLonger(t *testing.T) {
	o := TraceOptions{Prompt: Lengths{Cap: 1000}, Output: Lengths{Cap: 100}}
	text := string(load(t, "mooncake.jsonl"))
	whole := drain(t, mooncake(t, text, TraceOptions{}), 1e6, 0)
	s := mooncake(t, text, o)
	cut := 0
	for i, r := range drain(t, s, 1e6, 0) {
		w := whole[i]
		if r.PromptTokens != min(w.PromptTokens, 1000) || r.OutputTokens != min(w.OutputTokens, 100) {
			t.Fatalf("%d and %d tokens of %d and %d", r.PromptTokens, r.OutputTokens, w.PromptTokens, w.OutputTokens)
		}
		if n := r.PromptTokens / sim.BlockSize; len(r.Blocks) != n || common(r.Blocks, w.Blocks) != n {
			t.Fatalf("%d blocks of %d tokens", len(r.Blocks), r.PromptTokens)
		}
		if w.PromptTokens > 1000 || w.OutputTokens > 100 {
			cut++
		}
	}
	if c := s.Counts(); c.Cut != cut || cut == 0 || cut == 60 {
		t.Errorf("%d are cut, want %d", c.Cut, cut)
	}
	g := servegen(t, o)
	most := 0
	cut = 0
	for _, r := range drain(t, g, 20_000, 0) {
		most = max(most, r.PromptTokens)
		if r.PromptTokens > 1000 || r.OutputTokens > 100 {
			t.Fatalf("%d and %d tokens", r.PromptTokens, r.OutputTokens)
		}
		if r.PromptTokens == 1000 || r.OutputTokens == 100 {
			cut++
		}
	}
	if c := g.Counts(); most != 1000 || c.Cut != cut || cut < 1000 {
		t.Errorf("the longest is %d, %d are cut, want %d", most, c.Cut, cut)
	}
}

func TestGridIsSpreadBySeed(t *testing.T) {
	text := string(load(t, "mooncake.jsonl"))
	spread := func(seed uint64) []Request {
		return drain(t, mooncake(t, text, TraceOptions{Seed: seed, Grid: 3 * time.Second}), 1e6, 0)
	}
	list := spread(1)
	counts := map[time.Duration]int{}
	times := map[time.Duration]bool{}
	for _, r := range list {
		counts[r.At/(3*time.Second)]++
		times[r.At] = true
	}
	for _, r := range drain(t, mooncake(t, text, TraceOptions{}), 1e6, 0) {
		counts[r.At/(3*time.Second)]--
	}
	for step, n := range counts {
		if n != 0 {
			t.Errorf("step %d has %d requests more than stamped", step, n)
		}
	}
	if len(times) != 60 || reflect.DeepEqual(list, spread(2)) {
		t.Errorf("%d different times of 60", len(times))
	}
}

// conversation is a trace of n conversations of three turns, a second apart.
func conversationTrace(n int) string {
	var b strings.Builder
	for turn := range 3 {
		for c := range n {
			fmt.Fprintf(&b, `{"timestamp": %d, "input_length": %d, "output_length": 9, "hash_ids": [0, %d`, (turn*n+c)*1000, (turn+2)*512, 10*c+1)
			for i := range turn {
				fmt.Fprintf(&b, ", %d", 10*c+2+i)
			}
			b.WriteString("]}\n")
		}
	}
	return b.String()
}

func TestThinningKeepsConversationsWhole(t *testing.T) {
	s := mooncake(t, conversationTrace(2000), TraceOptions{Seed: 1, Thin: 0.3})
	turns := map[uint64]int{}
	for _, r := range drain(t, s, 1e6, 0) {
		turns[r.Blocks[40]]++
	}
	for key, n := range turns {
		if n != 3 {
			t.Fatalf("%d of 3 turns of conversation %x are kept", n, key)
		}
	}
	near(t, "the share that is kept", float64(len(turns))/2000, 0.3, 0.1)
	if c := s.Counts(); c.Thin != 0.3 || c.Given+c.Thinned != 6000 {
		t.Errorf("counts %+v", c)
	}
}

func TestRegionsAreByConversationAndShifted(t *testing.T) {
	s := mooncake(t, conversationTrace(1000), TraceOptions{
		Seed:    1,
		Regions: []Origin{{Region: "us", Weight: 3}, {Region: "eu", Shift: time.Hour}},
		Mix:     Mix{Tenants: []Share[fleet.TenantID]{{Value: "acme"}, {Value: "globex"}}, Models: []Target{{Model: "m", Adapter: "lora"}}},
	})
	type who struct {
		region fleet.RegionID
		tenant fleet.TenantID
	}
	place := map[uint64]who{}
	us := 0
	plain := map[uint64][]time.Duration{}
	for _, r := range drain(t, mooncake(t, conversationTrace(1000), TraceOptions{Seed: 1}), 1e6, 0) {
		plain[r.Blocks[40]] = append(plain[r.Blocks[40]], r.At)
	}
	for _, r := range drain(t, s, 1e6, 0) {
		key := r.Blocks[40]
		now := who{r.Region, r.Tenant}
		if was, ok := place[key]; ok && was != now {
			t.Fatalf("a conversation is at %v and at %v", was, now)
		}
		place[key] = now
		want := plain[key][0]
		plain[key] = plain[key][1:]
		if r.Region == "us" {
			us++
		} else {
			want += time.Hour
		}
		if r.At != want || r.Model != "m" || r.Adapter != "lora" {
			t.Fatalf("a request of %s for %s comes at %v, want %v", r.Region, r.Model, r.At, want)
		}
	}
	near(t, "the part of us", float64(us)/3000, 0.75, 0.1)
}

func TestBadTraceOptions(t *testing.T) {
	for _, c := range []struct {
		opts TraceOptions
		says string
	}{
		{TraceOptions{Speedup: -1}, "speedup: is -1"},
		{TraceOptions{From: -1}, "from, length"},
		{TraceOptions{Length: 2 * maxDelay}, "from, length"},
		{TraceOptions{Thin: 2}, "thin: is 2"},
		{TraceOptions{Requests: -1}, "requests: is -1"},
		{TraceOptions{Grid: 2 * time.Hour}, "grid: is 2h"},
		{TraceOptions{Regions: []Origin{{Region: "us", Shift: -1}}}, "regions[0].shift"},
		{TraceOptions{Regions: []Origin{{Region: "US"}}}, "regions[0].region"},
		{TraceOptions{RegionMap: map[string]fleet.RegionID{"a": "A"}}, `regionMap["a"]`},
		{TraceOptions{TenantMap: map[string]fleet.TenantID{"a": "A"}}, `tenantMap["a"]`},
		{TraceOptions{ModelMap: map[string]fleet.ModelID{"a": " "}}, `modelMap["a"]`},
		{TraceOptions{ModelMap: map[string]fleet.ModelID{"a": "m"}}, "names neither clients nor models"},
		{TraceOptions{Mix: Mix{Models: []Target{{Model: ""}}}}, "mix.models[0]"},
		{TraceOptions{Prompt: Lengths{Fixed: -1}}, "prompt: fixed"},
		{TraceOptions{Output: Lengths{Fixed: -1}}, "output: fixed"},
		{TraceOptions{Prompt: Lengths{Cap: -1}}, "prompt: cap: is -1"},
	} {
		if _, err := Mooncake(strings.NewReader(""), c.opts); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: error is %v, want one that says %q", c.opts, err, c.says)
		}
	}
}

// endless is a Mooncake trace without end.
type endless struct {
	n    int
	rest []byte
}

func (e *endless) Read(p []byte) (int, error) {
	if len(e.rest) == 0 {
		e.rest = fmt.Appendf(nil, `{"timestamp": %d, "input_length": 100, "output_length": 9, "hash_ids": [%d]}`+"\n", e.n/10, e.n)
		e.n++
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func TestTracesAreReadAlongTheWay(t *testing.T) {
	e := &endless{}
	s, err := Mooncake(e, TraceOptions{Grid: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		s.Next()
	}
	if s.due.len() > 50 || e.n > 3000 {
		t.Errorf("after 1000 requests %d are held and %d lines read", s.due.len(), e.n)
	}
}

func TestAShiftHoldsBackABoundedNumber(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	s, err := Mooncake(&endless{}, TraceOptions{Regions: []Origin{{Region: "eu", Shift: 10 * 24 * time.Hour}}})
	if err != nil {
		t.Fatal(err)
	}
	// All wait for the first of the other day.
	s.due.count = 0
	for range maxHeld {
		s.due.add(maxDelay, record{at: maxDelay})
	}
	s.Next()
	if !s.over || s.Err() == nil || !strings.Contains(s.Err().Error(), "hold back more than") {
		t.Errorf("error is %v", s.Err())
	}
}
