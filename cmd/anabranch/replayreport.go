package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"anabranch/dataplane/queue"
	"anabranch/sim/replay"
	"anabranch/sim/report"
	"anabranch/sim/report/stat"
	"anabranch/sim/world"
)

// sent is a replay that is over.
type sent struct {
	work    *replayWork
	flags   *replayFlags
	records []replay.Record
	summary replay.Summary
}

// report is what came of it.
func (s *sent) report() *report.Report {
	requests, objectives := []report.Request{}, map[string]report.Objective{}
	warmup, cut := 0, 0
	for i := range s.records {
		r := &s.records[i]
		switch {
		case r.Code == replay.CodeCanceled:
			cut++
			continue
		case r.Request.At < s.work.warmup:
			warmup++
			continue
		}
		q := s.request(r)
		requests = append(requests, q)
		objectives[q.Model] = s.objective(q.Model)
	}
	f := report.FromReplay(requests, report.Replay{
		Name: s.flags.name, Seed: s.flags.trace.Seed, Objectives: objectives, MicroUSDPerHour: int64(s.flags.price * 1e6),
	})
	// Where tenants may be served is not known here.
	f.Rules.Violations = stat.Unknown
	out := report.New("Replay of "+s.work.name, []report.Figures{f})
	out.Real, out.Ours, out.Command = true, s.flags.name, commandLine(os.Args)
	out.About = []string{s.workload(), s.codes()}
	if s.work.unlisted != "" {
		out.About = append(out.About, s.work.unlisted)
	}
	if warmup > 0 {
		out.About = append(out.About, fmt.Sprintf("Not in the figures: requests of the warm-up of %v, which are %d.", s.work.warmup, warmup))
	}
	if cut > 0 {
		out.About = append(out.About, fmt.Sprintf("Not in the figures: requests that were cut off when sending was stopped, which are %d.", cut))
	}
	out.About = append(out.About, s.onTime())
	if text := s.caches(); text != "" {
		out.About = append(out.About, text)
	}
	return out
}

// objective of a model; its zero fields are the report's to fill in.
func (s *sent) objective(model string) report.Objective {
	own := s.work.objectives[model]
	return report.Objective{
		FirstToken: cmp.Or(s.flags.firstToken, own.FirstToken, 2*time.Second),
		InterToken: cmp.Or(s.flags.interToken, own.InterToken, 100*time.Millisecond),
	}
}

// request is a record as reports count it.
func (s *sent) request(r *replay.Record) report.Request {
	q := report.Request{
		At: r.Due, First: r.First, Last: r.Ended,
		Prompt: cmp.Or(r.PromptTokens, r.Request.PromptTokens), Output: r.OutputTokens, Cached: r.CachedTokens,
		Attempts: r.Attempts, End: endOf(r),
		Region: string(r.Request.Region), Cluster: string(r.Cluster), Endpoint: string(r.Endpoint), Served: string(r.Region),
		Model: cmp.Or(string(r.Request.Model), string(s.flags.options.Model)), Tenant: string(r.Request.Tenant),
	}
	if r.OK() {
		// An answer of nothing has its first and its last token when it is over.
		q.First, q.Last = cmp.Or(r.First, r.Ended), cmp.Or(r.Last, r.Ended)
	}
	return q
}

// makeFolder makes the folder for reports: before they are made, so that a long run isn't lost to a
// folder that can't be written. Out empty: it does nothing.
func makeFolder(out string) error {
	if out == "" {
		return nil
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}

// writeReport writes a report in all formats into a folder, under a name. Out empty: it does nothing.
func writeReport(out, name string, r *report.Report) error {
	if err := makeFolder(out); out == "" || err != nil {
		return err
	}
	for ext, write := range map[string]func(io.Writer) error{
		"txt":  func(w io.Writer) error { return r.Text(w, report.Options{}) },
		"md":   func(w io.Writer) error { return r.Markdown(w, report.Options{}) },
		"csv":  r.CSV,
		"json": r.WriteJSON,
		"html": func(w io.Writer) error { return r.HTML(w, report.Options{}) },
	} {
		if err := writeFile(filepath.Join(out, name+"."+ext), write); err != nil {
			return err
		}
	}
	return nil
}

// denials are the codes of a 429 that tell of a tenant's limit: of Anabranch's routers and of OpenAI.
var denials = []string{"rate_limit_exceeded", "request_exceeds_quota", "insufficient_quota"}

// full are the codes of a 503 that tell of a want of room; others tell of what is dead or not allowed.
var full = []string{queue.CodeNoCapacity, queue.CodeQueueFull, queue.CodeShed, "router_busy", "status_503"}

// endOf is how a record ended, in the words of reports.
func endOf(r *replay.Record) world.End {
	switch {
	case r.OK():
		return world.OK
	case r.First > 0:
		return world.Cut
	case r.Code == replay.CodeTimeout:
		return world.GaveUp
	case r.Status == http.StatusTooManyRequests && slices.Contains(denials, r.Code):
		return world.Denied
	case r.Status == http.StatusTooManyRequests, r.Status == http.StatusServiceUnavailable && slices.Contains(full, r.Code):
		return world.Shed
	}
	return world.Failed
}

// workload says in words what was sent.
func (s *sent) workload() string {
	st := s.work.stats
	text := fmt.Sprintf("Sent: %d requests", s.summary.Sent)
	if n := s.work.total(); n > s.summary.Sent {
		text += fmt.Sprintf(" of %d", n)
	}
	text += fmt.Sprintf(" in %v", s.summary.Span.Round(time.Millisecond))
	if speed := s.flags.options.Speedup; speed != 1 {
		text += fmt.Sprintf(", %v times as fast as they came", speed)
	}
	text += fmt.Sprintf(". Prompts of the workload have %.0f tokens in the mean, answers up to %.0f", st.Prompt.Mean, st.Output.Mean)
	if st.Hit > 0 {
		text += fmt.Sprintf("; %.1f %% of prompt tokens were sent before, which no cache can exceed", 100*st.Hit)
	}
	return text + "."
}

// codes says in words how often requests ended how.
func (s *sent) codes() string {
	counts := map[string]int{}
	whole := 0
	for i := range s.records {
		r := &s.records[i]
		if r.OK() {
			whole++
			continue
		}
		code, status := r.Code, strconv.Itoa(r.Status)
		switch {
		case code == status || code == "status_"+status:
			code = status // vLLM's codes are those of HTTP
		case r.Status != 0 && r.Status != http.StatusOK:
			code = status + " " + code
		}
		counts[code]++
	}
	texts := []string{fmt.Sprintf("%d were answered whole", whole)}
	codes := make([]string, 0, len(counts))
	for code := range counts {
		codes = append(codes, code)
	}
	slices.SortFunc(codes, func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	for _, code := range codes {
		texts = append(texts, fmt.Sprintf("%d × %s", counts[code], code))
	}
	return fmt.Sprintf("Of %d requests %s.", len(s.records), strings.Join(texts, ", "))
}

// onTime says in words whether the load was the workload's.
func (s *sent) onTime() string {
	t := s.summary
	late := fmt.Sprintf("on average %v after they were due, at most %v", t.MeanLate.Round(10*time.Microsecond), t.MaxLate.Round(10*time.Microsecond))
	switch {
	case t.Held > 0:
		return fmt.Sprintf("The load was not the workload's: %d requests were held back because %d were on their way (--in-flight); requests were sent %s. "+
			"Latencies count from when each was due.", t.Held, s.flags.options.InFlight, late)
	case t.Late*100 > t.Sent:
		return fmt.Sprintf("The load was not quite the workload's: %d of %d requests were sent more than %v late, %s: this machine is too slow or busy. "+
			"Latencies count from when each was due.", t.Late, t.Sent, replay.LateBy, late)
	}
	return fmt.Sprintf("The load was the workload's: requests were sent %s; at most %d were on their way at once.", late, t.MostInFlight)
}

// caches says in words what a hit rate of 0 may mean. Empty: caches found something.
func (s *sent) caches() string {
	for i := range s.records {
		if s.records[i].CachedTokens > 0 {
			return ""
		}
	}
	if s.work.stats.Hit == 0 || s.summary.OK == 0 {
		return ""
	}
	return "No answer told of cached tokens: the target's caches found nothing, or it does not tell."
}
