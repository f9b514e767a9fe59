package focus

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"anabranch/costmodel"
)

// Who sells: for the tenants of a control plane that is the control plane, whose account is allotted cost and no
// invoice of a cloud.
const seller = "Anabranch"

// tagPrefix marks the tags that operators did not write.
const tagPrefix = "anabranch/"

// column is one column and its value in a row; empty: null.
type column struct {
	name  string
	value func(*Writer, Charge) string
}

// columns of FOCUS by name, those that it makes mandatory all among them; then ours, which begin with "x_".
// Left out are conditional ones that nothing here gives a value: unit prices and price ids, since no
// price list is published; commitments and reservations; currencies other than the dollar.
var columns = []column{
	{"BilledCost", cost},
	{"BillingAccountId", func(w *Writer, _ Charge) string { return text(w.issuer.Account) }},
	{"BillingAccountName", func(w *Writer, _ Charge) string { return text(w.issuer.AccountName) }},
	{"BillingAccountType", fixed("Control Plane")},
	{"BillingCurrency", fixed("USD")},
	{"BillingPeriodEnd", func(_ *Writer, c Charge) string { _, until := month(c.From); return moment(until) }},
	{"BillingPeriodStart", func(_ *Writer, c Charge) string { from, _ := month(c.From); return moment(from) }},
	{"ChargeCategory", fixed("Usage")},
	{"ChargeClass", fixed("")}, // no row corrects an earlier one
	{"ChargeDescription", func(_ *Writer, c Charge) string { return text(c.description()) }},
	{"ChargeFrequency", fixed("Usage-Based")},
	{"ChargePeriodEnd", func(_ *Writer, c Charge) string { return moment(c.Until) }},
	{"ChargePeriodStart", func(_ *Writer, c Charge) string { return moment(c.From) }},
	{"ConsumedQuantity", quantity},
	{"ConsumedUnit", unit},
	{"ContractedCost", cost},
	{"EffectiveCost", cost},
	{"InvoiceIssuerName", fixed(seller)},
	{"ListCost", cost},
	{"PricingCategory", fixed("Dynamic")}, // shares of a bill: what a token costs changes by the minute
	{"PricingQuantity", quantity},
	{"PricingUnit", unit},
	{"ProviderName", fixed(seller)},
	{"PublisherName", fixed(seller)},
	{"RegionId", region},
	{"RegionName", region},
	{"ResourceId", cluster},
	{"ResourceName", cluster},
	{"ResourceType", func(_ *Writer, c Charge) string { return given(string(c.Key.Cluster), "Cluster") }},
	{"ServiceCategory", func(_ *Writer, c Charge) string { return services[c.Kind].category }},
	{"ServiceName", func(_ *Writer, c Charge) string { return services[c.Kind].name }},
	{"ServiceSubcategory", func(_ *Writer, c Charge) string { return services[c.Kind].subcategory }},
	{"SkuId", func(_ *Writer, c Charge) string { return text(c.sku()) }},
	{"SubAccountId", tenant},
	{"SubAccountName", tenant},
	{"SubAccountType", func(_ *Writer, c Charge) string { return given(string(c.Key.Tenant), "Tenant") }},
	{"Tags", func(_ *Writer, c Charge) string { return c.tags() }},
	{"x_CachedInputTokens", ofInference(func(u costmodel.Usage) int64 { return u.Cached })},
	{"x_CarbonCost", func(_ *Writer, c Charge) string {
		if c.Carbon == 0 {
			return ""
		}
		return usd(c.Carbon)
	}},
	{"x_ChargeKind", func(_ *Writer, c Charge) string { return text(string(c.Kind)) }},
	{"x_Estimate", func(_ *Writer, c Charge) string { return strconv.FormatBool(c.Estimate) }},
	{"x_FailedAnswers", ofInference(func(u costmodel.Usage) int64 { return u.Failed })},
	{"x_InputTokens", ofInference(func(u costmodel.Usage) int64 { return u.Input })},
	{"x_Model", func(_ *Writer, c Charge) string { return text(string(c.Key.Model)) }},
	{"x_OutputTokens", ofInference(func(u costmodel.Usage) int64 { return u.Output })},
	{"x_SucceededAnswers", ofInference(func(u costmodel.Usage) int64 { return u.Succeeded })},
	{"x_TrafficClass", func(_ *Writer, c Charge) string { return text(string(c.Key.Class)) }},
	{"x_Unpriced", func(_ *Writer, c Charge) string { return strconv.FormatBool(c.Unpriced) }},
}

// services that kinds of charges belong to, in the specification's words.
var services = map[Kind]struct{ name, category, subcategory string }{
	Inference: {"Inference", "AI and Machine Learning", "Generative AI"},
	Idle:      {"Idle Capacity", "Compute", "Other (Compute)"},
	Transfer:  {"Data Transfer", "Networking", "Data Transfer"},
}

func fixed(value string) func(*Writer, Charge) string {
	return func(*Writer, Charge) string { return value }
}

// given is a value that goes with another one, which is null where that is.
func given(other, value string) string {
	if other == "" {
		return ""
	}
	return value
}

func cost(_ *Writer, c Charge) string { return usd(c.Cost) }

func quantity(_ *Writer, c Charge) string { amount, _ := c.quantity(); return amount }

func unit(_ *Writer, c Charge) string { _, unit := c.quantity(); return unit }

func region(_ *Writer, c Charge) string { return text(string(c.Key.Region)) }

func cluster(_ *Writer, c Charge) string { return text(string(c.Key.Cluster)) }

func tenant(_ *Writer, c Charge) string { return text(string(c.Key.Tenant)) }

// ofInference is a count that other charges do not have.
func ofInference(count func(costmodel.Usage) int64) func(*Writer, Charge) string {
	return func(_ *Writer, c Charge) string {
		if c.Kind != Inference {
			return ""
		}
		return strconv.FormatInt(max(count(c.Usage), 0), 10)
	}
}

// description says in words what the row is for.
func (c Charge) description() string {
	where := "all clusters"
	switch {
	case c.Key.Cluster != "":
		where = "cluster " + string(c.Key.Cluster)
	case c.Key.Region != "":
		where = "region " + string(c.Key.Region)
	}
	what := string(c.Key.Model)
	if what == "" {
		what = "all models"
	}
	switch c.Kind {
	case Idle:
		return "Idle capacity of " + where
	case Transfer:
		return fmt.Sprintf("Answers of %s sent from %s to another region", what, where)
	}
	return fmt.Sprintf("Inference with %s on %s, by share of work", what, where)
}

// sku is what was sold.
func (c Charge) sku() string {
	if c.Kind == Inference && c.Key.Model != "" {
		return string(c.Kind) + "/" + string(c.Key.Model)
	}
	return string(c.Kind)
}

// tags are those of operators, and ours below a prefix that theirs do not have.
func (c Charge) tags() string {
	all := make(map[string]string, len(c.Tags)+2)
	for key, value := range c.Tags {
		if !strings.HasPrefix(key, tagPrefix) {
			all[key] = value
		}
	}
	for key, value := range map[string]string{"model": string(c.Key.Model), "class": string(c.Key.Class)} {
		if value != "" {
			all[tagPrefix+key] = value
		}
	}
	b, err := json.Marshal(all) // sorted by key
	if err != nil {
		panic(err) // text always marshals
	}
	return string(b)
}

// moment is a time as the specification wants it: ISO 8601 in UTC, to the second.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
