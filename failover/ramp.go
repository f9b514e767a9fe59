package failover

import (
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
	case v.hard && (in.Frozen != "" || in.Blocked != ""):
		c.Reason = "held: " + in.Frozen + in.Blocked
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
	case last && in.Blocked != "":
		c.Reason = "held: " + in.Blocked
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
	c = c.enter(Frozen, reason, now)
	c.FrozenUntil = now.Add(cfg.FreezeFor)
	return c
}

// thaw ends the freeze once nothing correlated has happened for a while. What is
// still bad then is judged anew, by itself.
func (c Cluster) thaw(v verdict, in Evidence, cfg Config, now time.Time) Cluster {
	if in.Frozen != "" {
		c.FrozenUntil = now.Add(cfg.FreezeFor)
		return c
	}
	if c.FrozenUntil.IsZero() { // a new leader does not know since when
		c.FrozenUntil = now.Add(cfg.FreezeFor)
	}
	if now.Before(c.FrozenUntil) {
		return c
	}
	why := "no correlated change for " + cfg.FreezeFor.String()
	if v.suspect {
		return c.enter(Suspect, why+"; still "+v.why, now)
	}
	return c.enter(Healthy, why, now)
}
