// Package rehearsal shows the report of a drill as one page that a person can read at a glance, keep as a
// file and open anywhere: no script, nothing from elsewhere, and a policy of its own that forbids both. It
// says nothing that the report does not: package failover/drill decides what that is.
package rehearsal

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html/template"
	"time"

	"anabranch/failover/drill"
	"anabranch/sim/report/chart"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

var (
	pageTemplate = template.Must(template.New("page").Parse(pageText))
	style        = chart.Style() + pageStyle
)

// Policy is the Content-Security-Policy that the page is made for, as a header: its style and nothing else.
// The page holds the same, for where it is opened as a file.
func Policy() string {
	return inner() + "; frame-ancestors 'none'"
}

// inner is the part of the policy that a page may set for itself.
func inner() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
}

// page is what the template shows.
type page struct {
	Policy   string
	Style    template.CSS
	Title    string
	Kind     string
	Lead     string
	Outcome  string
	Mood     string // good | bad | warn
	Verdict  string
	Glass    string
	Cards    []card
	Parts    []part
	Pictures []picture
	Wrong    []string
	Tables   []table
	Facts    []fact
}

// card is a figure that is seen at once.
type card struct{ Name, Figure, Note, Mood string }

// part is one of those that the time of recovery is split into.
type part struct {
	Name, At, Meaning string
	Known             bool
}

type picture struct {
	Heading, Caption string
	SVG              template.HTML
	Wide             bool
}

type fact struct {
	Name, Value string
	Code        bool
}

// HTML is the page of a report, given as the bytes that are kept.
func HTML(report []byte) ([]byte, error) {
	r, err := drill.Decode(report)
	if err != nil {
		return nil, err
	}
	sum, err := drill.Sum(report)
	if err != nil {
		return nil, err
	}
	p := page{
		Policy: inner(), Style: template.CSS(style), //nolint:gosec // it is made of constants
		Title: titleOf(r), Kind: string(r.Kind), Lead: leadOf(r), Outcome: string(r.Outcome), Mood: moodOf(r.Outcome), Verdict: verdictOf(r), Glass: glassOf(r),
		Cards: cardsOf(r), Parts: partsOf(r.Recovery), Pictures: picturesOf(r), Tables: tablesOf(r), Facts: factsOf(r, hex.EncodeToString(sum[:])),
	}
	for _, w := range r.Wrong {
		p.Wrong = append(p.Wrong, w.Text)
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		return nil, fmt.Errorf("write the page of drill %d: %w", r.ID, err)
	}
	return b.Bytes(), nil
}

func titleOf(r drill.Report) string {
	if r.Plan == "" {
		return fmt.Sprintf("Drill %d", r.ID)
	}
	return fmt.Sprintf("Drill %d: %s", r.ID, r.Plan)
}

// at is a time for people, in UTC so that two of them read the same.
func at(unixMs int64) string {
	if unixMs == 0 {
		return unknown
	}
	return time.UnixMilli(unixMs).UTC().Format("2006-01-02 15:04:05 UTC")
}
