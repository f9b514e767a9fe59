// Package focustest holds CSV to the rules of FOCUS 1.2 for the columns in it: which there must be, what may be
// null and when, formats and allowed values. It is written from the specification and knows nothing of the
// package that it tests.
package focustest

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// format of the values of a column.
type format int

const (
	text format = iota
	decimal
	moment
	keyValues
)

// rule of a column.
type rule struct {
	mandatory bool // the column is there
	nullable  bool
	format    format
	allowed   []string // empty: any
}

var (
	date  = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$`)
	plain = regexp.MustCompile(`^-?\d+(\.\d+)?$`)
	name  = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,49}$`)
	// units: a simple or compound one, perhaps with a number before it.
	units = regexp.MustCompile(`^(\d+ )?([A-Z][A-Za-z]*)(-[A-Z][A-Za-z]*)?$`)
)

// rules of the columns, see https://focus.finops.org/focus-specification/v1-2/.
var rules = map[string]rule{
	"AvailabilityZone":           {nullable: true},
	"BilledCost":                 {mandatory: true, format: decimal},
	"BillingAccountId":           {mandatory: true},
	"BillingAccountName":         {mandatory: true, nullable: true},
	"BillingAccountType":         {},
	"BillingCurrency":            {mandatory: true},
	"BillingPeriodEnd":           {mandatory: true, format: moment},
	"BillingPeriodStart":         {mandatory: true, format: moment},
	"CapacityReservationId":      {nullable: true},
	"CapacityReservationStatus":  {nullable: true, allowed: []string{"Used", "Unused"}},
	"ChargeCategory":             {mandatory: true, allowed: []string{"Usage", "Purchase", "Tax", "Credit", "Adjustment"}},
	"ChargeClass":                {mandatory: true, nullable: true, allowed: []string{"Correction"}},
	"ChargeDescription":          {mandatory: true, nullable: true},
	"ChargeFrequency":            {allowed: []string{"One-Time", "Recurring", "Usage-Based"}},
	"ChargePeriodEnd":            {mandatory: true, format: moment},
	"ChargePeriodStart":          {mandatory: true, format: moment},
	"CommitmentDiscountCategory": {nullable: true, allowed: []string{"Spend", "Usage"}},
	"CommitmentDiscountId":       {nullable: true},
	"CommitmentDiscountName":     {nullable: true},
	"CommitmentDiscountQuantity": {nullable: true, format: decimal},
	"CommitmentDiscountStatus":   {nullable: true, allowed: []string{"Used", "Unused"}},
	"CommitmentDiscountType":     {nullable: true},
	"CommitmentDiscountUnit":     {nullable: true},
	"ConsumedQuantity":           {nullable: true, format: decimal},
	"ConsumedUnit":               {nullable: true},
	"ContractedCost":             {mandatory: true, format: decimal},
	"ContractedUnitPrice":        {nullable: true, format: decimal},
	"EffectiveCost":              {mandatory: true, format: decimal},
	"InvoiceId":                  {nullable: true},
	"InvoiceIssuerName":          {mandatory: true},
	"ListCost":                   {mandatory: true, format: decimal},
	"ListUnitPrice":              {nullable: true, format: decimal},
	"PricingCategory":            {nullable: true, allowed: []string{"Standard", "Dynamic", "Committed", "Other"}},
	"PricingCurrency":            {},
	"PricingQuantity":            {mandatory: true, nullable: true, format: decimal},
	"PricingUnit":                {mandatory: true, nullable: true},
	"ProviderName":               {mandatory: true},
	"PublisherName":              {mandatory: true},
	"RegionId":                   {nullable: true},
	"RegionName":                 {nullable: true},
	"ResourceId":                 {nullable: true},
	"ResourceName":               {nullable: true},
	"ResourceType":               {nullable: true},
	"ServiceCategory": {mandatory: true, allowed: []string{
		"AI and Machine Learning", "Analytics", "Business Applications", "Compute", "Databases", "Developer Tools", "Multicloud", "Identity",
		"Integration", "Internet of Things", "Management and Governance", "Media", "Migration", "Mobile", "Networking", "Security", "Storage", "Web", "Other",
	}},
	"ServiceName":        {mandatory: true},
	"ServiceSubcategory": {},
	"SkuId":              {nullable: true},
	"SkuMeter":           {nullable: true},
	"SkuPriceDetails":    {nullable: true, format: keyValues},
	"SkuPriceId":         {nullable: true},
	"SubAccountId":       {nullable: true},
	"SubAccountName":     {nullable: true},
	"SubAccountType":     {nullable: true},
	"Tags":               {nullable: true, format: keyValues},
}

// parents are the categories of the subcategories that services of inference may have.
var parents = map[string]string{
	"Generative AI": "AI and Machine Learning", "Machine Learning": "AI and Machine Learning", "Other (AI and Machine Learning)": "AI and Machine Learning",
	"Virtual Machines": "Compute", "Containers": "Compute", "Serverless Compute": "Compute", "Other (Compute)": "Compute",
	"Data Transfer": "Networking", "Other (Networking)": "Networking",
}

// Rows reads CSV with a line of names as a list of rows by column; what is null is not in them.
func Rows(r io.Reader) (names []string, rows []map[string]string, err error) {
	all, err := csv.NewReader(r).ReadAll() // as many fields in each line
	if err != nil {
		return nil, nil, err
	}
	if len(all) == 0 {
		return nil, nil, errors.New("there is no line of names")
	}
	for _, line := range all[1:] {
		row := map[string]string{}
		for i, value := range line {
			if value != "" {
				row[all[0][i]] = value
			}
		}
		rows = append(rows, row)
	}
	return all[0], rows, nil
}

// Check says what of a file breaks the rules; nil: nothing.
func Check(file []byte) (wrong []error) {
	if !utf8.Valid(file) {
		wrong = append(wrong, errors.New("it is no UTF-8"))
	}
	names, rows, err := Rows(bytes.NewReader(file))
	if err != nil {
		return append(wrong, err)
	}
	wrong = append(wrong, columns(names)...)
	for i, row := range rows {
		for _, err := range slices.Concat(values(names, row), nulls(names, row), sense(row)) {
			wrong = append(wrong, fmt.Errorf("row %d: %w", i+1, err))
		}
	}
	return wrong
}

// columns are there if they must be, known or marked as custom ones, and those last.
func columns(names []string) (wrong []error) {
	for name, r := range rules {
		if r.mandatory && !slices.Contains(names, name) {
			wrong = append(wrong, fmt.Errorf("%s is missing", name))
		}
	}
	custom := false
	for i, n := range names {
		bare, own := strings.CutPrefix(n, "x_")
		custom = custom || own
		_, known := rules[n]
		switch {
		case slices.Contains(names[:i], n):
			wrong = append(wrong, fmt.Errorf("%s is there twice", n))
		case !name.MatchString(bare):
			wrong = append(wrong, fmt.Errorf("%s is not in Pascal case, or too long", n))
		case !own && !known:
			wrong = append(wrong, fmt.Errorf("%s is no column of the specification", n))
		case custom && !own:
			wrong = append(wrong, fmt.Errorf("%s comes after a custom column", n))
		}
	}
	return wrong
}

// values have the format of their columns.
func values(names []string, row map[string]string) (wrong []error) {
	for _, n := range names {
		r, known := rules[n]
		value, given := row[n]
		if !known || !given {
			if known && !r.nullable {
				wrong = append(wrong, fmt.Errorf("%s is null", n))
			}
			continue
		}
		ok := len(r.allowed) == 0 || slices.Contains(r.allowed, value)
		switch r.format {
		case decimal:
			ok = plain.MatchString(value)
		case moment:
			_, err := time.Parse(time.RFC3339, value)
			ok = err == nil && date.MatchString(value)
		case keyValues:
			ok = flat(value)
		case text:
			ok = ok && strings.TrimSpace(value) != "" && value != "null" && value != "NULL" && value != "N/A"
		}
		if !ok {
			wrong = append(wrong, fmt.Errorf("%s is %q", n, value))
		}
	}
	return wrong
}

// flat says whether a text is a JSON object without objects and lists in it.
func flat(value string) bool {
	var all map[string]any
	if json.Unmarshal([]byte(value), &all) != nil || all == nil {
		return false
	}
	for _, v := range all {
		switch v.(type) {
		case map[string]any, []any:
			return false
		}
	}
	return true
}

// nulls are where other columns say so.
func nulls(names []string, row map[string]string) (wrong []error) {
	has := func(n string) bool { return row[n] != "" }
	regular := row["ChargeClass"] != "Correction"
	sold := regular && (row["ChargeCategory"] == "Usage" || row["ChargeCategory"] == "Purchase")
	for _, n := range []string{"PricingQuantity", "PricingUnit", "PricingCategory", "SkuId", "SkuPriceId", "ListUnitPrice", "ContractedUnitPrice"} {
		if slices.Contains(names, n) && sold && !has(n) {
			wrong = append(wrong, fmt.Errorf("%s is null in a row of usage or a purchase", n))
		}
	}
	used := row["ChargeCategory"] == "Usage" && row["CommitmentDiscountStatus"] != "Unused"
	for _, n := range []string{"ConsumedQuantity", "ConsumedUnit"} {
		if slices.Contains(names, n) && regular && used != has(n) {
			wrong = append(wrong, fmt.Errorf("%s is null in a row of usage, or not in another", n))
		}
	}
	for id, of := range map[string]string{"SubAccountName": "SubAccountId", "SubAccountType": "SubAccountId", "BillingAccountType": "BillingAccountId", "RegionName": "RegionId", "ResourceName": "ResourceId", "ResourceType": "ResourceId"} {
		if slices.Contains(names, id) && slices.Contains(names, of) && has(id) != has(of) {
			wrong = append(wrong, fmt.Errorf("%s is null and %s is not, or the other way round", id, of))
		}
	}
	if row["ChargeCategory"] == "Purchase" && row["ChargeFrequency"] == "Usage-Based" {
		wrong = append(wrong, errors.New("a purchase is never Usage-Based"))
	}
	return wrong
}

// sense is what values must be beside each other.
func sense(row map[string]string) (wrong []error) {
	if c := row["BillingCurrency"]; !regexp.MustCompile(`^[A-Z]{3}$`).MatchString(c) {
		wrong = append(wrong, fmt.Errorf("BillingCurrency %q is no code of ISO 4217", c))
	}
	for _, n := range []string{"ConsumedUnit", "PricingUnit"} {
		if u := row[n]; u != "" && !units.MatchString(u) {
			wrong = append(wrong, fmt.Errorf("%s is %q", n, u))
		}
	}
	if q, ok := new(big.Rat).SetString(row["ConsumedQuantity"]); ok && q.Sign() <= 0 && row["ChargeClass"] == "" {
		wrong = append(wrong, fmt.Errorf("ConsumedQuantity %s is not above 0", row["ConsumedQuantity"]))
	}
	if s := row["ServiceSubcategory"]; s != "" && parents[s] != row["ServiceCategory"] {
		wrong = append(wrong, fmt.Errorf("ServiceSubcategory %q is none of %q", s, row["ServiceCategory"]))
	}
	from, until := row["ChargePeriodStart"], row["ChargePeriodEnd"] // as text they sort as times do
	if from >= until || from < row["BillingPeriodStart"] || until > row["BillingPeriodEnd"] {
		wrong = append(wrong, fmt.Errorf("the charge period %s to %s is empty, or not within the billing period", from, until))
	}
	for _, of := range [][2]string{{"ListUnitPrice", "ListCost"}, {"ContractedUnitPrice", "ContractedCost"}} {
		price, ok := new(big.Rat).SetString(row[of[0]])
		quantity, also := new(big.Rat).SetString(row["PricingQuantity"])
		cost, too := new(big.Rat).SetString(row[of[1]])
		if ok && also && too && price.Mul(price, quantity).Cmp(cost) != 0 {
			wrong = append(wrong, fmt.Errorf("%s is not %s times PricingQuantity", of[1], of[0]))
		}
	}
	return wrong
}
