package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// record is what of a router's record of a request is shown to people. Fields that this program does
// not know are left out, and those that the router does not are empty.
type record struct {
	ID           string      `json:"id"`
	ClientID     string      `json:"clientId"`
	At           time.Time   `json:"at"`
	Region       string      `json:"region"`
	Path         string      `json:"path"`
	Tenant       string      `json:"tenant"`
	Asked        string      `json:"asked"`
	Model        string      `json:"model"`
	Adapter      string      `json:"adapter"`
	Class        string      `json:"class"`
	Policy       string      `json:"policy"`
	Arm          string      `json:"arm"`
	Priority     int         `json:"priority"`
	Stream       bool        `json:"stream"`
	Hop          bool        `json:"hop"`
	Epoch        uint64      `json:"epoch"`
	Revision     uint64      `json:"revision"`
	Sight        string      `json:"sight"`
	PromptTokens int64       `json:"promptTokens"`
	Candidates   []candidate `json:"candidates"`
	Removed      []removal   `json:"removed"`
	Shed         string      `json:"shed"`
	Brownout     string      `json:"brownout"`
	Drill        string      `json:"drill"`
	QueuedMs     float64     `json:"queuedMs"`
	Attempts     []attempt   `json:"attempts"`
	Status       int         `json:"status"`
	Code         string      `json:"code"`
	Quota        *deniedBy   `json:"quota"`
	Broken       bool        `json:"broken"`
	ClientGone   bool        `json:"clientGone"`
	Usage        struct {
		Prompt     int64 `json:"promptTokens"`
		Cached     int64 `json:"cachedTokens"`
		Completion int64 `json:"completionTokens"`
	} `json:"usage"`
	FirstByteMs float64 `json:"firstByteMs"`
	TotalMs     float64 `json:"totalMs"`
}

// deniedBy is the limit that refused a request.
type deniedBy struct {
	Limit    string `json:"limit"`
	Reason   string `json:"reason"`
	Message  string `json:"message"`
	Degraded bool   `json:"degraded"`
}

// candidate is a cluster that could have served.
type candidate struct {
	Cluster     string  `json:"cluster"`
	Region      string  `json:"region"`
	Weight      float64 `json:"weight"`
	Reason      string  `json:"reason"`
	Saturation  float64 `json:"saturation"`
	WaitMs      float64 `json:"waitMs"`
	PrefillMs   float64 `json:"prefillMs"`
	RTTMs       float64 `json:"rttMs"`
	Busy        bool    `json:"busy"`
	SignalAgeMs int64   `json:"signalAgeMs"`
}

// removal is a cluster that could not.
type removal struct {
	Cluster string `json:"cluster"`
	Reason  string `json:"reason"`
}

// attempt is one way on which it was tried.
type attempt struct {
	Cluster     string    `json:"cluster"`
	Region      string    `json:"region"`
	Endpoint    string    `json:"endpoint"`
	Kind        string    `json:"kind"`
	Among       int       `json:"among"`
	Why         string    `json:"why"`
	PredictedMs float64   `json:"predictedMs"`
	Expected    *expected `json:"expected"`
	RunnerUp    string    `json:"runnerUp"`
	RunnerUpMs  float64   `json:"runnerUpMs"`
	Skipped     []skip    `json:"skipped"`
	Reconnected bool      `json:"reconnected"`
	Status      int       `json:"status"`
	Code        string    `json:"code"`
	FirstByteMs float64   `json:"firstByteMs"`
	TookMs      float64   `json:"tookMs"`
}

// expected is what a prediction consists of.
type expected struct {
	WaitMs       float64 `json:"waitMs"`
	PrefillMs    float64 `json:"prefillMs"`
	AdapterMs    float64 `json:"adapterMs"`
	KVMs         float64 `json:"kvMs"`
	CachedTokens int64   `json:"cachedTokens"`
	Waiting      float64 `json:"waiting"`
	Running      float64 `json:"running"`
	SignalAgeMs  int64   `json:"signalAgeMs"`
	Adapter      string  `json:"adapter"`
}

// skip is an endpoint that was no candidate.
type skip struct {
	Endpoint string `json:"endpoint"`
	Reason   string `json:"reason"`
}

// printRecord tells the story of a request from top to bottom.
func (a *app) printRecord(raw json.RawMessage) (*record, error) {
	var r record
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("read record: %w; -o json shows it as it came", err)
	}
	if err := a.printf("%s", r.head()); err != nil {
		return nil, err
	}
	if err := a.printClusters(&r); err != nil {
		return nil, err
	}
	return &r, a.printAttempts(&r)
}

// head is what was asked, by which rules, and how it ended.
func (r *record) head() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("request", "%s", join(", ", r.ID, when(r.ClientID != "" && r.ClientID != r.ID, "called "+r.ClientID+" by its client")))
	line("at", "%s, router of %s%s, table %d/%d%s", r.At.UTC().Format("2006-01-02 15:04:05.000 UTC"), r.Region,
		when(r.Hop, ", for another region's"), r.Epoch, r.Revision, prefixed(", sight ", r.Sight, ""))
	model := r.Asked
	if r.Model != "" && r.Model != r.Asked && r.Adapter != r.Asked {
		model += " (served as " + cmp.Or(r.Adapter, r.Model) + ")"
	}
	line("asked", "%s", join(", ", r.Path, dash(model), when(r.Stream, "streamed"), when(r.PromptTokens > 0, fmt.Sprintf("about %d tokens", r.PromptTokens))))
	line("tenant", "%s, priority %d", dash(r.Tenant), r.Priority)
	line("policy", "%s", join(", ", dash(r.Policy), prefixed("arm ", r.Arm, ""), prefixed("class ", r.Class, "")))
	if r.Shed != "" {
		line("shed", "%s", r.Shed)
	}
	if r.Brownout != "" {
		line("brownout", "%s", r.Brownout)
	}
	if r.Drill != "" {
		line("drill", "%s", r.Drill)
	}
	if r.QueuedMs > 0 {
		line("queue", "waited %s for room", ms(r.QueuedMs))
	}
	first := when(r.FirstByteMs > 0 && r.Stream, "first content after "+ms(r.FirstByteMs))
	line("ended", "%s", join(", ", fmt.Sprintf("%d%s after %s", r.Status, prefixed(" ", r.Code, ""), ms(r.TotalMs)), first,
		when(r.Broken, "broken off"), when(r.ClientGone, "its client had left")))
	if q := r.Quota; q != nil {
		name, _, _ := strings.Cut(q.Limit, "/")
		line("quota", "%s refused it (%s)%s; `anabranch quota show %s` tells how it stands", q.Limit, q.Reason, when(q.Degraded, ", while its quota store was away"), name)
		line("told", "%s", q.Message)
	}
	if u := r.Usage; u.Prompt+u.Completion > 0 {
		line("used", "%d tokens in (%d from cache), %d out", u.Prompt, u.Cached, u.Completion)
	}
	return b.String() + "\n"
}

// printClusters shows the candidates in the order of trying, then what removed the others.
func (a *app) printClusters(r *record) error {
	if len(r.Candidates)+len(r.Removed) == 0 {
		return a.printf("no cluster was looked at\n")
	}
	rows := make([][]string, 0, len(r.Candidates)+len(r.Removed))
	for i, c := range r.Candidates {
		load := dash(when(c.Saturation > 0, fmt.Sprintf("%.0f%%", 100*c.Saturation)))
		rows = append(rows, []string{
			strconv.Itoa(i + 1), c.Cluster, c.Region, fmt.Sprintf("%.3g", c.Weight), join(", ", load, when(c.Busy, "busy")),
			some(c.WaitMs), some(c.PrefillMs), some(c.RTTMs), age(c.SignalAgeMs), c.Reason,
		})
	}
	for _, x := range r.Removed {
		rows = append(rows, []string{"-", x.Cluster, "-", "-", "-", "-", "-", "-", "-", "removed: " + x.Reason})
	}
	return a.table([]string{"", "CLUSTER", "REGION", "WEIGHT", "LOAD", "WAIT", "PREFILL", "RTT", "SIGNALS", "WHY"}, rows)
}

// printAttempts shows each attempt with what was expected of it and what came, then what the
// expectations consist of.
func (a *app) printAttempts(r *record) error {
	if len(r.Attempts) == 0 {
		return a.printf("\nno attempt was made\n")
	}
	rows := make([][]string, 0, len(r.Attempts))
	var notes strings.Builder
	for i, t := range r.Attempts {
		first := some(t.FirstByteMs)
		if !r.Stream && t.FirstByteMs > 0 {
			first += " (whole)"
		}
		rows = append(rows, []string{
			fmt.Sprintf("%d %s", i+1, t.Kind), place(&t), some(t.PredictedMs), first, ms(t.TookMs),
			join(" ", when(t.Status > 0, strconv.Itoa(t.Status)), t.Code), why(&t),
		})
		notes.WriteString(note(i+1, &t))
	}
	if err := a.printf("\n"); err != nil {
		return err
	}
	if err := a.table([]string{"ATTEMPT", "PLACE", "EXPECTED", "CAME", "TOOK", "RESULT", "WHY"}, rows); err != nil {
		return err
	}
	if notes.Len() == 0 {
		return nil
	}
	return a.printf("\n%s", &notes)
}

func place(t *attempt) string {
	if t.Endpoint == "" {
		return t.Cluster
	}
	return t.Cluster + "/" + t.Endpoint
}

// why says how the choice of the place fell.
func why(t *attempt) string {
	if t.Why == "hop" {
		return "by way of " + t.Region + "'s router"
	}
	next := ""
	if t.RunnerUp != "" {
		next = fmt.Sprintf("next %s %s", t.RunnerUp, ms(t.RunnerUpMs))
	}
	return join(", ", t.Why+when(t.Among > 0, fmt.Sprintf(" of %d", t.Among)), next)
}

// note says what the expectation of an attempt consists of, and which endpoints were none of its
// candidates.
func note(number int, t *attempt) string {
	var b strings.Builder
	if e := t.Expected; e != nil {
		fmt.Fprintf(&b, "%d expected %s\n", number, join(", ",
			"wait "+ms(e.WaitMs), "prefill "+ms(e.PrefillMs)+when(e.CachedTokens > 0, fmt.Sprintf(" with %d tokens cached", e.CachedTokens)),
			when(e.AdapterMs > 0 || e.Adapter != "", "adapter "+ms(e.AdapterMs)+prefixed(" (", e.Adapter, ")")),
			when(e.KVMs > 0, "KV pressure "+ms(e.KVMs)),
			fmt.Sprintf("from %.3g waiting and %.3g running", e.Waiting, e.Running), "signals "+age(e.SignalAgeMs)))
	}
	if t.Reconnected {
		fmt.Fprintf(&b, "%d sent again on a fresh connection: the place had closed the one it was sent on\n", number)
	}
	for _, s := range t.Skipped {
		fmt.Fprintf(&b, "%d skipped %s: %s\n", number, s.Endpoint, s.Reason)
	}
	return b.String()
}

// ms writes milliseconds as people read them.
func ms(x float64) string {
	switch {
	case x >= 1000:
		return fmt.Sprintf("%.2f s", x/1000)
	case x >= 100 || x == 0:
		return fmt.Sprintf("%.0f ms", x)
	}
	return fmt.Sprintf("%.3g ms", x)
}

// some is ms, with a dash for what is not known.
func some(x float64) string { return dash(when(x > 0, ms(x))) }

// age is how old signals are; below 0 there are none.
func age(x int64) string {
	if x < 0 {
		return "none"
	}
	return ms(float64(x)) + " old"
}

func when(ok bool, text string) string {
	if ok {
		return text
	}
	return ""
}

// prefixed is the text between two others, or nothing if it is empty.
func prefixed(before, text, after string) string { return when(text != "", before+text+after) }

// join joins what is not empty.
func join(by string, parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, by)
}
