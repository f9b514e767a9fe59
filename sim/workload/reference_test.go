package workload

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/sim"
)

// Slow and obvious ways to the same results.

func TestWeightsAgainstAScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Float64Range(0.001, 100), 1, 30).Draw(t, "weights")
		w, err := cumulate("x", len(list), func(i int) float64 { return list[i] })
		if err != nil {
			t.Fatal(err)
		}
		u := rapid.Float64Range(0, 0.999999).Draw(t, "u")
		sum, parts := 0.0, 0.0
		for i, x := range list {
			sum += x
			parts += w.part(i)
		}
		want, left := 0, u*sum
		for want < len(list)-1 && left >= list[want] {
			left -= list[want]
			want++
		}
		got := w.at(u)
		// Right at a border either side will do.
		if got != want && math.Abs(u*sum-w[min(got, want)]) > 1e-9*sum {
			t.Errorf("%v of %v falls on %d, want %d", u, list, got, want)
		}
		if math.Abs(parts-1) > 1e-9 {
			t.Errorf("parts add up to %v", parts)
		}
	})
}

func TestTimelineAgainstSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type item struct {
			at    time.Duration
			order int
		}
		var line timeline[item]
		var want []item
		for i, n := range rapid.SliceOfN(rapid.IntRange(-20, 20), 0, 200).Draw(t, "steps") {
			if n >= 0 {
				x := item{time.Duration(n), i}
				line.add(x.at, x)
				want = append(want, x)
				continue
			}
			slices.SortStableFunc(want, func(a, b item) int { return cmp.Compare(a.at, b.at) })
			first, ok := line.peek()
			if ok != (len(want) > 0) || line.len() != len(want) {
				t.Fatalf("%d items, want %d", line.len(), len(want))
			}
			if !ok {
				continue
			}
			if got := line.pop(); got != want[0] || first != got {
				t.Fatalf("got %v, want %v", got, want[0])
			}
			want = want[1:]
		}
	})
}

// TestArrivalsAgainstIntegration takes arrivals of a constant process: the k-th must come when the
// rate, added up in small steps, has reached k.
func TestArrivalsAgainstIntegration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		day := rapid.SliceOfN(rapid.Float64Range(0.1, 3), 1, 24).Draw(t, "day")
		rate := rapid.Float64Range(0.001, 0.02).Draw(t, "rate")
		shift := time.Duration(rapid.IntRange(-48, 48).Draw(t, "shift")) * time.Hour / 2
		p := newProcess(Arrivals{Process: Constant, Rate: rate, Day: day}, 1, shift, 1)
		const step = 1.0
		sum, k, next := 0.0, 1.0, p.next()
		for s := 0.0; s < 24*3600; s += step {
			hour := int(math.Floor((s - shift.Seconds()) / 3600))
			for hour < 0 {
				hour += len(day)
			}
			sum += step * rate * day[hour%len(day)]
			for next < s+step {
				if math.Abs(sum-k) > 2*step*rate*3+1e-6 {
					t.Fatalf("arrival %v at %v s, where %v should have come", k, next, sum)
				}
				k++
				next = p.next()
			}
		}
		if math.Abs(sum-k) > 1.5 {
			t.Errorf("%v arrivals, want %v", k, sum)
		}
	})
}

func TestMergeAgainstSorting(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var sources []Source
		var want []Request
		n := rapid.IntRange(1, 5).Draw(rt, "sources")
		for i := range n {
			spec := Uniform{Traffic: Traffic{
				Seed:     rapid.Uint64().Draw(rt, "seed"),
				Arrivals: Arrivals{Rate: rapid.Float64Range(0.1, 10).Draw(rt, "rate"), Process: rapid.SampledFrom([]Process{Poisson, Constant}).Draw(rt, "process")},
				Requests: rapid.IntRange(1, 40).Draw(rt, "requests"),
			}}
			for _, r := range take(t, spec, 1e6, 0) {
				r.ID = r.ID*uint64(n) + uint64(i)
				want = append(want, r)
			}
			sources = append(sources, start(t, spec))
		}
		slices.SortStableFunc(want, func(a, b Request) int {
			return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.ID%uint64(n), b.ID%uint64(n)))
		})
		got := drain(t, Merge(sources...).(Peeker), 1e6, 0)
		if len(got) != len(want) {
			rt.Fatalf("%d requests, want %d", len(got), len(want))
		}
		for i := range got {
			if got[i].ID != want[i].ID || got[i].At != want[i].At {
				rt.Fatalf("request %d is %d at %v, want %d at %v", i, got[i].ID, got[i].At, want[i].ID, want[i].At)
			}
		}
	})
}

// drawTrace draws a Mooncake trace in order of time.
func drawTrace(t *rapid.T) (text string, stamps []int) {
	var b strings.Builder
	at := 0
	for i := range rapid.IntRange(0, 60).Draw(t, "lines") {
		at += rapid.SampledFrom([]int{0, 0, 1, 1000, 2999, 3000, 60_000}).Draw(t, "gap")
		id := rapid.IntRange(0, 10).Draw(t, "conversation")
		fmt.Fprintf(&b, `{"timestamp": %d, "input_length": %d, "output_length": 5, "hash_ids": [0, %d]}`+"\n", at, 1000+i%24, id+1)
		stamps = append(stamps, at)
	}
	return b.String(), stamps
}

// TestTracesAgainstSortingThemWhole reads all of a trace, shifts and spreads it, and sorts; the reader
// along the way must come to the same.
func TestTracesAgainstSortingThemWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text, stamps := drawTrace(rt)
		o := TraceOptions{
			Seed:    rapid.Uint64().Draw(rt, "seed"),
			Grid:    rapid.SampledFrom([]time.Duration{0, 3 * time.Second}).Draw(rt, "grid"),
			From:    time.Duration(rapid.IntRange(0, 100).Draw(rt, "from")) * time.Second,
			Length:  time.Duration(rapid.IntRange(0, 300).Draw(rt, "length")) * time.Second,
			Thin:    rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(rt, "thin"),
			Speedup: rapid.SampledFrom([]float64{0, 0.5, 10}).Draw(rt, "speedup"),
			Regions: []Origin{{Region: "a"}, {Region: "b", Shift: time.Duration(rapid.IntRange(0, 500).Draw(rt, "shift")) * time.Second}},
		}
		s := mooncake(t, text, o)
		got := drain(t, s, 1e6, 0)
		// Every line has a length of its own within 24, so that with its stamp it can be told again.
		place := map[uint64]fleet.RegionID{}
		inside := 0
		for _, ms := range stamps {
			at := time.Duration(ms) * time.Millisecond
			if at >= o.From && (o.Length == 0 || at < o.From+o.Length) {
				inside++
			}
		}
		c := s.Counts()
		if c.Given != len(got) || c.Given+c.Thinned != inside || o.Thin != 0.5 && c.Thinned != 0 {
			rt.Fatalf("%d requests, counts %+v, %d are inside", len(got), c, inside)
		}
		for _, r := range got {
			key := r.Blocks[min(len(r.Blocks), 64)-1]
			if was, ok := place[key]; ok && was != r.Region {
				rt.Fatalf("a conversation is at %s and %s", was, r.Region)
			}
			place[key] = r.Region
		}
		if o.Thin == 0.5 {
			return
		}
		var want []time.Duration
		n := 0
		regions := map[int]fleet.RegionID{}
		plain := o
		plain.Grid, plain.Speedup, plain.Regions = 0, 0, []Origin{{Region: "a"}, {Region: "b"}}
		for i, r := range drain(t, mooncake(t, text, plain), 1e6, 0) {
			regions[i] = r.Region
		}
		speed := o.Speedup
		if speed == 0 {
			speed = 1
		}
		for i, ms := range stamps {
			at := time.Duration(ms) * time.Millisecond
			if at < o.From || o.Length > 0 && at >= o.From+o.Length {
				continue
			}
			at += time.Duration(unit(mix(mix(o.Seed, tagSpread), uint64(i+1)))*float64(o.Grid)) - o.From
			if regions[n] == "b" {
				at += o.Regions[1].Shift
			}
			n++
			want = append(want, time.Duration(float64(at)/speed))
		}
		slices.Sort(want)
		for i := range want {
			if got[i].At != want[i] {
				rt.Fatalf("request %d at %v, want %v", i, got[i].At, want[i])
			}
		}
	})
}

func TestMeasureAgainstCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []Request
		for i := range rapid.IntRange(1, 50).Draw(t, "requests") {
			r := Request{
				ID: uint64(i), At: time.Duration(i) * time.Second, OutputTokens: 1,
				Model: rapid.SampledFrom([]fleet.ModelID{"a", "b"}).Draw(t, "model"),
			}
			h := uint64(0)
			for range rapid.IntRange(0, 6).Draw(t, "blocks") {
				h = mix(h, rapid.Uint64Range(0, 2).Draw(t, "block"))
				r.Blocks = append(r.Blocks, h)
			}
			r.PromptTokens = len(r.Blocks)*sim.BlockSize + rapid.IntRange(1, 40).Draw(t, "rest")
			list = append(list, r)
		}
		hit, all := 0, 0
		for i, r := range list {
			best := 0
			for _, before := range list[:i] {
				if before.Model == r.Model {
					best = max(best, common(before.Blocks, r.Blocks))
				}
			}
			hit += best * sim.BlockSize
			all += r.PromptTokens
		}
		st, err := Measure(&listed{list: list}, 1000, 0)
		if err != nil || st.Prompt.Sum != all || math.Abs(st.Hit-float64(hit)/float64(all)) > 1e-12 {
			t.Errorf("hit rate %v of %d tokens, want %d of %d; error %v", st.Hit, st.Prompt.Sum, hit, all, err)
		}
	})
}

func TestLengthStatsAgainstCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.IntRange(1, 1000), 1, 300).Draw(t, "lengths")
		st := lengthStats(slices.Clone(list))
		for _, c := range []struct {
			p   float64
			got int
		}{{0.5, st.P50}, {0.9, st.P90}, {0.99, st.P99}, {1, st.Max}} {
			below, within := 0, 0
			for _, x := range list {
				if x < c.got {
					below++
				}
				if x <= c.got {
					within++
				}
			}
			n := c.p * float64(len(list))
			if float64(within) < n-1e-9 || float64(below) >= n {
				t.Errorf("quantile %v is %d: %d of %d below, %d within", c.p, c.got, below, len(list), within)
			}
		}
	})
}

func TestLinesAgainstSplitting(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{"a", "bc", " ", "\n", "\r\n", "\n\n", strings.Repeat("x", 70_000)})).Draw(rt, "parts")
		text := strings.Join(parts, "")
		if strings.HasPrefix(text, "\x1f\x8b") {
			return
		}
		input := []byte(text)
		if rapid.Bool().Draw(rt, "compressed") {
			input = zipped(t, input)
		}
		l, err := newLines("x", strings.NewReader(string(input)))
		if err != nil {
			rt.Fatal(err)
		}
		for i, want := range strings.Split(text, "\n") {
			if want = strings.TrimSpace(want); want == "" {
				continue
			}
			got, err := l.next()
			if err != nil || string(got) != want || l.at != i+1 {
				rt.Fatalf("line %d is %.20q (%v), want line %d, %.20q", l.at, got, err, i+1, want)
			}
		}
		if got, err := l.next(); !errors.Is(err, io.EOF) {
			rt.Fatalf("after the last line comes %.20q, %v", got, err)
		}
	})
}

func TestQuantileTablesOfAnyPercentiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p50 := rapid.Float32Range(0, 5000).Draw(t, "p50")
		p90 := p50 + rapid.Float32Range(0, 20_000).Draw(t, "p90")
		p99 := p90 + rapid.Float32Range(0, 100_000).Draw(t, "p99")
		mean := rapid.Float32Range(0, 50_000).Draw(t, "mean")
		table := quantileTable([4]float32{mean, p50, p90, p99})
		if err := checkQuantiles(table); err != nil {
			t.Fatal(err)
		}
		for i, want := range []float32{p50, p90, p99} {
			if got := table[i+1].Tokens; got != float64(want) {
				t.Errorf("percentile is %v, want %v", got, want)
			}
		}
		// The mean is met, or an end of the table is as far as it may go.
		sum := 0.0
		for i := 1; i < len(table); i++ {
			sum += (table[i].P - table[i-1].P) * between(table[i-1].Tokens, table[i].Tokens)
		}
		low, high := table[0].Tokens < 1.001, table[4].Tokens > min(99.9*float64(p99), 0.999*MaxTokens)
		if math.Abs(sum-float64(mean)) > 0.001*float64(mean)+1e-3 && !(low && sum > float64(mean)) && !(high && sum < float64(mean)) {
			t.Errorf("mean %v of %v, table %v", sum, mean, table)
		}
	})
}

// TestPromptsOfSessionsAddUp builds sessions again from their turns' lengths.
func TestPromptsOfSessionsAddUp(t *testing.T) {
	spec := Sessions{
		Traffic: Traffic{Seed: 8, Arrivals: Arrivals{Rate: 3}}, User: Lengths{Fixed: 33},
		Systems: 2, System: Lengths{Fixed: 500}, First: Lengths{Fixed: 77}, MaxContext: 4000,
	}
	for _, session := range bySession(take(t, spec, 4000, 300*time.Millisecond)) {
		want := 577
		for i, r := range session {
			if r.PromptTokens != want {
				t.Fatalf("turn %d has %d tokens, want %d", i, r.PromptTokens, want)
			}
			want += r.OutputTokens + 33
			if i > 0 && (r.Tenant != session[0].Tenant || r.Region != session[0].Region || r.Model != session[0].Model) {
				t.Fatal("a session changes hands")
			}
			if i > 0 && r.At < session[i-1].At+300*time.Millisecond {
				t.Fatalf("turn %d comes at %v, before the answer to the one at %v", i, r.At, session[i-1].At)
			}
		}
	}
}

func TestHashesSpread(t *testing.T) {
	// One bit of the input changes about half of the output's, wherever it is.
	for bit := range 64 {
		changed := 0
		for i := range uint64(200) {
			a, b := mix(i, 3), mix(i^1<<bit, 3)
			c, d := mix(3, i), mix(3, i^1<<bit)
			for x := a ^ b; x != 0; x &= x - 1 {
				changed++
			}
			for x := c ^ d; x != 0; x &= x - 1 {
				changed++
			}
		}
		if mean := float64(changed) / 400; mean < 28 || mean > 36 {
			t.Errorf("bit %d changes %v bits", bit, mean)
		}
	}
	sum := 0.0
	for i := range uint64(10_000) {
		u := unit(mix(1, i))
		if u < 0 || u >= 1 {
			t.Fatalf("unit is %v", u)
		}
		sum += u
	}
	near(t, "the mean", sum/10_000, 0.5, 0.02)
}
