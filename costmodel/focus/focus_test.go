package focus

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/costmodel"
	"anabranch/costmodel/focus/focustest"
)

var update = flag.Bool("update", false, "write testdata/sample.csv anew")

var day = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

var issuer = Issuer{Account: "c-1", AccountName: "Anabranch c-1"}

// sample is a day with a charge of each kind, and what is hard to write.
func sample() []Charge {
	key := costmodel.Key{Tenant: "acme", Model: "meta-llama/Llama-3.1-8B", Class: "interactive", Cluster: "us-east-1-a", Region: "us-east-1"}
	work := Charge{
		Kind: Inference, From: day, Until: day.Add(24 * time.Hour), Key: key, Cost: 12_345_678, Carbon: 9_000,
		Usage: costmodel.Usage{Input: 1_200_000, Cached: 400_000, Output: 340_000, Succeeded: 1_700, Failed: 3},
		Tags:  map[string]string{"cost-centre": "4711", "owner": `=HYPERLINK("x"), "Ann"`, "anabranch/class": "forged"},
	}
	sent := work
	sent.Kind, sent.Cost, sent.Carbon, sent.Bytes, sent.Usage = Transfer, 20, 0, 1_000_001, costmodel.Usage{}
	idle := Charge{Kind: Idle, From: day, Until: day.Add(time.Hour), Key: costmodel.Key{Cluster: "us-east-1-a", Region: "us-east-1"}, Cost: 4 * costmodel.Dollar, Estimate: true}
	free := Charge{Kind: Inference, From: day, Until: day.Add(time.Minute), Usage: costmodel.Usage{Failed: 2}, Unpriced: true}
	hostile := work
	hostile.Key = costmodel.Key{Tenant: "=cmd|'/c calc'!A1", Model: "@SUM(1)", Class: "-2+3", Cluster: "+1", Region: "\ttab"}
	return []Charge{work, sent, idle, free, hostile}
}

func file(t testing.TB, charges ...Charge) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b, issuer)
	for _, c := range charges {
		if err := w.Write(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestTheSampleIsWrittenAsItWas(t *testing.T) {
	got := file(t, sample()...)
	if *update {
		if err := os.WriteFile("testdata/sample.csv", got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/sample.csv")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTheSampleKeepsTheRulesOfTheSpecification(t *testing.T) {
	for _, err := range focustest.Check(file(t, sample()...)) {
		t.Error(err)
	}
	for _, err := range focustest.Check(file(t)) { // no charges: still the names
		t.Error(err)
	}
}

// row writes one charge and reads it again.
func row(t testing.TB, c Charge) map[string]string {
	t.Helper()
	_, rows, err := focustest.Rows(bytes.NewReader(file(t, c)))
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	return rows[0]
}

func TestWhatARowSays(t *testing.T) {
	all := sample()
	for name, tt := range map[string]struct {
		of   Charge
		want map[string]string // empty: null
	}{
		"work": {all[0], map[string]string{
			"BilledCost": "12.345678", "EffectiveCost": "12.345678", "ListCost": "12.345678", "ContractedCost": "12.345678", "BillingCurrency": "USD",
			"BillingPeriodStart": "2026-11-01T00:00:00Z", "BillingPeriodEnd": "2026-12-01T00:00:00Z",
			"ChargePeriodStart": "2026-11-30T00:00:00Z", "ChargePeriodEnd": "2026-12-01T00:00:00Z", "ChargeCategory": "Usage", "ChargeClass": "",
			"ConsumedQuantity": "1540000", "ConsumedUnit": "Tokens", "PricingQuantity": "1540000", "PricingUnit": "Tokens",
			"SubAccountId": "acme", "ResourceId": "us-east-1-a", "RegionId": "us-east-1", "SkuId": "inference/meta-llama/Llama-3.1-8B",
			"ServiceCategory": "AI and Machine Learning", "x_CachedInputTokens": "400000", "x_SucceededAnswers": "1700", "x_FailedAnswers": "3",
			"x_CarbonCost": "0.009", "x_Estimate": "false", "x_ChargeKind": "inference", "x_TrafficClass": "interactive",
			"ChargeDescription": "Inference with meta-llama/Llama-3.1-8B on cluster us-east-1-a, by share of work",
			"Tags":              `{"anabranch/class":"interactive","anabranch/model":"meta-llama/Llama-3.1-8B","cost-centre":"4711","owner":"=HYPERLINK(\"x\"), \"Ann\""}`,
		}},
		"sent": {all[1], map[string]string{
			"BilledCost": "0.00002", "ConsumedQuantity": "0.001000001", "ConsumedUnit": "GB", "ServiceCategory": "Networking", "SkuId": "data-transfer",
			"x_InputTokens": "", "x_CarbonCost": "", "ChargeDescription": "Answers of meta-llama/Llama-3.1-8B sent from cluster us-east-1-a to another region",
		}},
		"idle": {all[2], map[string]string{
			"BilledCost": "4", "ConsumedQuantity": "3600", "ConsumedUnit": "Seconds", "SubAccountId": "", "SubAccountName": "", "SubAccountType": "",
			"ServiceCategory": "Compute", "ServiceSubcategory": "Other (Compute)", "x_Estimate": "true", "x_SucceededAnswers": "", "Tags": "{}",
			"ChargeDescription": "Idle capacity of cluster us-east-1-a",
		}},
		"of nobody in particular": {all[3], map[string]string{
			"BilledCost": "0", "ConsumedQuantity": "2", "ConsumedUnit": "Requests", "ResourceId": "", "ResourceType": "", "RegionId": "", "x_Unpriced": "true", "SkuId": "inference",
			"ChargeDescription": "Inference with all models on all clusters, by share of work",
		}},
		"idle of a region":      {Charge{Kind: Idle, From: day, Until: day.Add(time.Second), Key: costmodel.Key{Region: "eu"}}, map[string]string{"ChargeDescription": "Idle capacity of region eu"}},
		"work without a number": {Charge{Kind: Inference, From: day, Until: day.Add(time.Second), Cost: 1}, map[string]string{"ConsumedUnit": "Seconds", "BilledCost": "0.000001"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := row(t, tt.of)
			for column, want := range tt.want {
				if got[column] != want {
					t.Errorf("%s is %q, want %q", column, got[column], want)
				}
			}
		})
	}
}

// Spreadsheets take a cell for a formula by its first character.
func TestNoCellBeginsAFormula(t *testing.T) {
	for column, value := range row(t, sample()[4]) {
		if strings.ContainsAny(value[:1], "=+-@\t\r\n") {
			t.Errorf("%s is %q", column, value)
		}
	}
	if got := text("2+3=5"); got != "2+3=5" {
		t.Errorf("harmless text became %q", got)
	}
}

func TestWhatCanBeNoRowIsRefused(t *testing.T) {
	for name, c := range map[string]Charge{
		"no kind":             {From: day, Until: day.Add(time.Hour)},
		"no time":             {Kind: Idle, From: day, Until: day},
		"backwards":           {Kind: Idle, From: day, Until: day.Add(-time.Hour)},
		"into the next month": {Kind: Idle, From: day.Add(23 * time.Hour), Until: day.Add(25 * time.Hour)},
		"months at a time":    {Kind: Idle, From: day.AddDate(0, -2, 0), Until: day},
		"less than a second":  {Kind: Idle, From: day, Until: day.Add(time.Second - 1)},
	} {
		var b bytes.Buffer
		w := NewWriter(&b, issuer)
		if err := w.Write(c); err == nil {
			t.Errorf("%s: it was written", name)
		}
		if err := w.Flush(); err != nil || strings.Count(b.String(), "\n") != 1 {
			t.Errorf("%s: %v, %q", name, err, b.String())
		}
	}
}

func TestABillingPeriodIsAMonthInUTC(t *testing.T) {
	east := time.FixedZone("east", 9*3600)
	from, until := month(time.Date(2027, 1, 1, 3, 0, 0, 0, east)) // still December
	if !from.Equal(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)) || !until.Equal(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%s to %s", from, until)
	}
	if got := row(t, Charge{Kind: Idle, From: time.Date(2027, 1, 1, 3, 0, 0, 0, east), Until: time.Date(2027, 1, 1, 4, 0, 0, 0, east)}); got["ChargePeriodStart"] != "2026-12-31T18:00:00Z" {
		t.Errorf("%q", got["ChargePeriodStart"])
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no room") }

func TestAWriterThatFailsIsToldOf(t *testing.T) {
	w := NewWriter(broken{}, issuer)
	if err := w.Write(sample()[0]); err != nil { // it is buffered
		t.Fatal(err)
	}
	if err := w.Flush(); err == nil {
		t.Error("nobody was told")
	}
}

func TestAmountsAreWrittenExactly(t *testing.T) {
	for m, want := range map[costmodel.Micros]string{
		0: "0", 1: "0.000001", -1: "-0.000001", 100_000: "0.1", costmodel.Dollar: "1", 10_500_000: "10.5",
		math.MaxInt64: "9223372036854.775807", math.MinInt64: "-9223372036854.775808",
	} {
		if got := usd(m); got != want {
			t.Errorf("%d micro-dollars: %s, want %s", m, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.Int64().Draw(t, "micros")
		got, ok := new(big.Rat).SetString(usd(costmodel.Micros(m)))
		if !ok || got.Cmp(big.NewRat(m, 1_000_000)) != 0 {
			t.Fatalf("%d micro-dollars are %s", m, usd(costmodel.Micros(m)))
		}
	})
}

// Whatever is charged, the file keeps the rules, and its cost is what was charged.
func TestAnyChargesMakeAGoodFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[=+@a-z][a-z0-9.,"\n-]{0,9}[a-z]`))
		count := rapid.Int64Range(-5, 1<<40)
		var b bytes.Buffer
		w := NewWriter(&b, issuer)
		var sum big.Rat
		n := rapid.IntRange(0, 5).Draw(t, "rows")
		for range n {
			from := day.Add(time.Duration(rapid.IntRange(0, 82_800).Draw(t, "from")) * time.Second)
			c := Charge{
				Kind: rapid.SampledFrom([]Kind{Inference, Idle, Transfer}).Draw(t, "kind"),
				From: from, Until: from.Add(time.Duration(rapid.IntRange(1, 3600).Draw(t, "seconds")) * time.Second),
				Key: costmodel.Key{
					Tenant: fleet.TenantID(word.Draw(t, "tenant")), Model: fleet.ModelID(word.Draw(t, "model")), Class: fleet.ClassID(word.Draw(t, "class")),
					Cluster: fleet.ClusterID(word.Draw(t, "cluster")), Region: fleet.RegionID(word.Draw(t, "region")),
				},
				Cost:  costmodel.Micros(rapid.Int64Range(0, 1<<50).Draw(t, "cost")),
				Usage: costmodel.Usage{Input: count.Draw(t, "input"), Output: count.Draw(t, "output"), Failed: count.Draw(t, "failed")},
				Bytes: count.Draw(t, "bytes"), Tags: map[string]string{word.Draw(t, "tag"): word.Draw(t, "value")},
			}
			if err := w.Write(c); err != nil {
				t.Fatal(err)
			}
			sum.Add(&sum, big.NewRat(int64(c.Cost), 1_000_000))
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		for _, err := range focustest.Check(b.Bytes()) {
			t.Error(err)
		}
		_, rows, err := focustest.Rows(&b)
		if err != nil || len(rows) != n {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		for _, r := range rows {
			cost, _ := new(big.Rat).SetString(r["BilledCost"])
			sum.Sub(&sum, cost)
		}
		if sum.Sign() != 0 {
			t.Errorf("the file is %s off", sum.String())
		}
	})
}
