// Package redisbucket is the quota authority of a whole fleet: the levels of ratelimit kept in
// Redis, one hash for each organisation, and leased to routers by one script call for all limits of a
// path. The clock is Redis's own, so that routers need not agree on the time.
package redisbucket

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"anabranch/ratelimit"
)

// Lender is a ratelimit.Lender on Redis: one server, the primary that Sentinels know, or a
// cluster. All that is kept of an organisation lies in one slot.
type Lender struct {
	client redis.UniversalClient
	budget time.Duration
	health health
	clock  func() int64 // microseconds; nil: Redis's own

	stepped func(by time.Duration) // nil: nobody is told of clocks that were set
	clocks  clocks
}

// Prefix starts the key of each organisation's hash; the name follows in braces.
const Prefix = "rl:"

//go:embed lease.lua
var leaseSource string

var leaseScript = redis.NewScript(leaseSource)

// NewLender makes a Lender and connects to nothing yet, so that a router starts without Redis.
// Each connection is checked when it is made, see [Lender.Check]. Run must run for an absence to end.
func NewLender(o LenderOptions) (*Lender, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Budget == 0 {
		o.Budget = DefaultBudget
	}
	if o.PoolSize == 0 {
		o.PoolSize = DefaultPoolSize
	}
	return &Lender{client: o.connect(), budget: o.Budget, health: health{log: o.Logger}, stepped: o.Stepped}, nil
}

// Close closes the connections; calls after it fail.
func (l *Lender) Close() error { return l.client.Close() }

// Lease implements ratelimit.Lender.
func (l *Lender) Lease(ctx context.Context, in ratelimit.In) (ratelimit.Out, error) {
	r := l.LeaseAll(ctx, []ratelimit.In{in})[0]
	return r.Out, r.Err
}

// LeaseAll makes several calls in one round trip (of a cluster, one to each server). They are
// independent, and an answer is for the call at the same place. No two may be of the same lane.
func (l *Lender) LeaseAll(ctx context.Context, calls []ratelimit.In) []ratelimit.Result {
	results := make([]ratelimit.Result, len(calls))
	var due []int
	for i := range calls {
		err := calls[i].Validate()
		if err == nil && strings.HasPrefix(calls[i].Org, "}") {
			err = fmt.Errorf("lease of %s: the name can't start with }, which Redis Cluster has a use for", calls[i].Org)
		}
		if err == nil {
			if cause := l.Healthy(calls[i].Org); cause != nil {
				err = fmt.Errorf("lease of %s: %w: %w", calls[i].Org, ratelimit.ErrAway, cause)
			}
		}
		if results[i].Err = err; err == nil {
			due = append(due, i)
		}
	}
	if len(due) == 0 {
		return results
	}
	budget, cancel := context.WithTimeout(ctx, l.budget)
	defer cancel()
	again := l.round(budget, calls, results, due, false)
	if len(again) > 0 && budget.Err() == nil {
		// Under the same numbers, so that what was carried out is only answered again.
		l.round(budget, calls, results, again, false)
	}
	if ctx.Err() == nil { // the caller's own end says nothing of Redis
		l.told(ctx, calls, results, due, budget.Err() != nil)
	}
	return results
}

// told takes what the calls that were made say of the health of each part, once for each.
func (l *Lender) told(ctx context.Context, calls []ratelimit.In, results []ratelimit.Result, due []int, late bool) {
	told := make(map[string]error)
	tell := func(part string, err error) {
		if _, ok := told[part]; !ok || err != nil {
			told[part] = err
		}
	}
	for _, i := range due {
		org, err := calls[i].Org, results[i].Err
		if !unreadable(err) {
			tell(l.part(org), err)
		}
		if err == nil || unreadable(err) {
			tell(org, err)
		}
	}
	for part, err := range told {
		if err == nil {
			l.health.well(part)
			continue
		}
		l.health.fail(part, err, late || timedOut(err))
		l.reload(ctx)
	}
}

// round makes the calls that are due and answers those that failed on the way. With source the
// whole script is sent.
func (l *Lender) round(ctx context.Context, calls []ratelimit.In, results []ratelimit.Result, due []int, source bool) (failed []int) {
	replies := make([]*redis.Cmd, len(due))
	send := func(c redis.Scripter, at int) {
		in := &calls[due[at]]
		keys, args := l.request(in)
		if source {
			replies[at] = leaseScript.Eval(ctx, c, keys, args...)
		} else {
			replies[at] = leaseScript.EvalSha(ctx, c, keys, args...)
		}
	}
	if len(due) == 1 {
		send(l.client, 0)
	} else {
		pipe := l.client.Pipeline()
		for at := range due {
			send(pipe, at)
		}
		_, _ = pipe.Exec(ctx) // each reply has its own error
	}
	var unknown []int
	for at, i := range due {
		text, err := replies[at].Text()
		if err == nil {
			if results[i].Out, err = readOut(text, len(calls[i].Path)); err != nil {
				err = fmt.Errorf("%w: %w", errUnreadable, err)
			}
		}
		switch {
		case err == nil:
			results[i].Err = nil
			continue
		case redis.HasErrorPrefix(err, "NOSCRIPT") && !source:
			unknown = append(unknown, i)
			continue
		}
		results[i].Err = fmt.Errorf("lease of %s: %w", calls[i].Org, away(err))
		failed = append(failed, i)
	}
	if len(unknown) > 0 {
		failed = append(failed, l.round(ctx, calls, results, unknown, true)...)
	}
	return failed
}

// errUnreadable is wrapped by errors about answers that are none.
var errUnreadable = errors.New("the store's answer can't be read")

// unreadable says whether Redis is there and what it keeps of the one organisation is not what it should be,
// such as a key of another type. That is no reason not to ask for others.
func unreadable(err error) bool {
	return errors.Is(err, errUnreadable) || redis.HasErrorPrefix(err, "WRONGTYPE") || redis.HasErrorPrefix(err, "user_script:")
}

// timedOut says whether the error is of a socket whose deadline passed: that of the budget, which
// it may tell of before the context does.
func timedOut(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// reload looks anew at who serves what, in a cluster.
func (l *Lender) reload(ctx context.Context) {
	if c, ok := l.client.(*redis.ClusterClient); ok {
		c.ReloadState(ctx) // in the background
	}
}

// laneKeep is how long the last answer to a router is kept, at least.
const laneKeep = time.Minute

// hashKeep is how long an organisation's hash is kept at least where regions have shares, in
// milliseconds: as long as nobody calls, one that is cut off must not be forgotten.
const hashKeep = 3_600_000

// fields of a level in the script's argument.
const fields = 13

// request is the script's keys and arguments.
func (l *Lender) request(in *ratelimit.In) (keys []string, args []any) {
	key := Prefix + "{" + in.Org + "}"
	keys = []string{key, key + ":epoch", key + ":" + in.Lane()}
	args = make([]any, 2, 2+len(in.Path)+len(in.Shares))
	levels := make([]byte, 0, 8*(fields*len(in.Path)+len(in.Shares)))
	var keep, mine int64
	if len(in.Shares) > 0 {
		keep = hashKeep
	}
	for i := range in.Path {
		v := &in.Path[i]
		keep = max(keep, v.KeepMs())
		levels = doubles(levels, form(v)...)
		used, back, refund := v.Bounded()
		levels = doubles(levels, v.Limit.Burst, v.Cold, v.Want, used, back, refund)
		levels = doubles(levels, v.Window.FromUs, v.Window.NextUs, v.Window.Spent)
		args = append(args, v.Limit.ID)
	}
	for i, s := range in.Shares {
		levels = doubles(levels, s.Parts)
		args = append(args, "@"+s.Region)
		if s.Region == in.Region {
			mine = int64(i) + 1
		}
	}
	var now int64
	if l.clock != nil {
		now = l.clock()
	}
	lanes := max(laneKeep, 64*in.TTL).Milliseconds()
	first := doubles(make([]byte, 0, 88), now, in.Epoch, flag(in.Young), in.Policy, in.Seq, in.TTL.Microseconds(),
		keep+4*ratelimit.MaxTTL.Milliseconds(), lanes, int64(len(in.Shares)), mine)
	args[0], args[1] = first, levels
	return keys, args
}

// form is how the script counts the level: as a rate with its numbers, as slots or as money.
func form(v *ratelimit.Level) []int64 {
	switch v.Limit.Kind {
	case ratelimit.Slots:
		return []int64{1, flag(v.Alone), 0, 0}
	case ratelimit.Money:
		return []int64{2, 0, 0, 0}
	}
	return []int64{0, v.Limit.Amount, v.Limit.Period(), v.Limit.Unit()}
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// doubles appends numbers below 2^53 as Redis's struct library reads them.
func doubles(to []byte, ns ...int64) []byte {
	for _, n := range ns {
		to = binary.LittleEndian.AppendUint64(to, math.Float64bits(float64(n)))
	}
	return to
}

// head is how many numbers of an answer come before its levels.
const head = 5

// readOut reads the script's answer to a path of so many levels.
func readOut(text string, levels int) (ratelimit.Out, error) {
	if len(text) < 8*head || len(text)%8 != 0 {
		return ratelimit.Out{}, fmt.Errorf("script answered %d bytes, want %d and groups of 24", len(text), 8*head)
	}
	n := make([]int64, len(text)/8)
	for i := range n {
		f := math.Float64frombits(binary.LittleEndian.Uint64([]byte(text[8*i : 8*i+8])))
		if f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
			return ratelimit.Out{}, errors.New("script answered a number that is not whole")
		}
		n[i] = int64(f)
	}
	out := ratelimit.Out{
		Status: ratelimit.Status(n[0]), Epoch: n[1], Valid: time.Duration(n[2]) * time.Microsecond,
		Gap: ratelimit.Gap{From: time.Duration(n[3]) * time.Microsecond, To: time.Duration(n[4]) * time.Microsecond},
	}
	if out.Status != ratelimit.Granted {
		return out, nil
	}
	if len(n) != head+3*levels {
		return ratelimit.Out{}, fmt.Errorf("script answered %d numbers, want %d", len(n), head+3*levels)
	}
	out.Path = make([]ratelimit.Grant, levels)
	for i := range out.Path {
		at := head + 3*i
		out.Path[i] = ratelimit.Grant{Granted: n[at], Level: n[at+1], Held: n[at+2]}
	}
	return out, nil
}

var _ ratelimit.Lender = (*Lender)(nil)
