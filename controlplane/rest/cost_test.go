package rest

import (
	"bytes"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"anabranch/controlplane/access"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
	"anabranch/costmodel/focus/focustest"
)

// billed is a node at noon with an account of two minutes, half an hour apart:
//   - 11:00, a cluster in us for $0.60, half of it idle: acme used 30 % and globex 20 %, and acme's answers went to eu;
//     a cluster in eu whose price is not known.
//   - 11:30, globex alone, at an estimate.
func billed(t *testing.T) *double {
	t.Helper()
	d := newDouble(t)
	d.order(&statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: state.Format}})
	d.seed("Region us {}", "Region eu {}", "Tenant globex {}")
	d.do("operator", "POST", "/v1/tenants", "apiVersion: anabranch/v1\nkind: Tenant\nmetadata: {name: acme, labels: {cost-centre: '4711'}}\nspec: {}\n", yaml).want(201, "")
	first, second := epoch.Add(-time.Hour).Unix(), epoch.Add(-30*time.Minute).Unix()
	line := func(tenant, cluster, region, source string, work int64) *statepb.CountedLine {
		return &statepb.CountedLine{
			Tenant: tenant, Model: "m", Class: "interactive", Cluster: cluster, Region: region, Source: source,
			Input: work, Output: work / 2, Succeeded: work / 100, Failed: 1, Work: work,
		}
	}
	sent := line("acme", "us-a", "us", "eu", 300)
	sent.Bytes, sent.EgressMicros = 2_000_000, 40
	bill := func(cluster, region string, cost int64) *statepb.ClusterBill {
		return &statepb.ClusterBill{Cluster: cluster, Region: region, CostMicros: cost, CarbonMicros: 1000, Capacity: 1000}
	}
	free, guessed := bill("eu-a", "eu", 0), bill("us-a", "us", 600_000)
	free.Unpriced, free.CarbonMicros, guessed.Estimate = true, 0, true
	closing := func(at int64, bills ...*statepb.ClusterBill) {
		d.money(&statepb.Command{Op: &statepb.Command_CloseMinutes{CloseMinutes: &statepb.CloseMinutes{Minutes: []*statepb.MinuteBills{{MinuteUnixS: at, Bills: bills}}}}})
	}
	closing(first, bill("us-a", "us", 600_000), free)
	d.money(&statepb.Command{Op: &statepb.Command_CountUsage{CountUsage: &statepb.CountUsage{
		Runs: []*statepb.UsageRun{{Run: "r/1", Sequence: 1}},
		Minutes: []*statepb.CountedMinute{
			{MinuteUnixS: first, Lines: []*statepb.CountedLine{sent, line("globex", "us-a", "us", "us", 200), line("globex", "eu-a", "eu", "eu", 100)}},
			{MinuteUnixS: second, Lines: []*statepb.CountedLine{line("globex", "us-a", "us", "us", 1000)}},
		},
	}}})
	closing(second, guessed)
	return d
}

// money applies a command of the account.
func (d *double) money(cmd *statepb.Command) {
	d.t.Helper()
	cmd.Format, cmd.AtUnixMs, cmd.Actor = state.Format, epoch.UnixMilli(), &statepb.Actor{Name: "test"}
	if out := d.apply(cmd); out.GetCode() != "" {
		d.t.Fatalf("%v: %v", cmd, out)
	}
}

// costsOf asks as somebody.
func (d *double) costsOf(who, query string) (c Costs) {
	d.t.Helper()
	d.do(who, "GET", "/v1/costs"+query, "").want(200, "").into(&c)
	return c
}

// bills writes rows as "key paid work+idle+egress".
func bills(c Costs) string {
	var all []string
	for _, r := range c.Rows {
		key := strings.Join(strings.Fields(fmt.Sprint(r.Tenant, " ", r.Model, " ", r.Cluster, " ", r.Region, " ", r.Source)), "/")
		if r.Merged > 0 {
			key = fmt.Sprintf("+%d", r.Merged)
		}
		if c.Step != "none" {
			key = r.Start.Format("15:04 ") + key
		}
		all = append(all, fmt.Sprintf("%s %s=%s+%s+%s", key, r.PaidUSD, r.WorkUSD, r.IdleUSD, r.EgressUSD))
	}
	return strings.Join(all, ", ")
}

func TestCostsByWhoAndWhere(t *testing.T) {
	d := billed(t)
	for query, want := range map[string]string{
		"":                               "globex 0.72=0.72+0.00+0.00,  0.30=0.00+0.30+0.00, acme 0.18004=0.18+0.00+0.00004",
		"?idle=spread":                   "globex 0.96=0.96+0.00+0.00, acme 0.24004=0.24+0.00+0.00004",
		"?by=cluster":                    "us-a 1.20004=0.90+0.30+0.00004, eu-a 0.00=0.00+0.00+0.00",
		"?by=region,tenant&tenant=acme":  "acme/us 0.18004=0.18+0.00+0.00004",
		"?by=source":                     "us 0.72=0.72+0.00+0.00,  0.30=0.00+0.30+0.00, eu 0.18004=0.18+0.00+0.00004",
		"?region=eu":                     " 0.00=0.00+0.00+0.00, globex 0.00=0.00+0.00+0.00", // what is not known may have cost something
		"?limit=1":                       "globex 0.72=0.72+0.00+0.00, +2 0.48004=0.18+0.30+0.00004",
		"?sort=name&by=model":            " 0.30=0.00+0.30+0.00, m 0.90004=0.90+0.00+0.00004",
		"?step=minute":                   "11:00  0.30=0.00+0.30+0.00, 11:00 acme 0.18004=0.18+0.00+0.00004, 11:00 globex 0.12=0.12+0.00+0.00, 11:30 globex 0.60=0.60+0.00+0.00",
		"?step=hour&by=region&region=us": "11:00 us 1.20004=0.90+0.30+0.00004",
		"?tenant=nobody":                 "",
		"?from=2026-11-29T11:30:00Z":     "globex 0.60=0.60+0.00+0.00",
	} {
		if got := bills(d.costsOf("viewer", query)); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

func TestWhatAnAccountSaysOfItself(t *testing.T) {
	d := billed(t)
	c := d.costsOf("viewer", "?by=tenant,model")
	if c.Complete || len(c.Gaps) != 1 || !c.Gaps[0].From.Equal(epoch.Add(-59*time.Minute)) || !c.Gaps[0].Until.Equal(epoch.Add(-30*time.Minute)) {
		t.Errorf("complete %v, gaps %+v", c.Complete, c.Gaps)
	}
	if !c.From.Equal(epoch.Add(-time.Hour)) || !c.Until.Equal(epoch.Add(-29*time.Minute)) || !c.CompleteUntil.Equal(c.Until) || !c.Begun.Equal(c.From) {
		t.Errorf("from %s until %s, begun %s, complete until %s", c.From, c.Until, c.Begun, c.CompleteUntil)
	}
	if c.Keys != 3 || c.Folded || c.Step != "none" || c.Idle != "apart" || strings.Join(c.By, ",") != "tenant,model" {
		t.Errorf("%+v", c)
	}
	if s := c.Total; s.PaidUSD != "1.20004" || s.InputTokens != 1600 || s.OutputTokens != 800 || s.Succeeded != 16 || s.Failed != 4 ||
		s.EgressBytes != 2_000_000 || s.Work != 1.6 || s.CarbonUSD != "0.002" || !s.Estimate || !s.Unpriced {
		t.Errorf("total %+v", s)
	}
	if s := c.Total; s.PerMillionTokensUSD == nil || *s.PerMillionTokensUSD != "375.016667" || s.PerAnswerUSD == nil || *s.PerAnswerUSD != "0.056253" {
		t.Errorf("units %v %v", s.PerMillionTokensUSD, s.PerAnswerUSD)
	}
	if idle := c.Rows[1]; idle.PerMillionTokensUSD != nil || idle.PerAnswerUSD != nil || idle.Estimate || !idle.Start.Equal(c.From) || !idle.Until.Equal(c.Until) {
		t.Errorf("idle %+v", idle)
	}
	if one := d.costsOf("viewer", "?from=2026-11-29T11:30:00Z&until=2026-11-29T11:31:00Z"); !one.Complete || one.Gaps == nil || len(one.Gaps) != 0 {
		t.Errorf("a minute that is closed: %+v", one)
	}
	empty := newDouble(t).costsOf("viewer", "")
	if empty.Complete || empty.Rows == nil || len(empty.Rows) != 0 || !empty.CompleteUntil.IsZero() || empty.Total.PaidUSD != "0.00" || !empty.From.Equal(empty.Until) {
		t.Errorf("an account that has not begun: %+v", empty)
	}
}

func TestEveryFigureOfASumIsTold(t *testing.T) {
	got := sumOf(costmodel.Sum{
		Usage: costmodel.Usage{Input: 1, Cached: 2, Output: 3, Succeeded: 4, Failed: 5, Bytes: 6},
		Work:  7500, Cost: 8, Idle: 9, Egress: 10, Carbon: 11, Estimate: true,
	})
	perMTok, perAnswer := "4.50", "0.000005" // rounded up
	want := CostSum{
		InputTokens: 1, CachedInputTokens: 2, OutputTokens: 3, Succeeded: 4, Failed: 5, EgressBytes: 6, Work: 7.5,
		PaidUSD: "0.000027", WorkUSD: "0.000008", EgressUSD: "0.00001", IdleUSD: "0.000009", CarbonUSD: "0.000011", Estimate: true,
		PerMillionTokensUSD: &perMTok, PerAnswerUSD: &perAnswer,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestCostsAreSeenWithinTheScope(t *testing.T) {
	d := billed(t)
	d.token("of-acme", "viewer", access.Scope{Tenants: []string{"acme"}})
	d.token("of-us", "viewer", access.Scope{Regions: []string{"us"}})
	own := "acme 0.18004=0.18+0.00+0.00004"
	for _, tt := range []struct{ who, query, want string }{
		{"of-acme", "", own},
		{"of-acme", "?tenant=acme", own},
		{"of-acme", "?tenant=globex", ""},
		{"of-acme", "?tenant=globex&tenant=acme", own},
		{"of-acme", "?idle=spread", "acme 0.24004=0.24+0.00+0.00004"},
		{"of-acme", "?by=region", "us 0.18004=0.18+0.00+0.00004"}, // of what it has used
		{"of-us", "", "globex 0.72=0.72+0.00+0.00,  0.30=0.00+0.30+0.00, acme 0.18004=0.18+0.00+0.00004"},
	} {
		c := d.costsOf(tt.who, tt.query)
		if got := bills(c); got != tt.want {
			t.Errorf("%s %s: %q, want %q", tt.who, tt.query, got, tt.want)
		}
		if tt.want == "" && (c.Keys != 0 || c.Total.PaidUSD != "0.00" || c.Total.Work != 0) {
			t.Errorf("%s %s tells %+v", tt.who, tt.query, c)
		}
	}
	for _, query := range []string{"?format=csv", "?format=csv&tenant=globex", "?format=csv&by=region"} {
		if file := string(d.do("of-acme", "GET", "/v1/costs"+query, "").want(200, "").body); strings.Contains(file, "globex") || strings.Contains(file, "idle") {
			t.Errorf("%s tells\n%s", query, file)
		}
	}
	d.do("", "GET", "/v1/costs", "").want(401, "unauthenticated")
}

func TestAnswersThatWereToldTooLateAreCountedForThoseWhoSeeAll(t *testing.T) {
	d := newDouble(t)
	d.order(&statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: state.Format}})
	d.token("of-acme", "viewer", access.Scope{Tenants: []string{"acme"}})
	old := epoch.Add(-6 * time.Hour)
	for _, at := range []time.Time{old, epoch.Add(-time.Minute)} {
		d.money(&statepb.Command{Op: &statepb.Command_CloseMinutes{CloseMinutes: &statepb.CloseMinutes{Minutes: []*statepb.MinuteBills{{MinuteUnixS: at.Unix()}}}}})
	}
	d.money(&statepb.Command{Op: &statepb.Command_CountUsage{CountUsage: &statepb.CountUsage{
		Runs:    []*statepb.UsageRun{{Run: "r/1", Sequence: 1}},
		Minutes: []*statepb.CountedMinute{{MinuteUnixS: old.Unix(), Lines: []*statepb.CountedLine{{Tenant: "globex", Model: "m", Cluster: "c", Region: "us", Input: 10, Succeeded: 7, Work: 10_000}}}},
	}}})
	if c := d.costsOf("viewer", ""); c.LateAnswers != 7 {
		t.Errorf("%+v", c)
	}
	if c := d.costsOf("of-acme", ""); c.LateAnswers != 0 {
		t.Errorf("%+v", c)
	}
}

func TestCostsAsAFileInTheColumnsOfFOCUS(t *testing.T) {
	d := billed(t)
	a := d.do("viewer", "GET", "/v1/costs", "", "Accept: text/csv").want(200, "")
	if got := a.header.Get("Content-Type"); !strings.HasPrefix(got, "text/csv") || !strings.Contains(a.header.Get("Content-Disposition"), ".csv") {
		t.Errorf("%v", a.header)
	}
	for _, err := range focustest.Check(a.body) {
		t.Error(err)
	}
	_, rows, err := focustest.Rows(bytes.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	sum, kinds := new(big.Rat), map[string]int{}
	for _, r := range rows {
		cost, _ := new(big.Rat).SetString(r["BilledCost"])
		sum.Add(sum, cost)
		kinds[r["x_ChargeKind"]]++
		if r["SubAccountId"] == "acme" && !strings.Contains(r["Tags"], `"cost-centre":"4711"`) {
			t.Errorf("the tenant's label is not among %s", r["Tags"])
		}
		if r["BillingAccountId"] != "c-1" || r["ChargePeriodStart"] != "2026-11-29T11:00:00Z" {
			t.Errorf("%v", r)
		}
	}
	if want := big.NewRat(1_200_040, 1_000_000); sum.Cmp(want) != 0 || kinds["inference"] != 3 || kinds["idle-capacity"] != 2 || kinds["data-transfer"] != 1 {
		t.Errorf("%s in %v", sum, kinds)
	}
	if got := d.do("viewer", "GET", "/v1/costs?format=csv&step=minute&from=2026-11-29T11:30:00Z", ""); strings.Count(string(got.body), "\n") != 2 {
		t.Errorf("%s", got.body)
	}
	if got := d.do("viewer", "HEAD", "/v1/costs?format=csv", ""); got.status != 200 || len(got.body) != 0 {
		t.Errorf("%d %q", got.status, got.body)
	}
}

func TestWhatCostsCannotBeToldIsSaid(t *testing.T) {
	d := billed(t)
	d.do("viewer", "GET", "/v1/costs?colour=red", "").want(400, "invalid_request")
	d.do("viewer", "GET", "/v1/costs?since=1h&since=2h", "").want(400, "invalid_request")
	if p := d.do("viewer", "GET", "/v1/costs?since=90d&step=minute", ""); p.status != 200 { // all there is are minutes
		t.Errorf("%d %s", p.status, p.body)
	}
	old := epoch.Add(-24 * time.Hour).Truncate(time.Minute)
	late := newDouble(t)
	late.order(&statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: state.Format}})
	for _, at := range []time.Time{old, epoch.Add(-time.Minute)} {
		late.money(&statepb.Command{Op: &statepb.Command_CloseMinutes{CloseMinutes: &statepb.CloseMinutes{Minutes: []*statepb.MinuteBills{{MinuteUnixS: at.Unix()}}}}})
	}
	p := late.do("viewer", "GET", "/v1/costs?since=25h&step=minute", "").want(400, "invalid_request").problem()
	if !strings.Contains(p.Detail, "minutes for 120 minutes") || !strings.HasPrefix(p.Detail, "The account") {
		t.Errorf("%q", p.Detail)
	}
	// Strong reads need a leader, stale ones none.
	d.failing(errNoLeaderForTest)
	d.do("viewer", "GET", "/v1/costs", "").want(503, "no_leader")
	if a := d.do("viewer", "GET", "/v1/costs?consistency=stale", "").want(200, ""); a.header.Get("X-Staleness-Ms") != "250" {
		t.Errorf("%v", a.header)
	}
}

func TestOnlySoManyQuestionsAboutCostsAtATime(t *testing.T) {
	d := newUnserved(t)
	for range maxReckonings {
		d.server.reckoning.taken <- struct{}{}
	}
	ask := func() *httptest.ResponseRecorder {
		r, w := httptest.NewRequest(http.MethodGet, "/v1/costs", nil), httptest.NewRecorder()
		r.Header.Set("Authorization", "Bearer secret-viewer")
		d.server.Handler().ServeHTTP(w, r)
		return w
	}
	if w := ask(); w.Code != 503 || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), "busy") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	<-d.server.reckoning.taken
	for range 2 { // a place is given back
		if w := ask(); w.Code != 200 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

// held counts the questions that have a place while an answer is being sent.
type held struct {
	*httptest.ResponseRecorder
	places *int
	taken  func() int
}

// Write implements [io.Writer].
func (h held) Write(p []byte) (int, error) {
	*h.places = max(*h.places, h.taken())
	return h.ResponseRecorder.Write(p)
}

// A client who reads slowly keeps no place from others.
func TestAnAnswerThatIsSentHasNoPlace(t *testing.T) {
	d := newUnserved(t)
	for _, format := range []string{"json", "csv"} {
		places := 0
		w := held{httptest.NewRecorder(), &places, func() int { return len(d.server.reckoning.taken) }}
		r := httptest.NewRequest(http.MethodGet, "/v1/costs?format="+format, nil)
		r.Header.Set("Authorization", "Bearer secret-viewer")
		d.server.Handler().ServeHTTP(w, r)
		if w.Code != 200 || w.Body.Len() == 0 || places != 0 {
			t.Errorf("%s: %d, %d bytes, %d places", format, w.Code, w.Body.Len(), places)
		}
	}
}
