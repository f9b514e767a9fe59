package workload

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Process is what the times between arrivals of an open loop follow.
type Process string

// The processes.
const (
	Poisson  Process = "poisson"  // independent of each other
	Gamma    Process = "gamma"    // by CV
	Weibull  Process = "weibull"  // by Shape
	Constant Process = "constant" // all the same
)

// Arrivals says when requests come. With Clients it is a closed loop, where each client waits for
// its answer, thinks and asks again; else an open one, which no answer holds up.
type Arrivals struct {
	// Process; empty: Poisson.
	Process Process
	// Rate is requests a second of all regions together, before the factors of Day. 0: 1.
	Rate float64
	// CV is the coefficient of variation of the times between arrivals, for Gamma: 0.05 to 30, above
	// 1 burstier than Poisson. 0: 2.
	CV float64
	// Shape is Weibull's: 0.2 to 20, below 1 burstier than Poisson. 0: 0.5.
	Shape float64
	// Day is factors of Rate by hour, over and over; 24 of them make a day. None: always 1.
	Day []float64
	// Burst makes the rate swing between bursts and silences; each region has its own.
	Burst Burst
	// Clients of a closed loop, at most a million. 0: an open loop. They are dealt out to the regions
	// by weight and start within Ramp, evenly.
	Clients int
	Think   Delays
	Ramp    time.Duration
}

// Burst is a rate that is on and off for exponentially distributed times. The mean over both is the
// Rate of the arrivals.
type Burst struct {
	// On and Off are the mean lengths. Both 0: no bursts.
	On, Off time.Duration
	// Quiet is the rate of a silence relative to that of a burst, 0 to 1.
	Quiet float64
}

// MaxClients bounds closed loops.
const MaxClients = 1_000_000

// Validate names the field that is wrong, and the fix.
func (a Arrivals) Validate() error {
	switch {
	case a.Clients < 0 || a.Clients > MaxClients:
		return fmt.Errorf("clients: is %d: set 0 to %d", a.Clients, MaxClients)
	case a.Clients > 0 && (a.Rate != 0 || a.Process != "" || len(a.Day) > 0 || a.Burst != Burst{}):
		return errors.New("clients: is set beside Process, Rate, Day or Burst: a closed loop has no rate, remove those")
	case a.Clients == 0 && (a.Think != Delays{} || a.Ramp != 0):
		return errors.New("think: it or ramp is set without clients: set clients, or remove them")
	case a.Ramp < 0 || a.Ramp > maxDelay:
		return fmt.Errorf("ramp: is %v: set 0 to %v", a.Ramp, maxDelay)
	case a.Rate < 0 || a.Rate > 1e6 || math.IsNaN(a.Rate):
		return fmt.Errorf("rate: is %v: set above 0, at most a million a second", a.Rate)
	case a.CV != 0 && !(a.CV >= 0.05 && a.CV <= 30):
		return fmt.Errorf("cv: is %v: set 0.05 to 30", a.CV)
	case a.Shape != 0 && !(a.Shape >= 0.2 && a.Shape <= 20):
		return fmt.Errorf("shape: is %v: set 0.2 to 20", a.Shape)
	}
	switch a.Process {
	case "", Poisson, Gamma, Weibull, Constant:
	default:
		return fmt.Errorf("process: is %q: set %s, %s, %s or %s", a.Process, Poisson, Gamma, Weibull, Constant)
	}
	if err := a.Think.Validate(); err != nil {
		return fmt.Errorf("think: %w", err)
	}
	if err := a.Burst.validate(); err != nil {
		return err
	}
	return checkDay(a.Day)
}

func (b Burst) validate() error {
	switch {
	case b.On == 0 && b.Off == 0 && b.Quiet == 0:
	case b.On < time.Millisecond || b.Off < time.Millisecond || b.On > maxDelay || b.Off > maxDelay:
		return fmt.Errorf("burst: on and off are %v and %v: set both from 1ms to %v", b.On, b.Off, maxDelay)
	case !(b.Quiet >= 0 && b.Quiet <= 1):
		return fmt.Errorf("burst.quiet: is %v: set 0 to 1", b.Quiet)
	}
	return nil
}

func checkDay(day []float64) error {
	sum := 0.0
	for i, f := range day {
		if !(f >= 0 && f <= 1000) {
			return fmt.Errorf("day[%d]: is %v: set a factor of 0 to 1000", i, f)
		}
		sum += f
	}
	if len(day) > 0 && sum == 0 || len(day) > 366*24 {
		return fmt.Errorf("day: has %d hours, their sum is %v: set up to a year of them, one above 0", len(day), sum)
	}
	return nil
}

// process is the arrivals of one region in an open loop. Times between arrivals are drawn for a rate
// of one and then stretched by the rate of the moment, so that their shape stays when it changes.
type process struct {
	arrivals Arrivals
	rate     float64 // this region's, in bursts if there are any
	shift    float64 // seconds
	rng      *rand.Rand
	swing    *rand.Rand
	now      float64 // seconds
	on       bool
	until    float64 // the end of the burst or silence
}

func newProcess(a Arrivals, part float64, shift time.Duration, seed uint64) *process {
	if a.Rate == 0 {
		a.Rate = 1
	}
	if a.CV == 0 {
		a.CV = 2
	}
	if a.Shape == 0 {
		a.Shape = 0.5
	}
	p := &process{
		arrivals: a, rate: a.Rate * part, shift: shift.Seconds(),
		rng: random(seed, tagArrivals), swing: random(seed, tagBurst), until: math.Inf(1),
	}
	if b := a.Burst; b.On > 0 {
		on, off := b.On.Seconds(), b.Off.Seconds()
		p.rate *= (on + off) / (on + b.Quiet*off)
		p.on = p.swing.Float64() < on/(on+off)
		p.turn(0)
	}
	return p
}

// turn sets when the burst or silence that begins at the given time ends.
func (p *process) turn(at float64) {
	mean := p.arrivals.Burst.Off
	if p.on {
		mean = p.arrivals.Burst.On
	}
	p.until = at - mean.Seconds()*math.Log1p(-p.swing.Float64())
}

// next is the time of the next arrival in seconds; at most maxDelay.
func (p *process) next() float64 {
	need := p.interval()
	for p.now < maxDelay.Seconds() {
		rate, end := p.rate, p.until
		if day := p.arrivals.Day; len(day) > 0 {
			hour := math.Floor((p.now - p.shift) / 3600)
			at := math.Mod(hour, float64(len(day)))
			if at < 0 {
				at += float64(len(day))
			}
			rate *= day[int(at)]
			end = min(end, max((hour+1)*3600+p.shift, math.Nextafter(p.now, math.Inf(1))))
		}
		if p.arrivals.Burst.On > 0 && !p.on {
			rate *= p.arrivals.Burst.Quiet
		}
		if need <= (end-p.now)*rate && rate > 0 {
			p.now += need / rate
			return p.now
		}
		need -= (end - p.now) * rate
		p.now = end
		if end == p.until {
			p.on = !p.on
			p.turn(end)
		}
	}
	return maxDelay.Seconds()
}

// interval draws a time between arrivals with a mean of one.
func (p *process) interval() float64 {
	switch p.arrivals.Process {
	case Constant:
		return 1
	case Gamma:
		shape := 1 / (p.arrivals.CV * p.arrivals.CV)
		return gammaDraw(p.rng, shape) / shape
	case Weibull:
		return weibullDraw(p.rng, p.arrivals.Shape) / math.Gamma(1+1/p.arrivals.Shape)
	default:
		return p.rng.ExpFloat64()
	}
}

// weibullDraw draws with scale one, by inversion.
func weibullDraw(rng *rand.Rand, shape float64) float64 {
	return math.Pow(rng.ExpFloat64(), 1/shape)
}

// gammaDraw draws with scale one, by the method of Marsaglia and Tsang, "A simple method for
// generating gamma variables", ACM TOMS 26(3), 2000.
func gammaDraw(rng *rand.Rand, shape float64) float64 {
	boost := 1.0
	if shape < 1 {
		boost = math.Pow(1-rng.Float64(), 1/shape)
		shape++
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(1-rng.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return boost * d * v
		}
	}
}
