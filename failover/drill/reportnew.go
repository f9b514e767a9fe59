package drill

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
)

// NewReport tells of a drill that is over. It is a pure function: the same input makes the same report.
func NewReport(in ReportInput) Report {
	r := Report{
		Version: ReportVersion, ClusterID: in.ClusterID, Facts: in.Facts, PreviousSHA256: in.PreviousSHA256,
		Forecast: in.Forecast, Events: slices.Clone(in.Events), Earlier: earlierOf(in),
	}
	if !json.Valid(r.Spec) {
		r.Spec = nil
	}
	if _, err := json.Marshal(r.Forecast); err != nil { // a figure is no number
		r.Forecast = nil
	}
	r.TimeScale = round4(r.TimeScale)
	before, during, after := phasesOf(in.Samples)
	r.Before, r.During, r.After = phaseOf(before), phaseOf(during), phaseOf(after)
	r.Recovery = recoveryOf(in.Facts.Kind, in.Samples, in.Events)
	r.Survivors = survivorsOf(before, during, r.Forecast)
	r.Streams = streamsOf(in.Samples, r.Recovery.FromUnixMs)
	r.Money = moneyOf(before, during, after)
	r.Wrong = deviationsOf(r)
	for _, e := range in.Events {
		if e.Kind == OfSignal {
			r.Aborts = append(r.Aborts, e)
		}
	}
	r.Timeline = fitting(r, in.Samples)
	return r
}

// Head is what later reports tell of this one.
func (r Report) Head() Head {
	_, sum := Encode(r)
	h := Head{
		ID: r.ID, EndedUnixMs: r.EndedUnixMs, Outcome: r.Outcome, Cause: r.Cause, SHA256: hex.EncodeToString(sum[:]),
		NinetyNineMs: r.Recovery.NinetyNineMs, Total: r.During.All.Total, Lost: r.During.All.Lost, Broken: r.During.All.Broken,
		PeakSaturation: r.During.PeakSaturation, Extra: r.Money.Extra,
	}
	if top := r.During.topTTFT(); top != nil {
		h.TopTTFTP95Ms = top.P95
	}
	return h
}

// topTTFT is of the highest tier that had first tokens; nil: none had.
func (p Phase) topTTFT() *Quantiles {
	for _, t := range p.Tiers {
		if t.TTFT != nil {
			return t.TTFT
		}
	}
	return nil
}

// earlierOf are the last runs before this one, the last first.
func earlierOf(in ReportInput) []Head {
	var out []Head
	for _, h := range in.Earlier {
		if h.ID != in.Facts.ID {
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(a, b Head) int { return cmp.Compare(b.ID, a.ID) })
	return out[:min(len(out), MaxEarlier)]
}

// streamsOf counts what was being streamed from drilled clusters when all was ordered away, and when
// traffic began to come back.
func streamsOf(samples []Sample, from int64) StreamsReport {
	var out StreamsReport
	shifted := false
	for _, s := range samples {
		if from == 0 || s.At < from {
			continue
		}
		if !shifted {
			out.AtShift, shifted = s.StreamsLeft, true
		}
		if !slices.Contains([]State{Shifting, Dwell, Hold, Paused}, s.State) {
			break
		}
		out.Left = s.StreamsLeft
	}
	return out
}

// moneyOf compares what the phases cost. Seconds without a figure are left out.
func moneyOf(before, during, after []Sample) MoneyReport {
	out := MoneyReport{BeforePerMinute: rateOf(before), DuringPerMinute: rateOf(during), AfterPerMinute: rateOf(after)}
	if out.BeforePerMinute == nil || out.DuringPerMinute == nil {
		return out
	}
	extra := 0.0
	for _, s := range during {
		if s.MicrosPerMinute > 0 {
			extra += float64(s.MicrosPerMinute-*out.BeforePerMinute) / 60
		}
	}
	rounded := int64(math.Round(extra))
	out.Extra = &rounded
	return out
}

// rateOf is the mean cost per minute; nil: no sample tells one.
func rateOf(samples []Sample) *int64 {
	sum, n := 0.0, 0
	for _, s := range samples {
		if s.MicrosPerMinute > 0 {
			sum, n = sum+float64(s.MicrosPerMinute), n+1
		}
	}
	if n == 0 {
		return nil
	}
	mean := int64(math.Round(sum / float64(n)))
	return &mean
}
