package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/policy"
	"anabranch/ratelimit"
	"anabranch/sim/workload"
)

// maxPlayed bounds the requests of a rehearsal.
const maxPlayed = 5_000_000

var errNoLoad = errors.New("there are no requests to play: give --requests-per-minute, or a --trace that has some")

// quotaPlay are the flags of a rehearsal.
type quotaPlay struct {
	limits        limitFlags
	perMinute     float64
	input, output int64
	tokensPerS    float64
	burstiness    float64
	duration      time.Duration
	seed          uint64
	speedup       float64
	trace         replayFlags
	file          string
}

func (a *app) quotaSimulate() *cobra.Command {
	var f quotaPlay
	cmd := &cobra.Command{
		Use:   "simulate [NAME]",
		Short: "Rehearse limits with a load that is made up, recorded, or live",
		Long: `Rehearse limits: how many requests they admit and refuse, when the first is refused, how long it takes to
recover, and what burst would admit all. It is played in virtual time by the arithmetic of the routers;
nothing is changed, and without a NAME nothing is asked.

The load is --requests-per-minute with so many tokens each, or a --trace in the format of Mooncake (JSON
lines) or Azure (CSV). With the NAME of a quota it is what the quota's requests are now, and flags say which
of its limits are changed.

Assumed: all limits are full at the start and kept in one place; who is refused does not ask again; prompts
are as long as routers estimate; an answer has set aside what nine of ten answers need, at least 256 tokens,
and what it leaves is given back when it ends. A live load is an average over about 15 s, its requests all
of the same size, those refused as large as those admitted.`,
		Example: `  anabranch quota simulate --total-tokens 1M:2M --requests-per-minute 600 --input-per-request 1500
  anabranch quota simulate --requests 600 --concurrent 20 --requests-per-minute 500 --burstiness 3
  anabranch quota simulate --total-tokens 500k --trace conversation_trace.jsonl.gz --length 1h
  anabranch quota simulate acme-tokens --total-tokens 500k`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeQuotas(),
	}
	f.add(cmd)
	format := formats(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		changed, err := f.limits.limits()
		if err != nil {
			return misused(err)
		}
		if err := f.check(cmd, args); err != nil {
			return misused(err)
		}
		var r quotaRun
		if len(args) == 1 {
			c, err := a.connect("")
			if err != nil {
				return err
			}
			r, err = f.live(cmd.Context(), c, args[0], changed)
			if err != nil {
				return err
			}
		} else if r, err = f.offline(cmd, changed); err != nil {
			return err
		}
		if *format != "text" {
			return a.write(*format, r)
		}
		return a.printQuotaRun(r)
	}
	return cmd
}

func (f *quotaPlay) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	f.limits.add(fl)
	fl.Float64Var(&f.perMinute, "requests-per-minute", 0, "requests a minute that come")
	fl.Int64Var(&f.input, "input-per-request", 1000, "tokens of each prompt")
	fl.Int64Var(&f.output, "output-per-request", 250, "tokens of each answer")
	fl.Float64Var(&f.tokensPerS, "tokens-per-second", 40, "how fast an answer comes, which says how long a request is open")
	fl.Float64Var(&f.burstiness, "burstiness", 1, "coefficient of variation of the times between requests: 0 even, 1 random (Poisson), to 30")
	fl.DurationVar(&f.duration, "duration", time.Hour, "how long the load lasts")
	fl.Uint64Var(&f.seed, "seed", 1, "decides when requests come")
	fl.StringVar(&f.file, "trace", "", "file of a published trace to play instead")
	fl.StringVar(&f.trace.format, "format", "", "format of the trace, mooncake or azure (default by the file's name)")
	fl.DurationVar(&f.trace.trace.Length, "length", 0, "use so much of the trace (0: to its end)")
	fl.Float64Var(&f.speedup, "speedup", 1, "play the trace so many times as fast")
}

// check holds flags against each other.
func (f *quotaPlay) check(cmd *cobra.Command, args []string) error {
	given := func(names ...string) string {
		for _, name := range names {
			if cmd.Flags().Changed(name) {
				return name
			}
		}
		return ""
	}
	traced, made := []string{"format", "length", "speedup"}, []string{"requests-per-minute", "input-per-request", "output-per-request"}
	switch {
	case len(args) == 1 && given(slices.Concat(made, traced, []string{"trace"})...) != "":
		return fmt.Errorf("--%s: with a quota's name the load is what its requests are now: leave it out", given(slices.Concat(made, traced, []string{"trace"})...))
	case f.file != "" && given(slices.Concat(made, []string{"burstiness", "duration"})...) != "":
		return fmt.Errorf("--%s: the trace says it: leave it out, or the trace", given(slices.Concat(made, []string{"burstiness", "duration"})...))
	case f.file == "" && given(traced...) != "":
		return fmt.Errorf("--%s: is for a trace: name one with --trace", given(traced...))
	case len(args) == 0 && f.file == "" && !(f.perMinute > 0 && f.perMinute <= 1e6):
		return fmt.Errorf("--requests-per-minute: is %v: say how many come, up to a million, or name a --trace, or a quota", f.perMinute)
	case f.input < 0 || f.output < 0 || f.input > workload.MaxTokens || f.output > workload.MaxTokens:
		return fmt.Errorf("--input-per-request, --output-per-request: are %d and %d: set 0 to %d", f.input, f.output, workload.MaxTokens)
	case !(f.tokensPerS > 0 && f.tokensPerS <= 1e6):
		return fmt.Errorf("--tokens-per-second: is %v: set a number above 0", f.tokensPerS)
	case !(f.burstiness >= 0 && f.burstiness <= 30) || f.burstiness > 0 && f.burstiness < 0.05:
		return fmt.Errorf("--burstiness: is %v: set 0, or 0.05 to 30", f.burstiness)
	case f.duration < time.Second || f.duration > 31*24*time.Hour:
		return fmt.Errorf("--duration: is %v: set 1s to 31 days", f.duration)
	}
	return nil
}

// arrivals says when the requests of a load come.
func (f *quotaPlay) arrivals(perMinute float64) workload.Arrivals {
	out := workload.Arrivals{Rate: perMinute / 60, Process: workload.Gamma, CV: f.burstiness}
	switch f.burstiness {
	case 0:
		out.Process, out.CV = workload.Constant, 0
	case 1:
		out.Process, out.CV = workload.Poisson, 0
	}
	return out
}

// made is a load of requests that are all alike.
func (f *quotaPlay) made(perMinute float64, input, output int64, takes time.Duration) (*quotaLoad, error) {
	if n := perMinute * f.duration.Minutes(); n > maxPlayed {
		return nil, fmt.Errorf("these are %s requests, at most %s are played: shorten --duration", about(n), amount(maxPlayed))
	}
	spec := workload.Uniform{Traffic: workload.Traffic{Seed: f.seed, Arrivals: f.arrivals(perMinute), Duration: f.duration}}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	return &quotaLoad{open: spec.Source, most: 2 * maxPlayed, of: func(r workload.Request) playedRequest {
		return playedRequest{r.At, input, output, takes}
	}}, nil
}

// answering is how long an answer takes.
func (f *quotaPlay) answering(output int64) time.Duration {
	return time.Duration(float64(output) / f.tokensPerS * float64(time.Second))
}

// offline plays a load that is made up or recorded.
func (f *quotaPlay) offline(cmd *cobra.Command, limits []policy.LimitSpec) (quotaRun, error) {
	if len(limits) == 0 {
		return quotaRun{}, misused(errors.New("give at least one limit, such as --total-tokens 1M, or the name of a quota"))
	}
	if f.file == "" {
		load, err := f.made(f.perMinute, f.input, f.output, f.answering(f.output))
		if err != nil {
			return quotaRun{}, err
		}
		return runQuota(fmt.Sprintf("%s requests a minute for %s, %s + %s tokens each, burstiness %g", about(f.perMinute), f.duration, amount(f.input), amount(f.output), f.burstiness),
			load, playedOf(limits))
	}
	f.trace.trace.Speedup, f.trace.trace.Seed, f.trace.trace.Requests = f.speedup, f.seed, maxPlayed
	ext := filepath.Ext(strings.TrimSuffix(f.file, ".gz"))
	w, err := f.trace.ofTrace(cmd, f.file, cmp.Or(f.trace.format, formatOf(ext, "")))
	if err != nil {
		return quotaRun{}, err
	}
	load := &quotaLoad{open: w.open, most: maxPlayed, of: func(r workload.Request) playedRequest {
		out := int64(r.OutputTokens)
		return playedRequest{r.At, int64(r.PromptTokens), out, f.answering(out)}
	}}
	return runQuota("the trace "+w.name, load, playedOf(limits))
}

// playedOf are limits to play against. Budgets are none: a load has no prices.
func playedOf(specs []policy.LimitSpec) []playedLimit {
	var out []playedLimit
	for _, l := range specs {
		p := playedLimit{kind: l.Kind, Limit: ratelimit.Limit{ID: l.Kind, Kind: ratelimit.Kind(l.Kind), Amount: l.PerMinute, PeriodMs: 60_000, Burst: cmp.Or(l.Burst, l.PerMinute)}}
		if l.Kind == policy.LimitConcurrent {
			p.Amount, p.Burst = l.Max, l.Max
		}
		out = append(out, p)
	}
	return out
}

// live plays what the requests of a quota are now against its limits as they are, and as they would be.
func (f *quotaPlay) live(ctx context.Context, c *client.Client, name string, changed []policy.LimitSpec) (quotaRun, error) {
	all, _, err := limitUses(ctx, c, map[string][]string{"quota": {name}})
	if err != nil {
		return quotaRun{}, err
	}
	if len(all) == 0 {
		if _, _, err := c.Get(ctx, policy.KindQuota, name); err != nil {
			return quotaRun{}, err
		}
		return quotaRun{}, fmt.Errorf("quota %s is not in the routing table yet: nothing is known of its requests", name)
	}
	now := loadOf(all)
	if now.perMinute < 0.05 {
		return quotaRun{}, fmt.Errorf("no requests of quota %s came in the last seconds: there is no load to play; make one up with --requests-per-minute", name)
	}
	takes := now.takes
	if takes == 0 {
		takes = f.answering(now.output)
	}
	load, err := f.made(now.perMinute, now.input, now.output, takes)
	if err != nil {
		return quotaRun{}, err
	}
	present := playedOf(now.limits)
	text := fmt.Sprintf("what quota %s has now: %s requests a minute, %s + %s tokens each; for %s, burstiness %g",
		name, about(now.perMinute), amount(now.input), amount(now.output), f.duration, f.burstiness)
	if len(changed) == 0 {
		return runQuota(text, load, present)
	}
	next := slices.Clone(now.limits)
	for _, l := range changed {
		if i := slices.IndexFunc(next, func(o policy.LimitSpec) bool { return o.Kind == l.Kind }); i >= 0 {
			next[i] = l
			continue
		}
		if !now.knows(l.Kind) {
			return quotaRun{}, fmt.Errorf("quota %s has no limit of %s, so that nobody counts how many its requests use: make a load up with --requests-per-minute", name, l.Kind)
		}
		next = append(next, l)
	}
	before, err := runQuota(text, load, present)
	if err != nil {
		return quotaRun{}, err
	}
	out, err := runQuota(text, load, playedOf(next))
	out.Before = &before
	return out, err
}

// liveLoad is what the requests of a quota are on average.
type liveLoad struct {
	perMinute     float64
	input, output int64
	takes         time.Duration // 0: nobody counts how many are open
	limits        []policy.LimitSpec
	counted       map[string]bool // kinds of which it is known how much requests use
}

func (l *liveLoad) knows(kind string) bool {
	return kind == policy.LimitRequests || l.counted[kind] ||
		kind == policy.LimitTotalTokens && l.counted[policy.LimitInputTokens] && l.counted[policy.LimitOutputTokens]
}

// loadOf makes it of how the limits of one quota stand. Where only tokens of both sorts together are counted
// they are taken for tokens of prompts: nothing is set aside for answers.
func loadOf(all []limitUse) liveLoad {
	out := liveLoad{counted: map[string]bool{}}
	mean := map[string]float64{}
	admitted, denied := 0.0, 0.0
	for _, l := range all {
		refused := l.DeniedPerMinute
		if l.Shadow {
			refused = l.WouldDenyPerMin // those are not among the admitted
		}
		admitted, denied = max(admitted, l.AdmittedPerMinute), max(denied, refused)
	}
	out.perMinute = admitted + denied
	for _, l := range all {
		spec := policy.LimitSpec{Kind: l.Kind, PerMinute: l.Limit, Burst: l.Burst}
		switch {
		case l.Budget != nil:
			continue
		case l.Kind == policy.LimitConcurrent:
			spec = policy.LimitSpec{Kind: l.Kind, Max: l.Limit}
			if admitted > 0 {
				out.takes = time.Duration(float64(l.InUse) / admitted * float64(time.Minute)) // Little's law
			}
		case admitted > 0:
			mean[l.Kind] = l.UsedPerMinute / admitted
		}
		out.counted[l.Kind] = true
		out.limits = append(out.limits, spec)
	}
	input, output := mean[policy.LimitInputTokens], mean[policy.LimitOutputTokens]
	if total := mean[policy.LimitTotalTokens]; total > 0 && input == 0 {
		input = max(total-output, 0)
	}
	out.input, out.output = int64(math.Round(input)), int64(math.Round(output))
	return out
}
