package failover

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Step moves one cluster's health on by one look at the evidence. It is meant to be called each
// second; now must not go backwards. A cluster is judged among others: [StepAll] sees to that.
func Step(c Cluster, in Evidence, cfg Config, now time.Time) (Cluster, Transition) {
	cfg = cfg.ready()
	if c.State == "" {
		c.State, c.Since = Healthy, now
	}
	before := c.State
	v := judge(in, cfg)
	c = c.clock(v, in, now)
	switch {
	case in.Drained:
		c = c.drain(cfg, now)
	case in.Pin.Holds(now):
		c = c.pin(in.Pin, now)
	case c.State == Pinned:
		c = c.unpin(v, in, cfg, now)
	case c.State == Draining || c.State == Drained:
		c = c.ramp(0, "restored by an operator", cfg, now)
		c.OrderedAt = now
	default:
		c = c.weigh(v, in, cfg, now)
	}
	if c.State == before {
		return c, Transition{}
	}
	return c, Transition{From: before, To: c.State, Reason: c.Reason, At: now}
}

// clock starts and stops the timers of continuous evidence.
func (c Cluster) clock(v verdict, in Evidence, now time.Time) Cluster {
	run := func(since time.Time, on bool) time.Time {
		switch {
		case !on:
			return time.Time{}
		case since.IsZero():
			return now
		default:
			return since
		}
	}
	c.BadSince = run(c.BadSince, v.hard)
	c.GreySince = run(c.GreySince, v.grey)
	c.GoodSince = run(c.GoodSince, v.good)
	c.CalmSince = run(c.CalmSince, v.good && !v.suspect)
	c.SplitSince = run(c.SplitSince, v.split)
	c.FullSince = run(c.FullSince, v.full)
	c.EaseSince = run(c.EaseSince, v.eased)
	c.QuietSince = run(c.QuietSince, in.Quiet)
	return c
}

// lasted says whether a run of evidence has gone on for d.
func lasted(since time.Time, d time.Duration, now time.Time) bool {
	return !since.IsZero() && now.Sub(since) >= d
}

func (c Cluster) enter(s State, reason string, now time.Time) Cluster {
	c.State, c.Since, c.Reason = s, now, reason
	return c
}

func (c Cluster) drain(cfg Config, now time.Time) Cluster {
	switch {
	case c.State == Drained:
	case c.State != Draining:
		c = c.enter(Draining, "drained by an operator", now)
		c.OrderedAt = now
	case lasted(c.QuietSince, cfg.Quiet, now):
		c = c.enter(Drained, "drained by an operator, and no new requests arrive", now)
	}
	return c
}

func (c Cluster) weigh(v verdict, in Evidence, cfg Config, now time.Time) Cluster {
	switch c.State {
	case Healthy, Degraded, Suspect:
		return c.inUse(v, in, cfg, now)
	case FailingOver:
		return c.leaving(v, in, cfg, now)
	case Evacuated:
		return c.away(v, cfg, now)
	case Recovering:
		return c.gate(v, in, cfg, now)
	case Ramping:
		return c.returning(v, in, cfg, now)
	case Frozen:
		return c.thaw(v, in, cfg, now)
	default: // a state of a newer version: not ours to move
		return c
	}
}

func (c Cluster) inUse(v verdict, in Evidence, cfg Config, now time.Time) Cluster {
	hard := lasted(c.BadSince, cfg.Confirm, now)
	grey := lasted(c.GreySince, cfg.GreyConfirm, now)
	held := in.held()
	switch {
	case v.hard && in.Frozen != "":
		return c.freeze(in.Frozen, cfg, now)
	case c.State == Suspect && lasted(c.SplitSince, cfg.Confirm, now):
		c = c.freeze("observers are split evenly: "+v.why, cfg, now)
		c.FrozenUntil = now.Add(cfg.Confirm)
		return c
	case (hard || grey) && c.State == Suspect && held == "":
		return c.leave(v, hard, 1, now)
	case v.suspect && c.State != Suspect:
		return c.suspect(v, cfg, now)
	case held != "" && (hard || grey):
		c.Reason = "held: " + held
		return c
	case c.State == Suspect && lasted(c.CalmSince, c.clearFor(cfg), now):
		c.ClearedAt = now
		return c.enter(Healthy, fmt.Sprintf("good for %s", c.clearFor(cfg)), now)
	case c.State == Healthy && lasted(c.FullSince, cfg.FullFor, now):
		return c.enter(Degraded, fmt.Sprintf("%s for %s", v.strain, cfg.FullFor), now)
	case c.State == Degraded && lasted(c.EaseSince, cfg.EaseFor, now):
		return c.enter(Healthy, fmt.Sprintf("saturation below %.2f for %s", cfg.Ease, cfg.EaseFor), now)
	}
	return c
}

// held says why evidence may not take the place out of use now, or "".
func (in Evidence) held() string { return cmp.Or(in.Blocked, in.Locked, in.Paced) }

// suspect stops growth. What was cleared lately alternates: the good time asked for doubles, so that a signal
// that comes and goes leaves the place a suspect, and does not make it one again each time.
func (c Cluster) suspect(v verdict, cfg Config, now time.Time) Cluster {
	c.Alarms++
	if c.ClearedAt.IsZero() || now.Sub(c.ClearedAt) > cfg.AlarmMemory {
		c.Alarms = 0
	}
	return c.enter(Suspect, v.why, now)
}

// clearFor is how long a suspect must be good.
func (c Cluster) clearFor(cfg Config) time.Duration {
	return doubled(cfg.Clear, c.Alarms, cfg.AlarmMax)
}

// doubled is d, twice as long each time, within most.
func doubled(d time.Duration, times int, most time.Duration) time.Duration {
	for ; times > 0 && d < most; times-- {
		d = min(2*d, most)
	}
	return d
}

// leave begins the failover: at once on hard evidence, from the present share in quarters on grey.
func (c Cluster) leave(v verdict, hard bool, share float64, now time.Time) Cluster {
	c = c.enter(FailingOver, v.why, now)
	c.MovedAt = now
	c.Share, c.StepSince = share, now
	if hard {
		c.Share = 0
	}
	return c
}

func (c Cluster) leaving(v verdict, in Evidence, cfg Config, now time.Time) Cluster {
	if c.StepSince.IsZero() { // a new leader does not know since when
		c.StepSince = now
	}
	switch {
	case v.hard && lasted(c.BadSince, cfg.Confirm, now):
		c.Share = 0
	case c.Share > 0 && !v.good && now.Sub(c.StepSince) >= cfg.GreyStep:
		c.Share, c.StepSince = max(c.Share-0.25, 0), now
	}
	switch {
	case lasted(c.GoodSince, cfg.Clear, now) && in.Locked == "" && in.Paced == "":
		return c.back(cfg.stepAt(c.Share), fmt.Sprintf("good for %s before it was evacuated", cfg.Clear), cfg, now)
	case c.Share == 0 && lasted(c.QuietSince, cfg.Quiet, now):
		return c.evacuate(c.Reason, cfg, now)
	}
	return c
}

// evacuate ends the failover. Soon after an earlier evacuation it is a relapse.
func (c Cluster) evacuate(reason string, cfg Config, now time.Time) Cluster {
	if !c.EvacuatedAt.IsZero() && now.Sub(c.EvacuatedAt) <= cfg.RelapseMemory {
		c.Relapses++
		c.LastRelapse = now
	} else {
		c.Relapses, c.LastRelapse = 0, time.Time{}
	}
	c = c.enter(Evacuated, reason, now)
	c.EvacuatedAt, c.Share = now, 0
	return c
}

// goodFor is how long the cluster must have been good to return: twice as long for each relapse.
func (c Cluster) goodFor(cfg Config, now time.Time) time.Duration {
	d := cfg.Recovery
	if now.Sub(c.LastRelapse) > cfg.RelapseMemory {
		return d
	}
	return doubled(d, c.Relapses, cfg.RecoveryMax)
}

func (c Cluster) away(v verdict, cfg Config, now time.Time) Cluster {
	want := c.goodFor(cfg, now)
	if v.good && now.Sub(c.EvacuatedAt) >= cfg.CoolDown && lasted(c.GoodSince, want, now) {
		return c.enter(Recovering, fmt.Sprintf("good for %s, %s after it was evacuated",
			want, now.Sub(c.EvacuatedAt).Round(time.Second)), now)
	}
	return c
}

// missing names adapters that are not there, the first few of many.
func missing(adapters []string) string {
	const most = 3
	names, more := adapters, ""
	if len(names) > most {
		names, more = names[:most], fmt.Sprintf(" and %d more", len(adapters)-most)
	}
	are := "adapter %s%s is not loaded"
	if len(adapters) > 1 {
		are = "adapters %s%s are not loaded"
	}
	return fmt.Sprintf(are, strings.Join(names, ", "), more)
}

// gate holds a recovering place until enough of its endpoints are usable and have the model's adapters, and what stands
// before them is of one build and of one time; after a long outage an operator must say so, by draining it and taking the drain back.
func (c Cluster) gate(v verdict, in Evidence, cfg Config, now time.Time) Cluster {
	switch {
	case v.hard || v.grey:
		return c.evacuate("failed again before its return: "+v.why, cfg, now)
	case !v.good:
		return c
	case v.ready < cfg.Gate:
		c.Reason = fmt.Sprintf("held: %.0f %% of its endpoints are usable, and %.0f %% must be", 100*v.ready, 100*cfg.Gate)
		return c
	case len(in.MissingAdapters) > 0:
		c.Reason = "held: " + missing(in.MissingAdapters)
		return c
	case in.Skew >= cfg.Skew:
		c.Reason = fmt.Sprintf("held: the clock of a router there is off by %s, and may be by less than %s", in.Skew.Round(time.Millisecond), cfg.Skew)
		return c
	case in.Versions > 1:
		c.Reason = fmt.Sprintf("held: its routers are of %d builds", in.Versions)
		return c
	case c.GoodSince.Sub(c.EvacuatedAt) > cfg.AutoReturn:
		c.Reason = fmt.Sprintf("was away for more than %s: drain it and take the drain back to let it return", cfg.AutoReturn)
		return c
	}
	if wait := cmp.Or(in.Locked, in.Paced); wait != "" {
		c.Reason = "held: " + wait
		return c
	}
	return c.back(0, "good again, and capacity, adapters, builds and clocks are in order", cfg, now)
}
