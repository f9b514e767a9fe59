package rollout

import "time"

// Look is what a judge saw of a stage and made of it, for people.
type Look struct {
	// Rollout is the id of the rollout, Stage the stage that it was in, and At when it was looked at.
	Rollout uint64
	Stage   Stage
	At      time.Time
	Verdict Verdict
	// Have are the routers that hold the table and are heard of, Want how many of them it takes.
	Have, Want int
	// Bake is how long they have to hold it.
	Bake time.Duration
	// Ends is when the bake is over if they go on to; zero: too few hold it now.
	Ends time.Time
	// Returns is when the table is taken back if too few hold it by then; zero: enough do.
	Returns time.Time
	// With, Before and Rest count requests as in [Evidence].
	With, Before, Rest Count
}

// LookAt tells what was seen of a rollout and decided, with the progress that [Judge] gave.
func LookAt(rollout uint64, e Evidence, p Progress, v Verdict) Look {
	l := Look{
		Rollout: rollout, Stage: e.Stage, At: e.Now, Verdict: v, Bake: e.bake(),
		With: e.With, Before: e.Before, Rest: e.Rest,
	}
	l.Have, l.Want = e.acks()
	switch {
	case !p.Good.IsZero():
		l.Ends = p.Good.Add(l.Bake)
	case !p.Lost.IsZero():
		l.Returns = p.Lost.Add(LostFor)
	default:
		l.Returns = e.Since.Add(l.Bake + e.Rules.Timeout)
	}
	return l
}
