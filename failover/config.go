package failover

import (
	"math"
	"time"
)

// Config holds the numbers of the state machine. Zero fields take the value of [DefaultConfig].
type Config struct {
	// TimeScale, 0 < x <= 1, scales CoolDown, Recovery, RecoveryMax, RelapseMemory,
	// RampStep, RampBack and Pace, so
	// that demonstrations and tests need not wait; detection is never scaled.
	TimeScale float64
	// Silence: a router that has not reported for longer is no witness.
	Silence time.Duration
	// Confirm is how long hard evidence must last before traffic moves, GreyConfirm the same for
	// failing in part.
	Confirm, GreyConfirm time.Duration
	// GreyStep is the time between two steps of a quarter in which a grey failure is left.
	GreyStep time.Duration
	// Clear is how long a suspect must be good to be trusted again, and FailureShare, 0..1, what
	// share of requests may fail meanwhile.
	Clear        time.Duration
	FailureShare float64
	// GreyShare of at least GreyRequests requests failing is grey evidence.
	GreyShare    float64
	GreyRequests uint64
	// Full and Ease are the saturations at which a cluster is degraded (for FullFor) and no
	// longer (for EaseFor); TTFTFactor times the objective degrades it too.
	Full, Ease       float64
	FullFor, EaseFor time.Duration
	TTFTFactor       float64
	// Quiet is how long new requests must have ceased, down to QuietShare of all, before the
	// evacuation counts as done.
	Quiet      time.Duration
	QuietShare float64
	// CoolDown since evacuation, and Recovery of continuous good health, come before the return.
	// Recovery doubles with each relapse within RelapseMemory, up to RecoveryMax.
	CoolDown, Recovery, RecoveryMax, RelapseMemory time.Duration
	// AutoReturn: after a longer outage an operator must restore the cluster.
	AutoReturn time.Duration
	// RampSteps are the shares of its weight that a returning cluster gets, each for RampStep; a
	// bad gate goes one step back and waits for RampBack.
	RampSteps          []float64
	RampStep, RampBack time.Duration
	// Correlated: more than CorrelatedShare of capacity, or two regions, turning bad within this
	// time freezes them for FreezeFor.
	Correlated      time.Duration
	CorrelatedShare float64
	FreezeFor       time.Duration
	// Pace is the least time between two moves of a region, out of use and back, by evidence; Lock the time
	// after an operator's change in which evidence moves nothing of its region.
	Pace, Lock time.Duration
	// AlarmMemory is how soon after it was cleared a suspect that becomes one again counts as alternating,
	// which doubles Clear up to AlarmMax.
	AlarmMemory, AlarmMax time.Duration
	// Gate is the share of endpoints, 0..1, that must be usable for a return, and Skew the most by which
	// clocks there may be off.
	Gate float64
	Skew time.Duration
}

// DefaultConfig holds the defaults of the table in DESIGN.md.
func DefaultConfig() Config {
	return Config{
		TimeScale:       1,
		Silence:         5 * time.Second,
		Confirm:         3 * time.Second,
		GreyConfirm:     15 * time.Second,
		GreyStep:        2 * time.Second,
		Clear:           15 * time.Second,
		FailureShare:    0.05,
		GreyShare:       0.2,
		GreyRequests:    20,
		Full:            0.85,
		Ease:            0.70,
		FullFor:         15 * time.Second,
		EaseFor:         60 * time.Second,
		TTFTFactor:      1.5,
		Quiet:           3 * time.Second,
		QuietShare:      0.01,
		CoolDown:        300 * time.Second,
		Recovery:        120 * time.Second,
		RecoveryMax:     time.Hour,
		RelapseMemory:   6 * time.Hour,
		AutoReturn:      30 * time.Minute,
		RampSteps:       []float64{0.01, 0.05, 0.10, 0.25, 0.50, 1},
		RampStep:        60 * time.Second,
		RampBack:        120 * time.Second,
		Correlated:      10 * time.Second,
		CorrelatedShare: 0.5,
		FreezeFor:       60 * time.Second,
		Pace:            60 * time.Second,
		Lock:            5 * time.Second,
		AlarmMemory:     10 * time.Minute,
		AlarmMax:        2 * time.Minute,
		Gate:            0.5,
		Skew:            500 * time.Millisecond,
	}
}

// WithDefaults gives a copy whose zero fields hold the defaults; no time is scaled.
func (c Config) WithDefaults() Config {
	scale := c.TimeScale
	c.TimeScale = 1
	c = c.ready()
	c.TimeScale = scale
	return c
}

// ready fills in defaults and applies TimeScale.
func (c Config) ready() Config {
	d := DefaultConfig()
	orDuration := func(v *time.Duration, fallback time.Duration) {
		if *v <= 0 {
			*v = fallback
		}
	}
	orShare := func(v *float64, fallback float64) {
		if *v <= 0 || math.IsNaN(*v) {
			*v = fallback
		}
	}
	orShare(&c.TimeScale, d.TimeScale)
	c.TimeScale = min(c.TimeScale, 1)
	orDuration(&c.Silence, d.Silence)
	orDuration(&c.Confirm, d.Confirm)
	orDuration(&c.GreyConfirm, d.GreyConfirm)
	orDuration(&c.GreyStep, d.GreyStep)
	orDuration(&c.Clear, d.Clear)
	orShare(&c.FailureShare, d.FailureShare)
	orShare(&c.GreyShare, d.GreyShare)
	if c.GreyRequests == 0 {
		c.GreyRequests = d.GreyRequests
	}
	orShare(&c.Full, d.Full)
	orShare(&c.Ease, d.Ease)
	orDuration(&c.FullFor, d.FullFor)
	orDuration(&c.EaseFor, d.EaseFor)
	orShare(&c.TTFTFactor, d.TTFTFactor)
	orDuration(&c.Quiet, d.Quiet)
	orShare(&c.QuietShare, d.QuietShare)
	orDuration(&c.CoolDown, d.CoolDown)
	orDuration(&c.Recovery, d.Recovery)
	orDuration(&c.RecoveryMax, max(d.RecoveryMax, c.Recovery))
	orDuration(&c.RelapseMemory, d.RelapseMemory)
	orDuration(&c.AutoReturn, d.AutoReturn)
	if len(c.RampSteps) == 0 {
		c.RampSteps = d.RampSteps
	}
	if c.RampBack <= 0 && c.RampStep > 0 {
		c.RampBack = 2 * c.RampStep
	}
	orDuration(&c.RampStep, d.RampStep)
	orDuration(&c.RampBack, d.RampBack)
	orDuration(&c.Correlated, d.Correlated)
	orShare(&c.CorrelatedShare, d.CorrelatedShare)
	orDuration(&c.FreezeFor, d.FreezeFor)
	orDuration(&c.Pace, d.Pace)
	orDuration(&c.Lock, d.Lock)
	orDuration(&c.AlarmMemory, d.AlarmMemory)
	orDuration(&c.AlarmMax, max(d.AlarmMax, c.Clear))
	orShare(&c.Gate, d.Gate)
	orDuration(&c.Skew, d.Skew)
	for _, v := range []*time.Duration{&c.CoolDown, &c.Recovery, &c.RecoveryMax, &c.RelapseMemory, &c.RampStep, &c.RampBack, &c.Pace} {
		*v = time.Duration(float64(*v) * c.TimeScale)
	}
	return c
}
