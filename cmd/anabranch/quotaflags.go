package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"anabranch/controlplane/policy"
)

// rateFlags are the flags of rates, by the kind of limit.
var rateFlags = []struct{ flag, kind, usage string }{
	{"requests", policy.LimitRequests, "requests a minute, as 600 or 600:1200 with a burst"},
	{"input-tokens", policy.LimitInputTokens, "tokens of prompts a minute, as 100k or 100k:200k"},
	{"output-tokens", policy.LimitOutputTokens, "tokens of answers a minute, as 100k or 100k:200k"},
	{"total-tokens", policy.LimitTotalTokens, "tokens of prompts and answers a minute, as 1M or 1M:2M"},
}

// limitFlags are limits as flags say them.
type limitFlags struct {
	rates      map[string]*string
	burst      string
	concurrent string
}

func (f *limitFlags) add(fl *pflag.FlagSet) {
	f.rates = map[string]*string{}
	for _, r := range rateFlags {
		f.rates[r.kind] = fl.String(r.flag, "", r.usage)
	}
	fl.StringVar(&f.burst, "burst", "", "burst of the only rate that is given, or of the only one of tokens (default a minute's worth)")
	fl.StringVar(&f.concurrent, "concurrent", "", "requests that may be open at the same time")
}

// limits are those that the flags name.
func (f *limitFlags) limits() ([]policy.LimitSpec, error) {
	var out []policy.LimitSpec
	for _, r := range rateFlags {
		text := *f.rates[r.kind]
		if text == "" {
			continue
		}
		l, err := rateOf(r.kind, text)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", r.flag, err)
		}
		out = append(out, l)
	}
	if f.burst != "" {
		n, err := units(f.burst)
		if err != nil {
			return nil, fmt.Errorf("--burst: %w", err)
		}
		l, err := meantBy(out)
		if err != nil {
			return nil, err
		}
		l.Burst = n
	}
	if f.concurrent != "" {
		n, err := units(f.concurrent)
		if err != nil {
			return nil, fmt.Errorf("--concurrent: %w", err)
		}
		out = append(out, policy.LimitSpec{Kind: policy.LimitConcurrent, Max: n})
	}
	return out, nil
}

// rateOf reads AMOUNT or AMOUNT:BURST.
func rateOf(kind, text string) (l policy.LimitSpec, err error) {
	l.Kind = kind
	rate, burst, more := strings.Cut(text, ":")
	if l.PerMinute, err = units(rate); err != nil || !more {
		return l, err
	}
	l.Burst, err = units(burst)
	return l, err
}

// meantBy is the rate that --burst is for.
func meantBy(rates []policy.LimitSpec) (*policy.LimitSpec, error) {
	var only *policy.LimitSpec
	tokens := 0
	for i := range rates {
		if rates[i].Kind != policy.LimitRequests {
			tokens++
			only = &rates[i]
		}
	}
	switch {
	case len(rates) == 0:
		return nil, errors.New("--burst: there is no rate beside it: give it as --total-tokens 1M:2M")
	case tokens > 1:
		return nil, errors.New("--burst: there are several rates of tokens: give each its own, as --total-tokens 1M:2M")
	case tokens == 0:
		only = &rates[0]
	}
	if only.Burst != 0 {
		return nil, fmt.Errorf("--burst: %s has a burst already: leave one of them out", only.Kind)
	}
	return only, nil
}
