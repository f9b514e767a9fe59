package rehearsal

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"anabranch/failover/drill"
)

const (
	unknown = "–"
	minus   = "−"
)

// whole prints a count with commas between thousands.
func whole(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = minus, s[1:]
	}
	var b strings.Builder
	for i, d := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 0, 64) + " %" }

func percentOf(share *float64) string {
	if share == nil {
		return unknown
	}
	return percent(*share)
}

// span prints ms in the unit that leaves about three digits.
func span(ms float64) string {
	switch {
	case ms < 1000:
		return strconv.FormatFloat(ms, 'f', 0, 64) + " ms"
	case ms < 100_000:
		return strconv.FormatFloat(ms/1000, 'f', 1, 64) + " s"
	}
	return time.Duration(ms * float64(time.Millisecond)).Round(time.Second).String()
}

func spanOf(ms *int64) string {
	if ms == nil {
		return unknown
	}
	return span(float64(*ms))
}

// money prints micro-dollars.
func money(micros int64) string {
	sign := ""
	if micros < 0 {
		sign = minus
	}
	usd := math.Abs(float64(micros)) / 1e6
	places := 2
	if usd < 1 && usd != 0 {
		places = 4
	}
	return sign + "$" + strconv.FormatFloat(usd, 'f', places, 64)
}

func moneyOf(micros *int64) string {
	if micros == nil {
		return unknown
	}
	return money(*micros)
}

// moodOf says how an outcome is to look.
func moodOf(o drill.Outcome) string {
	switch o {
	case drill.Succeeded:
		return "good"
	case drill.Failed, drill.CapacityFailed:
		return "bad"
	case drill.Interrupted, drill.Blocked, drill.Expired:
	}
	return "warn"
}

// leadOf says what was drilled, when.
func leadOf(r drill.Report) string {
	var places []string
	for _, c := range r.Resolved.Clusters {
		places = append(places, string(c))
	}
	what := "A " + string(r.Kind) + " drill"
	if len(places) > 0 {
		what += " of " + list(places, 4)
	}
	if r.StartedUnixMs == 0 {
		return what + " that never began; it ended " + at(r.EndedUnixMs) + "."
	}
	took := time.Duration(r.EndedUnixMs-r.StartedUnixMs) * time.Millisecond
	text := fmt.Sprintf("%s from %s on, for %s.", what, at(r.StartedUnixMs), took.Round(time.Second))
	if r.TimeScale > 0 && r.TimeScale < 1 {
		text += fmt.Sprintf(" It was a test: its stages were cut to %g of their length.", r.TimeScale)
	}
	return text
}

// list joins the first n names.
func list(names []string, n int) string {
	if len(names) > n {
		return strings.Join(names[:n], ", ") + fmt.Sprintf(" and %d more", len(names)-n)
	}
	return strings.Join(names, ", ")
}

// verdictOf is the outcome in a sentence.
func verdictOf(r drill.Report) string {
	text := map[drill.Outcome]string{
		drill.Succeeded:      "Traffic left, stayed away and came back as planned.",
		drill.Failed:         "It went beyond what the plan allows and was rolled back.",
		drill.Interrupted:    "It was ended before its time.",
		drill.CapacityFailed: "It did not begin: the places that stay would have been overloaded.",
		drill.Blocked:        "It did not begin: a rule is in its way.",
		drill.Expired:        "It did not begin: nobody approved or started it in time.",
	}[r.Outcome]
	if r.Outcome == drill.Succeeded {
		return text
	}
	if r.Reason != "" {
		text += " " + strings.TrimSuffix(r.Reason, ".") + "."
	}
	if r.Cause != "" {
		text += " Cause: " + r.Cause + "."
	}
	return strings.TrimSpace(text)
}

func glassOf(r drill.Report) string {
	if r.Broken == nil {
		return ""
	}
	return fmt.Sprintf("%s began it without approval: %s", r.Broken.By, r.Broken.Reason)
}

// cardsOf are the figures that a person looks for first.
func cardsOf(r drill.Report) []card {
	if r.During.Seconds == 0 {
		return nil
	}
	all := r.During.All
	cards := []card{
		{Name: "99 % of traffic away", Figure: spanOf(r.Recovery.NinetyNineMs), Note: "after all was ordered away"},
		{Name: "Requests lost", Figure: whole(all.Lost), Note: "of " + whole(all.Total), Mood: bad(all.Lost > 0)},
		{Name: "Ended mid-stream", Figure: whole(all.Broken), Note: "of " + whole(all.Total), Mood: bad(all.Broken > 0)},
	}
	peak := card{Name: "Peak of a survivor", Figure: percent(r.During.PeakSaturation), Note: string(r.During.PeakCluster), Mood: bad(r.During.PeakSaturation > 1)}
	for _, s := range r.Survivors {
		if s.Cluster == r.During.PeakCluster && s.Simulated != nil {
			peak.Note += ", " + percent(*s.Simulated) + " simulated"
		}
	}
	cards = append(cards, peak)
	for i, t := range r.During.Tiers {
		if t.TTFT == nil {
			continue
		}
		c := card{Name: "First token, P95, " + t.Tier, Figure: span(t.TTFT.P95), Note: "nothing to compare with"}
		if before := tierOf(r.Before, t.Tier); before.TTFT != nil {
			c.Note = span(before.TTFT.P95) + " before"
		}
		cards = append(cards, c)
		if i == 0 {
			break
		}
	}
	return append(cards, card{Name: "Extra cost", Figure: moneyOf(r.Money.Extra), Note: "for the time of the shift"})
}

func bad(yes bool) string {
	if yes {
		return "bad"
	}
	return ""
}

func tierOf(p drill.Phase, tier string) drill.TierReport {
	for _, t := range p.Tiers {
		if t.Tier == tier {
			return t
		}
	}
	return drill.TierReport{Tier: tier}
}

// partsOf splits the time of recovery.
func partsOf(r drill.Recovery) []part {
	if r.FromUnixMs == 0 {
		return nil
	}
	var out []part
	for _, p := range []struct {
		name    string
		ms      *int64
		meaning string
	}{
		{"Detect", r.DetectMs, "the first router left on its own evidence"},
		{"Decide", r.DecideMs, "the control plane took the places out"},
		{"Propagate", r.PropagateMs, "99 % of routers obeyed"},
		{"50 % away", r.HalfMs, "half of what was to leave had left"},
		{"99 % away", r.NinetyNineMs, "all but a hundredth had left"},
	} {
		out = append(out, part{Name: p.name, At: spanOf(p.ms), Meaning: p.meaning, Known: p.ms != nil})
	}
	return out
}

// factsOf are what proves whose report this is.
func factsOf(r drill.Report, sum string) []fact {
	facts := []fact{
		{Name: "SHA-256 of this report", Value: sum, Code: true},
		{Name: "SHA-256 of the report before", Value: orUnknown(r.PreviousSHA256), Code: true},
		{Name: "SHA-256 of the plan approved", Value: orUnknown(r.PlanSHA256), Code: true},
		{Name: "Control plane", Value: r.ClusterID, Code: true},
		{Name: "Made by", Value: orUnknown(r.Creator)},
	}
	for _, a := range r.Approvals {
		text := a.By + ", " + at(a.AtUnixMs)
		if a.Reason != "" {
			text += ": " + a.Reason
		}
		facts = append(facts, fact{Name: "Approved by", Value: text})
	}
	return append(facts, fact{Name: "Began", Value: at(r.StartedUnixMs)}, fact{Name: "Ended", Value: at(r.EndedUnixMs)})
}

func orUnknown(s string) string {
	if s == "" {
		return unknown
	}
	return s
}
