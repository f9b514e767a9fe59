package failover

import (
	"cmp"
	"fmt"
	"time"
)

// stepAt is the last ramp step that does not give more than share; 0 when there is none.
func (c Config) stepAt(share float64) int {
	step := 0
	for i, s := range c.RampSteps {
		if s <= share {
			step = i
		}
	}
	return step
}

// ramp begins the return at a step.
func (c Cluster) ramp(step int, reason string, cfg Config, now time.Time) Cluster {
	c = c.enter(Ramping, reason, now)
	c.HeldUntil, c.StepsBack = time.Time{}, 0
	return c.at(step, cfg, now)
}

// back begins the return by evidence.
func (c Cluster) back(step int, reason string, cfg Config, now time.Time) Cluster {
	c = c.ramp(step, reason, cfg, now)
	c.MovedAt = now
	return c
}

func (c Cluster) at(step int, cfg Config, now time.Time) Cluster {
	c.RampStep, c.StepSince = step, now
	c.Share = cfg.RampSteps[step]
	return c
}

// Resume completes a cluster of which only the replicated fields are known, as a new leader does
// before anything else: the share of a ramp follows from its step. That of a failover it must know
// from elsewhere, such as the table in force.
func (c Cluster) Resume(cfg Config) Cluster { return c.resume(cfg.ready()) }

func (c Cluster) resume(cfg Config) Cluster {
	if c.State == Ramping {
		c.RampStep = min(max(c.RampStep, 0), len(cfg.RampSteps)-1)
		c.Share = cfg.RampSteps[c.RampStep]
	}
	return c
}

// returning gives traffic back step by step. Evidence that would fail a healthy cluster over does
// so here too; lesser evidence takes back a step, and the second in a row evacuates.
func (c Cluster) returning(v verdict, in Evidence, cfg Config, now time.Time) Cluster {
	c = c.resume(cfg)
	if c.StepSince.IsZero() {
		c.StepSince = now
	}
	switch {
	case v.hard && (in.Frozen != "" || in.Blocked != "" || in.Locked != ""):
		c.Reason = "held: " + cmp.Or(in.Frozen, in.Blocked, in.Locked)
		return c
	case v.hard && in.Paced != "" && lasted(c.BadSince, cfg.Confirm, now):
		// It may not leave yet: it takes no more than the least that a return begins with.
		c = c.at(0, cfg, now)
		c.Reason = "held at its first step: " + in.Paced
		return c
	case v.hard && lasted(c.BadSince, cfg.Confirm, now):
		return c.leave(v, true, 0, now)
	case v.hard:
		return c
	case v.grey:
		return c.stepBack(v, in, cfg, now)
	case !v.good || now.Before(c.HeldUntil) || now.Sub(c.StepSince) < cfg.RampStep:
		return c
	case c.RampStep+1 < len(cfg.RampSteps):
		c = c.at(c.RampStep+1, cfg, now)
		c.Reason = fmt.Sprintf("step %d of %d: %g %%", c.RampStep+1, len(cfg.RampSteps), 100*c.Share)
		c.StepsBack = 0
		return c
	}
	return c.enter(Healthy, "ramp complete", now)
}

// stepBack takes a step back, and evacuates when that has not helped: the failures that led to the
// step leave the count of recent requests within one more step.
func (c Cluster) stepBack(v verdict, in Evidence, cfg Config, now time.Time) Cluster {
	last := c.StepsBack > 0 || c.RampStep == 0
	switch {
	case c.StepsBack > 0 && now.Sub(c.StepSince) < cfg.RampStep:
		return c
	case last && in.held() != "":
		c.Reason = "held: " + in.held()
		return c
	case last:
		return c.evacuate("failed again on its return: "+v.why, cfg, now)
	}
	c = c.at(c.RampStep-1, cfg, now)
	c.StepsBack++
	c.HeldUntil = now.Add(cfg.RampBack)
	c.Reason = "a step back: " + v.why
	return c
}

// freeze holds the weight that the cluster has until the correlated change is over.
func (c Cluster) freeze(reason string, cfg Config, now time.Time) Cluster {
	c.Before = c.State
	c = c.enter(Frozen, reason, now)
	c.FrozenUntil = now.Add(cfg.FreezeFor)
	return c
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// thaw ends the freeze once nothing correlated has happened for a while, and goes back to the state before. What
// is still bad then is judged anew, by itself; so is what a new leader does not know the state before of.
func (c Cluster) thaw(v verdict, in Evidence, cfg Config, now time.Time) Cluster {
	if in.Frozen != "" {
		c.FrozenUntil = now.Add(cfg.FreezeFor)
		return c
	}
	if v.split { // nothing correlated: as soon as they agree for long enough, it is over
		c.FrozenUntil = latest(c.FrozenUntil, now.Add(cfg.Confirm))
		return c
	}
	if c.FrozenUntil.IsZero() { // a new leader does not know since when
		c.FrozenUntil = now.Add(cfg.FreezeFor)
	}
	if now.Before(c.FrozenUntil) {
		return c
	}
	why := "no correlated change for " + cfg.FreezeFor.String() + ", and observers agree"
	if v.suspect {
		return c.enter(Suspect, why+"; still "+v.why, now)
	}
	if c.Before == Degraded || c.Before == Suspect && !lasted(c.CalmSince, c.clearFor(cfg), now) {
		return c.enter(c.Before, why, now)
	}
	return c.enter(Healthy, why, now)
}
