package quotas

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// Write writes the proof as Markdown, under a heading of the first level.
func (p *Proof) Write(w io.Writer) error {
	var b bytes.Buffer
	s := Default()
	fmt.Fprintf(&b, "# Global quotas\n\n")
	fmt.Fprintf(&b, `Five regions with round trips of 1, 70, 90, 150 and 210 ms to the quota store and %d routers each; an organisation
of %s tokens and %s requests a second with three tenants, whose own limits are a half and two fifths of that;
requests of %.0f tokens on average (log-normal, σ 1), which come as Poisson streams with bursts of four
times the rate. Every request passes four limits, all or none. B is a limit's burst, r its rate. Excess is the
most that was spent of any limit in any window above r × t + B, in bursts; below 0 is what was always
left. Excess and the longest wait are the worst of %d seeds, the rest are means.

`, s.Regions[0].Routers, count(s.Tokens), count(s.Requests), s.MeanTokens, p.seeds)
	p.goals(&b)
	for _, burst := range Bursts() {
		p.loads(&b, burst)
	}
	p.small(&b)
	p.faults(&b)
	p.rivals(&b)
	b.WriteString("The schemes:\n\n")
	for _, scheme := range Schemes() {
		fmt.Fprintf(&b, "- `%s`: %s\n", scheme, About(scheme))
	}
	b.WriteString("\n")
	_, err := w.Write(b.Bytes())
	return err
}

func (p *Proof) goals(b *bytes.Buffer) {
	b.WriteString("## Goals\n\nOf `leases`, for a burst of a minute and all demands; excess and the longest wait for all cases.\n\n| | | wanted | measured |\n|---|---|---|---|\n")
	for _, g := range p.Goals() {
		sign := "✗"
		if g.Met {
			sign = "✓"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", sign, g.Name, g.Want, g.Measured)
	}
	b.WriteString("\n")
}

func (p *Proof) loads(b *bytes.Buffer, burst time.Duration) {
	fmt.Fprintf(b, "## Schemes, with a burst of %s\n\n", span(burst))
	b.WriteString(`| demand | scheme | excess, B | mean wait, ms | wait > 5 ms | longest, ms | decisions/round trip | messages/decision | of the limit used | worst ÷ best region |
|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|
`)
	for i := range p.Loads {
		c := &p.Loads[i]
		if c.Spec.Burst != burst {
			continue
		}
		trips := "–"
		if c.Scheme != Exact {
			trips = number(c.mean(perTrip), 1)
		}
		fmt.Fprintf(b, "| %g × | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", c.Spec.Demand, c.Scheme,
			signed(c.worst(excess), 2), number(c.mean(waitMs), 2), percent(c.mean(lateShare)), number(c.worst(longestMs), 0),
			trips, number(c.mean(perDecision), 3), percent(c.mean(usedPart)), number(c.mean(fairPart), 2))
	}
	b.WriteString("\n")
}

// small tells of organisations that ask so rarely that a lease is over before the next request comes.
func (p *Proof) small(b *bytes.Buffer) {
	fmt.Fprintf(b, "## Smaller organisations\n\n`leases` with a burst of %s. Whose next request comes when the lease of its path is over has it wait for another one.\n\n", span(Bursts()[0]))
	b.WriteString("| requests/s at a router for a tenant | demand | excess, B | mean wait, ms | wait > 5 ms | decisions/round trip | messages/decision | of the limit used |\n|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for i := range p.Small {
		c := &p.Small[i]
		routers := 0
		for _, r := range c.Spec.Regions {
			routers += r.Routers
		}
		rate := c.mean(func(r *Result) float64 { return float64(r.Decided) }) / c.Spec.Time.Seconds() / float64(routers*len(c.Spec.Tenants))
		fmt.Fprintf(b, "| %s | %g × | %s | %s | %s | %s | %s | %s |\n", number(rate, 2), c.Spec.Demand, signed(c.worst(excess), 2),
			number(c.mean(waitMs), 2), percent(c.mean(lateShare)), number(c.mean(perTrip), 1), number(c.mean(perDecision), 2), percent(c.mean(usedPart)))
	}
	b.WriteString("\n")
}

func (p *Proof) faults(b *bytes.Buffer) {
	fmt.Fprintf(b, "## Faults\n\n`leases` at %d × the limit.\n\n", overload)
	b.WriteString("| fault | bound | burst | bound, B | excess, B | of the limit used | wait > 5 ms | longest, ms |\n|---|---|---|---:|---:|---:|---:|---:|\n")
	half := len(p.Faults) / len(Bursts())
	for i := range half {
		for k := range Bursts() {
			c := &p.Faults[i+k*half]
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", c.Row.Name, c.Row.Text, span(c.Spec.Burst),
				number(c.Row.Bound, 3), signed(c.worst(excess), 3), percent(c.mean(usedPart)), percent(c.mean(lateShare)), number(c.worst(longestMs), 0))
		}
	}
	b.WriteString("\n")
}

// rivals is a row for each fault and a column for each scheme.
func (p *Proof) rivals(b *bytes.Buffer) {
	fmt.Fprintf(b, "## The same faults elsewhere\n\nExcess in bursts of a second, and what was used of the limit, at %d × the limit. A scheme without shares takes `share` for closed.\n\n| fault |", overload)
	var names []string
	for _, c := range p.Rivals {
		if c.Row.Name != p.Rivals[0].Row.Name {
			break
		}
		names = append(names, c.Scheme)
	}
	fmt.Fprintf(b, " %s |\n|---|%s\n", strings.Join(names, " | "), strings.Repeat("---:|", len(names)))
	for i := 0; i < len(p.Rivals); i += len(names) {
		fmt.Fprintf(b, "| %s |", p.Rivals[i].Row.Name)
		for k := range names {
			c := &p.Rivals[i+k]
			fmt.Fprintf(b, " %s, %s |", signed(c.worst(excess), 2), percent(c.mean(usedPart)))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

// number prints with a real minus sign, and none before 0.
func number(x float64, places int) string {
	if math.IsInf(x, 1) {
		return "∞"
	}
	s := strconv.FormatFloat(math.Abs(x), 'f', places, 64)
	if x < 0 && strings.Trim(s, "0.") != "" {
		return "−" + s
	}
	return s
}

// signed is number with a plus sign.
func signed(x float64, places int) string {
	s := number(x, places)
	if x > 0 && strings.Trim(s, "0.") != "" {
		return "+" + s
	}
	return s
}

func percent(x float64) string { return number(100*x, 1) + " %" }

// count prints with commas between thousands.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func span(d time.Duration) string {
	if d == time.Minute {
		return "a minute"
	}
	return number(d.Seconds(), 0) + " s"
}
