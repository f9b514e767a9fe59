package load

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const line = "%-6s %-16s %6s %6s %8s %5s %7s %7s %9s %9s  %s\n"

// Header writes the column names of [Print].
func Header(w io.Writer) error {
	_, err := fmt.Fprintf(w, line, "time", "asked", "rps", "ok", "retried", "429", "failed", "broken",
		"ttft p50", "ttft p95", "served by")
	return err
}

// Print writes a line for each row, all over the same number of seconds.
func Print(w io.Writer, at string, seconds float64, rows []Row) error {
	for _, r := range rows {
		_, err := fmt.Fprintf(w, line, at, r.Region, fmt.Sprintf("%.1f", float64(r.Finished)/max(seconds, 1e-3)),
			strconv.Itoa(r.OK), strconv.Itoa(r.Retried), strconv.Itoa(r.Limited), strconv.Itoa(r.Failed), strconv.Itoa(r.Broken),
			ms(r.TTFTP50Ms), ms(r.TTFTP95Ms), served(r.Served))
		if err != nil {
			return err
		}
	}
	return nil
}

// Print writes the summary for people.
func (s Summary) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d requests in %.0f s\n", s.Total.Finished, s.Seconds)
	_ = Header(&b)                                                            // a builder never fails
	_ = Print(&b, "all", s.Seconds, append(slices.Clone(s.Regions), s.Total)) // same
	if s.Slowest.RequestID != "" {
		fmt.Fprintf(&b, "slowest first content: %.0f ms   (anabranch explain %s)\n", s.Slowest.TTFTMs, s.Slowest.RequestID)
	}
	if s.Skipped > 0 {
		fmt.Fprintf(&b, "%d not sent: %d were in flight already\n", s.Skipped, MaxInFlight)
	}
	for i, r := range s.Reasons {
		if i == 0 {
			b.WriteString("what went wrong:\n")
		}
		fmt.Fprintf(&b, "  %d × %s", r.Count, r.Text)
		if r.Example != "" {
			fmt.Fprintf(&b, "   (anabranch explain %s)", r.Example)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func ms(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f ms", v)
}

// served writes shares, the largest first: "us-east-1 90% eu-west-1 10%".
func served(by map[string]int) string {
	var sum int
	for _, n := range by {
		sum += n
	}
	if sum == 0 {
		return "-"
	}
	regions := slices.Sorted(maps.Keys(by))
	slices.SortStableFunc(regions, func(a, b string) int { return cmp.Compare(by[b], by[a]) })
	for i, r := range regions {
		regions[i] = fmt.Sprintf("%s %.0f%%", r, 100*float64(by[r])/float64(sum))
	}
	return strings.Join(regions, " ")
}
