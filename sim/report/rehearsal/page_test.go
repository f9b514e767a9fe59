package rehearsal

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"anabranch/failover/drill"
)

func pageOf(t *testing.T, r drill.Report) (string, *html.Node) {
	t.Helper()
	b, _ := drill.Encode(r)
	page, err := HTML(b)
	if err != nil {
		t.Fatal(err)
	}
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return string(page), root
}

// words of all elements of a name and a class, "" for any.
func words(root *html.Node, name, class string) []string {
	var out []string
	for d := range root.Descendants() {
		if d.Type != html.ElementNode || d.Data != name || class != "" && !strings.Contains(" "+attribute(d, "class")+" ", " "+class+" ") {
			continue
		}
		var b strings.Builder
		for x := range d.Descendants() {
			if x.Type == html.TextNode {
				b.WriteString(x.Data + " ")
			}
		}
		out = append(out, strings.Join(strings.Fields(b.String()), " "))
	}
	return out
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func TestThePageNeedsNothingElse(t *testing.T) {
	text, root := pageOf(t, drilled())
	for _, outside := range []string{"http://", "https://", "<script", "@import", "url(", "<link", "<img", "<iframe", " style=", " onclick", "javascript:"} {
		if strings.Contains(text, outside) {
			t.Errorf("the page holds %q", outside)
		}
	}
	if len(text) > 600<<10 {
		t.Errorf("the page has %d bytes", len(text))
	}
	ids := map[string]bool{}
	for d := range root.Descendants() {
		if id := attribute(d, "id"); id != "" && ids[id] {
			t.Errorf("the id %q is there twice", id)
		} else if id != "" {
			ids[id] = true
		}
	}
	for d := range root.Descendants() {
		for by := range strings.FieldsSeq(attribute(d, "aria-labelledby")) {
			if !ids[by] {
				t.Errorf("<%s> is labelled by %q, which is not there", d.Data, by)
			}
		}
	}
}

func TestThePageTellsAtAGlance(t *testing.T) {
	r := drilled()
	_, root := pageOf(t, r)
	if got := words(root, "p", "banner"); len(got) != 1 || !strings.HasPrefix(got[0], "SUCCEEDED ") {
		t.Errorf("banner %q", got)
	}
	figures := strings.Join(words(root, "ul", "cards"), "")
	for _, want := range []string{"Requests lost 0 of ", "99 % of traffic away", "us-east-1a, 70 % simulated", "First token, P95, top", "Extra cost $"} {
		if !strings.Contains(figures, want) {
			t.Errorf("the figures lack %q: %s", want, figures)
		}
	}
	if n := len(words(root, "svg", "")); n != 7 {
		t.Errorf("%d charts", n)
	}
	captions := strings.Join(words(root, "caption", ""), "; ")
	for _, want := range []string{"Requests by", "Time to the first", "Places that stayed", "Money", "Earlier runs", "What happened"} {
		if !strings.Contains(captions, want) {
			t.Errorf("no table %q: %s", want, captions)
		}
	}
	b, sum := drill.Encode(r)
	_ = b
	facts := strings.Join(words(root, "dl", ""), "")
	for _, want := range []string{hex.EncodeToString(sum[:]), r.PreviousSHA256, r.PlanSHA256, "Approved by bob", "quarterly exercise"} {
		if !strings.Contains(facts, want) {
			t.Errorf("the evidence lacks %q: %s", want, facts)
		}
	}
	if wrong := strings.Join(words(root, "ul", "wrong"), ""); !strings.Contains(wrong, "us-east-1a peaked at") {
		t.Errorf("wrong: %q", wrong)
	}
}

func TestOutcomesLookAsTheyAre(t *testing.T) {
	for outcome, mood := range map[drill.Outcome]string{
		drill.Succeeded: "good", drill.Failed: "bad", drill.CapacityFailed: "bad", drill.Interrupted: "warn", drill.Blocked: "warn", drill.Expired: "warn",
	} {
		_, root := pageOf(t, drilled(func(in *drill.ReportInput) {
			in.Facts.Outcome, in.Facts.Cause, in.Facts.Reason = outcome, "ttft", "the reason"
		}))
		got := words(root, "p", mood)
		if len(got) != 1 || !strings.HasPrefix(got[0], string(outcome)) {
			t.Errorf("%s: no banner of class %s: %q", outcome, mood, got)
		}
		if outcome != drill.Succeeded && !strings.Contains(got[0], "the reason. Cause: ttft.") {
			t.Errorf("%s does not say why: %q", outcome, got)
		}
	}
}

// TestADrillThatNeverBegan has no samples: the page has neither figures nor charts, and no empty tables.
func TestADrillThatNeverBegan(t *testing.T) {
	_, root := pageOf(t, drill.NewReport(drill.ReportInput{Facts: drill.Facts{ID: 3, Kind: drill.Hard, Outcome: drill.Blocked, Cause: "window", EndedUnixMs: began}}))
	if n := len(words(root, "svg", "")) + len(words(root, "table", "")) + len(words(root, "ul", "cards")) + len(words(root, "ol", "parts")); n != 0 {
		t.Errorf("%d things are drawn of nothing", n)
	}
	if got := words(root, "p", "lead"); len(got) != 1 || !strings.Contains(got[0], "never began") {
		t.Errorf("%q", got)
	}
}

// TestNothingThatPeopleWroteIsMarkup puts markup wherever text of others can be.
func TestNothingThatPeopleWroteIsMarkup(t *testing.T) {
	const evil = `</style><script>alert(1)</script>"'><b id=evil>`
	_, root := pageOf(t, drilled(func(in *drill.ReportInput) {
		f := &in.Facts
		f.Plan, f.Creator, f.Reason, f.Cause, f.Kind, f.Outcome, f.PlanSHA256 = evil, evil, evil, evil, evil, evil, evil
		f.Approvals[0].By, f.Approvals[0].Reason = evil, evil
		f.Broken = &drill.GlassReport{By: evil, Reason: evil}
		f.Resolved.Clusters[0], in.ClusterID, in.PreviousSHA256 = evil, evil, evil
		in.Forecast.Survivors[0].Cluster = evil
		in.Forecast.Stranded = []drill.Stranded{{Tenant: evil, Model: evil, Why: evil}}
		in.Earlier[0].Outcome = evil
		in.Events[0].Text, in.Events[0].Actor, in.Events[0].Kind, in.Events[0].State = evil, evil, evil, evil
		for i := range in.Samples {
			in.Samples[i].Clusters[2].Cluster = evil
			in.Samples[i].Tiers[0].Tier = evil
		}
	}))
	for d := range root.Descendants() {
		if d.Type == html.ElementNode && (d.Data == "script" || attribute(d, "id") == "evil") {
			t.Fatalf("markup came through: <%s>", d.Data)
		}
	}
	if got := words(root, "h1", ""); len(got) != 1 || !strings.Contains(got[0], "<script>") {
		t.Errorf("it is left out rather than escaped: %q", got)
	}
}

func TestLongDrillsAreDrawnWithFewPoints(t *testing.T) {
	r := drilled(func(in *drill.ReportInput) {
		last := in.Samples[len(in.Samples)-1]
		for range 3 * 60 * 60 {
			last.At += 1000
			in.Samples = append(in.Samples, last)
		}
	})
	text, _ := pageOf(t, r)
	if len(text) > 700<<10 {
		t.Errorf("the page has %d bytes", len(text))
	}
}

func TestWhatIsNoReportIsRefused(t *testing.T) {
	for _, b := range []string{"", "{}", "<html>", `{"version":1}`} {
		if _, err := HTML([]byte(b)); err == nil {
			t.Errorf("a page of %q", b)
		}
	}
	var one map[string]any
	b, _ := drill.Encode(drilled())
	if err := json.Unmarshal(b, &one); err != nil {
		t.Fatal(err)
	}
	one["ofALaterVersion"] = true
	later, _ := json.Marshal(one)
	if _, err := HTML(later); err != nil {
		t.Errorf("a field of a later version: %v", err)
	}
}

func TestThePolicyIsThatOfThePage(t *testing.T) {
	text, root := pageOf(t, drilled())
	for d := range root.Descendants() {
		if attribute(d, "http-equiv") == "Content-Security-Policy" {
			if got := attribute(d, "content"); !strings.HasPrefix(Policy(), got+";") || !strings.Contains(got, "default-src 'none'") {
				t.Errorf("page %q, header %q", got, Policy())
			}
			return
		}
	}
	t.Errorf("the page has no policy: %.300s", text)
}
