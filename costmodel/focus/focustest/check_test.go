package focustest

import (
	"strings"
	"testing"
)

// good is a file that breaks no rule, one column a line: its name and the value of its only row.
var good = [][2]string{
	{"BilledCost", "1.5"},
	{"BillingAccountId", "c-1"},
	{"BillingAccountName", ""},
	{"BillingCurrency", "USD"},
	{"BillingPeriodEnd", "2026-12-01T00:00:00Z"},
	{"BillingPeriodStart", "2026-11-01T00:00:00Z"},
	{"ChargeCategory", "Usage"},
	{"ChargeClass", ""},
	{"ChargeDescription", "d"},
	{"ChargeFrequency", "Usage-Based"},
	{"ChargePeriodEnd", "2026-11-30T01:00:00Z"},
	{"ChargePeriodStart", "2026-11-30T00:00:00Z"},
	{"ConsumedQuantity", "3"},
	{"ConsumedUnit", "Tokens"},
	{"ContractedCost", "1.5"},
	{"EffectiveCost", "1.5"},
	{"InvoiceIssuerName", "i"},
	{"ListCost", "1.5"},
	{"ListUnitPrice", "0.5"},
	{"PricingCategory", "Standard"},
	{"PricingQuantity", "3"},
	{"PricingUnit", "1000 Tokens"},
	{"ProviderName", "p"},
	{"PublisherName", "p"},
	{"ServiceCategory", "Networking"},
	{"ServiceName", "s"},
	{"ServiceSubcategory", "Data Transfer"},
	{"SubAccountId", "acme"},
	{"SubAccountName", "acme"},
	{"SubAccountType", "Tenant"},
	{"Tags", `"{""a"":""b"",""c"":true}"`},
	{"x_Model", "m"},
}

// with is the good file with other columns and values: what a name is changed to, or its value.
func with(changes ...string) []byte {
	var names, values []string
	for _, c := range good {
		name, value := c[0], c[1]
		for i := 0; i < len(changes); i += 2 {
			if changes[i] == "rename "+c[0] {
				name = changes[i+1]
			}
			if changes[i] == c[0] {
				value = changes[i+1]
			}
		}
		if name != "" {
			names, values = append(names, name), append(values, value)
		}
	}
	return []byte(strings.Join(names, ",") + "\n" + strings.Join(values, ",") + "\n")
}

func TestAGoodFileBreaksNoRule(t *testing.T) {
	if wrong := Check(with()); wrong != nil {
		t.Error(wrong)
	}
	only := with()
	only = only[:strings.IndexByte(string(only), '\n')+1] // nothing was used
	if wrong := Check(only); wrong != nil {
		t.Error(wrong)
	}
}

func TestEachRuleBites(t *testing.T) {
	for name, tt := range map[string]struct {
		file []byte
		want string
	}{
		"nothing":                    {nil, "no line of names"},
		"no UTF-8":                   {with("ChargeDescription", "\xff"), "no UTF-8"},
		"a short row":                {[]byte("A,B\n1\n"), "number of fields"},
		"a column is missing":        {with("rename ListCost", ""), "ListCost is missing"},
		"a column twice":             {with("rename ContractedCost", "ListCost"), "twice"},
		"an unknown column":          {with("rename SubAccountType", "Colour"), "no column"},
		"snake case":                 {with("rename x_Model", "x_my_model"), "Pascal"},
		"custom before":              {with("rename BilledCost", "x_Cost", "rename x_Model", "BilledCost", "x_Model", "1"), "after a custom column"},
		"null":                       {with("ServiceName", ""), "ServiceName is null"},
		"blank":                      {with("ServiceName", "  "), "ServiceName is"},
		"a word for null":            {with("BillingAccountName", "null"), "BillingAccountName is"},
		"a currency sign":            {with("BilledCost", "$1.5"), "BilledCost is"},
		"an exponent":                {with("BilledCost", "1e3"), "BilledCost is"},
		"a plus":                     {with("BilledCost", "+1"), "BilledCost is"},
		"a date alone":               {with("ChargePeriodStart", "2026-11-30"), "ChargePeriodStart is"},
		"an offset":                  {with("ChargePeriodStart", "2026-11-30T00:00:00+00:00"), "ChargePeriodStart is"},
		"no such day":                {with("ChargePeriodStart", "2026-11-31T00:00:00Z"), "ChargePeriodStart is"},
		"a category of its own":      {with("ChargeCategory", "Rent"), "ChargeCategory is"},
		"a class":                    {with("ChargeClass", "Usual"), "ChargeClass is"},
		"a frequency":                {with("ChargeFrequency", "Daily"), "ChargeFrequency is"},
		"tags in tags":               {with("Tags", `"{""a"":{}}"`), "Tags is"},
		"tags that are a list":       {with("Tags", `[]`), "Tags is"},
		"tags that are null":         {with("Tags", `null`), "Tags is"},
		"no pricing unit":            {with("PricingUnit", ""), "PricingUnit is null in a row of usage"},
		"no unit price":              {with("ListUnitPrice", ""), "ListUnitPrice is null"},
		"nothing consumed":           {with("ConsumedQuantity", ""), "ConsumedQuantity is null in a row of usage"},
		"consumption of a tax":       {with("ChargeCategory", "Tax"), "ConsumedUnit is null in a row of usage, or not in another"},
		"none consumed":              {with("ConsumedQuantity", "0"), "not above 0"},
		"a unit in small letters":    {with("ConsumedUnit", "tokens"), "ConsumedUnit is"},
		"a purchase by usage":        {with("ChargeCategory", "Purchase"), "never Usage-Based"},
		"a type of nobody":           {with("SubAccountId", "", "SubAccountName", ""), "SubAccountType is null and SubAccountId is not, or"},
		"a currency":                 {with("BillingCurrency", "Dollar"), "ISO 4217"},
		"another category's":         {with("ServiceCategory", "Compute"), "none of"},
		"no time":                    {with("ChargePeriodStart", "2026-11-30T01:00:00Z"), "empty"},
		"beyond the billing period":  {with("ChargePeriodEnd", "2026-12-01T01:00:00Z"), "not within"},
		"another price times volume": {with("ListUnitPrice", "0.6"), "ListCost is not ListUnitPrice times"},
	} {
		t.Run(name, func(t *testing.T) {
			var all []string
			for _, err := range Check(tt.file) {
				all = append(all, err.Error())
			}
			if got := strings.Join(all, "\n"); !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q among it", got, tt.want)
			}
		})
	}
}

func TestRowsLeaveNullsOut(t *testing.T) {
	names, rows, err := Rows(strings.NewReader("A,B\n1,\n,\"x,y\"\n"))
	if err != nil || len(names) != 2 || len(rows) != 2 {
		t.Fatalf("%q %q %v", names, rows, err)
	}
	if _, given := rows[0]["B"]; given || rows[0]["A"] != "1" || rows[1]["B"] != "x,y" {
		t.Errorf("%q", rows)
	}
}
