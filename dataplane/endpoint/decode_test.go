package endpoint

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// served is a server's time between tokens, with chance in it.
type served struct{ base, more, prompt float64 }

func (s served) gap(rnd *rand.Rand, exact bool) gap {
	g := gap{batch: 1 + 60*rnd.Float64(), beside: 20 * rnd.Float64(), exact: exact}
	g.seconds = (s.base + s.more*g.batch + s.prompt*g.beside) * (0.97 + 0.06*rnd.Float64())
	return g
}

func TestDecodeTellsStepsFromPrompts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dearest := 1 / rapid.Float64Range(5000, 50_000).Draw(t, "prefill rate")
		s := served{
			base:   rapid.Float64Range(0.005, 0.03).Draw(t, "base"),
			more:   rapid.Float64Range(0.000_05, 0.0005).Draw(t, "more"),
			prompt: dearest * rapid.Float64Range(0.4, 1).Draw(t, "share of what a prompt takes by itself"),
		}
		rnd := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed")))
		d := decode{base: believedStep, more: believedStepMore}
		for range 1500 {
			d.learn(s.gap(rnd, true), dearest)
		}
		for _, batch := range []float64{1, 30, 60} {
			if got, want := d.at(batch, 0), s.base+s.more*batch; !near(got, want, 0.1) {
				t.Fatalf("a batch of %v takes %v s, want %v (learned %+v of %+v)", batch, got, want, d, s)
			}
		}
		if d.prompt > dearest || d.prompt < leastPrompt*dearest {
			t.Fatalf("a prompt token costs %v, by itself it takes %v", d.prompt, dearest)
		}
	})
}

// What prompts cost is not told by estimates of them: it is what they take by themselves.
func TestDecodeOnlyBelievesWhatWasCounted(t *testing.T) {
	const dearest = 1.0 / 20_000
	s := served{0.008, 0.0002, dearest / 2}
	rnd := rand.New(rand.NewPCG(1, 2))
	d := decode{base: believedStep, more: believedStepMore}
	for range 500 {
		d.learn(s.gap(rnd, false), dearest)
	}
	if d.prompt != dearest {
		t.Errorf("by estimates %v, want %v", d.prompt, dearest)
	}
	for range 500 {
		d.learn(s.gap(rnd, true), dearest)
	}
	if !near(d.prompt, dearest/2, 0.15) {
		t.Errorf("by counts %v, want %v", d.prompt, dearest/2)
	}
}

// The level follows at once, the slopes later.
func TestDecodeFollowsAServerThatGetsSlow(t *testing.T) {
	const dearest = 1.0 / 20_000
	rnd := rand.New(rand.NewPCG(1, 2))
	d := decode{base: believedStep, more: believedStepMore}
	for range 1000 {
		d.learn(served{0.008, 0.0002, dearest}.gap(rnd, true), dearest)
	}
	for range 100 {
		d.learn(served{0.016, 0.0004, dearest}.gap(rnd, true), dearest)
	}
	if got, want := d.at(31, 0), 0.016+0.0004*31; !near(got, want, 0.1) {
		t.Errorf("at the mean batch %v, want %v", got, want)
	}
	for i := range 200 {
		g := served{0.016, 0.0004, dearest}.gap(rnd, true)
		if i%10 == 9 {
			g.seconds *= 50 // a stall
		}
		d.learn(g, dearest)
	}
	if got, want := d.at(31, 0), 0.016+0.0004*31; !near(got, want, 0.1) {
		t.Errorf("with a tenth of stalls %v, want %v", got, want)
	}
	for range 20 {
		d.learn(served{0.16, 0.004, dearest}.gap(rnd, true), dearest)
	}
	if got, want := d.at(31, 0), 0.16+0.004*31; !near(got, want, 0.15) {
		t.Errorf("twenty samples after all got ten times slower %v, want %v", got, want)
	}
}

func TestDecodeOfBatchesAllAlikeKeepsWhatItBelievesOfTheirSlope(t *testing.T) {
	d := decode{base: believedStep, more: believedStepMore}
	for range 100 {
		d.learn(gap{seconds: 0.02, batch: 10, exact: true}, 1e-4)
	}
	if d.more != believedStepMore || !near(d.at(10, 0), 0.02, 1e-6) {
		t.Errorf("%+v", d)
	}
}

func TestDecodeTakesAnything(t *testing.T) {
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 1e-300, 1e300}
	d := decode{base: 0.01, more: 1e-4}
	for _, x := range odd[:5] {
		d.learn(gap{seconds: x, batch: 1}, 1e-4)
		d.learn(gap{seconds: 1, batch: x}, 1e-4)
		if x != 0 {
			d.learn(gap{seconds: 1, batch: 1, beside: x}, 1e-4)
		}
	}
	if d != (decode{base: 0.01, more: 1e-4}) {
		t.Errorf("nonsense made %+v", d)
	}
	rapid.Check(t, func(t *rapid.T) {
		d := decode{base: believedStep, more: believedStepMore}
		for range rapid.IntRange(1, 60).Draw(t, "samples") {
			d.learn(gap{
				seconds: rapid.Float64Range(0, 100).Draw(t, "seconds"), batch: rapid.Float64Range(0, 1000).Draw(t, "batch"),
				beside: rapid.Float64Range(0, 10_000).Draw(t, "beside"), exact: rapid.Bool().Draw(t, "exact"),
			}, rapid.Float64Range(1e-7, 1).Draw(t, "dearest"))
			for _, v := range []float64{d.base, d.more, d.prompt} {
				if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
					t.Fatalf("%+v", d)
				}
			}
		}
	})
}
