package route

import (
	"math"
	"sync"
	"time"

	"anabranch/api/fleet"
)

const (
	// leanAt is by how many mean requests' work a place must be behind what it should have for its share to count
	// e times as much in a draw. Chance alone makes the share of one of two equal places waver by a tenth with it,
	// which moves one key in forty.
	leanAt = 64
	// mostLean bounds the exponent: a share counts at most e² times as much or as little.
	mostLean = 2
	// leanFades is how long it takes until 1/e of what a place is behind is left: what was long ago needs
	// no making up for.
	leanFades = 10 * time.Minute
	// longShare of the requests are long: the slowest in a hundred are among them.
	longShare = 0.1
	// longFactor times the mean is what a long prompt has at least: where all are about as long none is.
	longFactor = 1.5
	// longStep is by how much, as a part of it, one request moves the length from which on prompts are long.
	longStep = 0.05
	// meanOf so many of the last requests.
	meanOf = 200
)

// Balance keeps account of what places get against what the table's weights give them, in work, for each model
// and class, and knows which prompts are long. It makes up for what chance does to a draw, and for requests that
// were kept near by their length ([Input].Long), so that places get the shares of the table all the same. The
// zero Balance is ready for use, by many goroutines; it grows with the models and classes that tables name.
type Balance struct {
	rows sync.Map // stream → *Leaning
}

type stream struct {
	model fleet.ModelID
	class fleet.ClassID
}

// Of is the account of a model and class.
func (b *Balance) Of(model fleet.ModelID, class fleet.ClassID) *Leaning {
	key := stream{model, class}
	if l, ok := b.rows.Load(key); ok {
		return l.(*Leaning)
	}
	l, _ := b.rows.LoadOrStore(key, &Leaning{})
	return l.(*Leaning)
}

// Leaning is the account of one model and class. Nil leans nowhere. It is safe for concurrent use.
type Leaning struct {
	mu     sync.Mutex // guards all below
	behind []behind
	at     time.Time // when what is behind last faded
	work   float64   // of a request, a mean; 0: none was counted
	prompt float64   // tokens, a mean
	long   float64   // tokens from which on a prompt is among the longShare
}

// behind is how much more work a place should have got than it has. Of all places together it is 0.
type behind struct {
	cluster fleet.ClusterID
	work    float64
}

// factor is what a share counts.
func (l *Leaning) factor(id fleet.ClusterID) float64 {
	if l == nil {
		return 1
	}
	l.mu.Lock()
	lean := l.lean(id)
	l.mu.Unlock()
	if lean == 0 {
		return 1
	}
	return math.Exp(lean)
}

// lean is the exponent of the factor. The caller holds the lock.
func (l *Leaning) lean(id fleet.ClusterID) float64 {
	for i := range l.behind {
		if l.behind[i].cluster == id {
			return min(max(l.behind[i].work/(leanAt*l.work), -mostLean), mostLean)
		}
	}
	return 0
}

// mayHaveMore says whether a place may get what was not drawn for it: it is not so far ahead already that the draw
// could hardly make up for it.
func (l *Leaning) mayHaveMore(id fleet.ClusterID) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lean(id) > -1
}

// Long says whether a prompt is one of the tenth that is longest, and much longer than most. Each request is
// to be asked for once.
func (l *Leaning) Long(tokens int64) bool {
	if l == nil || tokens <= 0 {
		return false
	}
	x := float64(tokens)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.prompt == 0 {
		l.prompt, l.long = x, longFactor*x
		return false
	}
	// The length moves up by so much more than down that it rests where longShare is above it (Robbins and
	// Monro, 1951).
	long := x >= l.long
	if long {
		l.long *= 1 + longStep*(1-longShare)
	} else {
		l.long *= 1 - longStep*longShare
	}
	l.prompt += (x - l.prompt) / meanOf
	return long && x >= longFactor*l.prompt
}

// Sent counts a request of so much work that goes where a choice says. Who overflows from a full place counts there,
// since the draw has nothing to make up for.
func (l *Leaning) Sent(c *Choice, work float64, now time.Time) {
	if l == nil || !(work > 0) || len(c.Targets) == 0 {
		return
	}
	to, all, places := &c.Targets[0], 0.0, 0
	if to.Reason == ByOverflow {
		to = &c.Targets[1]
	}
	for i := range c.Targets {
		if c.Targets[i].drawn > 0 {
			all += c.Targets[i].drawn
			places++
		}
	}
	if places < 2 || to.drawn == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fade(now)
	if l.work == 0 {
		l.work = work
	}
	l.work += (work - l.work) / meanOf
	for i := range c.Targets {
		if t := &c.Targets[i]; t.drawn > 0 {
			l.owe(t.Cluster.ID, work*t.drawn/all)
		}
	}
	l.owe(to.Cluster.ID, -work)
}

// fade forgets what was long ago, and places that nothing is left of.
func (l *Leaning) fade(now time.Time) {
	if after := now.Sub(l.at); after > 0 {
		kept := l.behind[:0]
		part := math.Exp(-after.Seconds() / leanFades.Seconds())
		for _, b := range l.behind {
			if b.work *= part; math.Abs(b.work) > 1e-3*l.work {
				kept = append(kept, b)
			}
		}
		l.behind, l.at = kept, now
	}
}

func (l *Leaning) owe(id fleet.ClusterID, work float64) {
	for i := range l.behind {
		if l.behind[i].cluster == id {
			l.behind[i].work += work
			return
		}
	}
	l.behind = append(l.behind, behind{id, work})
}
