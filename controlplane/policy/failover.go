package policy

import (
	"fmt"
	"time"

	"anabranch/failover"
)

// Config are the numbers that package failover judges a place by. Those that the spec leaves out are the defaults there;
// those of nil all are.
func (f *FailoverSpec) Config() failover.Config {
	s := f.WithDefaults()
	ms := func(v int64) time.Duration { return time.Duration(v) * time.Millisecond }
	return failover.Config{
		TimeScale: s.TimeScale,
		Confirm:   ms(s.ConfirmMs), CoolDown: ms(s.CoolDownMs), Recovery: ms(s.RecoveryMs), RampStep: ms(s.RampStepMs),
		Silence: ms(s.SilenceMs), GreyConfirm: ms(s.GreyConfirmMs), GreyStep: ms(s.GreyStepMs),
		Clear: ms(s.ClearMs), FailureShare: s.FailureShare, GreyShare: s.GreyShare, GreyRequests: uint64(max(s.GreyRequests, 0)),
		Full: s.Full, FullFor: ms(s.FullMs), Ease: s.Ease, EaseFor: ms(s.EaseMs), TTFTFactor: s.TTFTFactor,
		Quiet: ms(s.QuietMs), QuietShare: s.QuietShare, RecoveryMax: ms(s.RecoveryMaxMs), RelapseMemory: ms(s.RelapseMemoryMs),
		AutoReturn: ms(s.AutoReturnMs), RampSteps: s.RampSteps, RampBack: ms(s.RampBackMs),
		Correlated: ms(s.CorrelatedMs), CorrelatedShare: s.CorrelatedShare, FreezeFor: ms(s.FreezeMs),
		Pace: ms(s.PaceMs), Lock: ms(s.LockMs), Gate: s.ReadyShare, Skew: ms(s.SkewMs),
	}
}

// judgement checks the numbers of the state machine each by itself, and then against each other, with the defaults in
// the place of those that are left out. What builds before these numbers took is taken still: replicas must agree.
func (f *finding) judgement(s *FailoverSpec) {
	const at = "spec.failover."
	for _, n := range []struct {
		name           string
		v, least, most float64
	}{
		{"silenceMs", float64(s.SilenceMs), 1000, 30_000},
		{"greyConfirmMs", float64(s.GreyConfirmMs), 100, day},
		{"greyStepMs", float64(s.GreyStepMs), 100, day},
		{"clearMs", float64(s.ClearMs), 100, day},
		{"failureShare", s.FailureShare, 0.001, 1},
		{"greyShare", s.GreyShare, 0.001, 1},
		{"greyRequests", float64(s.GreyRequests), 1, 1_000_000},
		{"full", s.Full, 0.01, 10},
		{"fullMs", float64(s.FullMs), 100, day},
		{"ease", s.Ease, 0.01, 10},
		{"easeMs", float64(s.EaseMs), 100, day},
		{"ttftFactor", s.TTFTFactor, 1, 1000},
		{"quietMs", float64(s.QuietMs), 100, day},
		{"quietShare", s.QuietShare, 0.0001, 0.5},
		{"recoveryMaxMs", float64(s.RecoveryMaxMs), 100, 7 * day},
		{"relapseMemoryMs", float64(s.RelapseMemoryMs), 100, 30 * day},
		{"autoReturnMs", float64(s.AutoReturnMs), 100, 30 * day},
		{"rampBackMs", float64(s.RampBackMs), 100, day},
		{"correlatedMs", float64(s.CorrelatedMs), 1000, day},
		{"correlatedShare", s.CorrelatedShare, 0.01, 1},
		{"freezeMs", float64(s.FreezeMs), 100, day},
		{"paceMs", float64(s.PaceMs), 100, day},
		{"lockMs", float64(s.LockMs), 100, day},
		{"readyShare", s.ReadyShare, 0.01, 1},
		{"skewMs", float64(s.SkewMs), 1, day},
	} {
		if n.v != 0 {
			f.between(at+n.name, n.v, n.least, n.most)
		}
	}
	f.rampSteps(at+"rampSteps", s.RampSteps)
	c := s.Config().WithDefaults()
	for _, rule := range []struct {
		broken    bool
		name, why string
		fix       string
	}{
		{c.Ease >= c.Full, "ease", fmt.Sprintf("%g is not below full %g", c.Ease, c.Full), "a place must have more room to be healthy again than it had when it was degraded: make it less"},
		{s.GreyConfirmMs != 0 && c.GreyConfirm < c.Confirm, "greyConfirmMs", fmt.Sprintf("%s is less than confirmMs %s", c.GreyConfirm, c.Confirm), "failing in part is less certain than being dead: make it at least as long"},
		{s.RecoveryMaxMs != 0 && c.RecoveryMax < c.Recovery, "recoveryMaxMs", fmt.Sprintf("%s is less than recoveryMs %s", c.RecoveryMax, c.Recovery), "make it at least as long"},
		{s.RelapseMemoryMs != 0 && c.RelapseMemory < c.CoolDown+c.Recovery, "relapseMemoryMs", fmt.Sprintf("%s is less than coolDownMs and recoveryMs together, %s", c.RelapseMemory, c.CoolDown+c.Recovery), "no relapse would ever be remembered: make it longer"},
		{c.FailureShare > c.GreyShare, "failureShare", fmt.Sprintf("%g is more than greyShare %g", c.FailureShare, c.GreyShare), "what is good may not fail as much as what is left: make it less"},
		{s.CorrelatedMs != 0 && c.Correlated <= c.Confirm, "correlatedMs", fmt.Sprintf("%s is not more than confirmMs %s", c.Correlated, c.Confirm), "the first region would be left before the second can be seen to fail too: make it longer"},
	} {
		if rule.broken {
			f.add(at+rule.name, rule.why, rule.fix)
		}
	}
}

// rampSteps must rise, and end with all.
func (f *finding) rampSteps(at string, steps []float64) {
	before := 0.0
	for i, x := range steps {
		if !(x > before && x <= 1) {
			f.add(fmt.Sprintf("%s[%d]", at, i), fmt.Sprintf("is %g after %g", x, before), "shares of the weight rise from above 0 to 1")
			return
		}
		before = x
	}
	if len(steps) > 0 && before != 1 {
		f.add(at, fmt.Sprintf("ends with %g", before), "end with 1, or nothing returns whole")
	}
	if len(steps) > 20 {
		f.add(at, fmt.Sprintf("has %d steps", len(steps)), "give at most 20")
	}
}
