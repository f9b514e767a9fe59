package awsprice

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"anabranch/costmodel"
)

// product is an item as the Price List writes it.
func product(instance, region, usd string, more ...string) string {
	attributes := []string{
		"instanceType", instance, "regionCode", region, "operatingSystem", "Linux", "tenancy", "Shared", "preInstalledSw", "NA",
		"capacitystatus", "Used", "marketoption", "OnDemand", "servicecode", "AmazonEC2", "gpu", "8",
	}
	var told []string
	for i := 0; i < len(attributes); i += 2 {
		value := attributes[i+1]
		for j := 0; j+1 < len(more); j += 2 {
			if more[j] == attributes[i] {
				value = more[j+1]
			}
		}
		told = append(told, fmt.Sprintf("%q:%q", attributes[i], value))
	}
	return fmt.Sprintf(`{"product":{"productFamily":"Compute Instance","attributes":{%s},"sku":"A"},"serviceCode":"AmazonEC2",`+
		`"terms":{"OnDemand":{"A.J":{"priceDimensions":{"A.J.6":{"unit":"Hrs","endRange":"Inf","beginRange":"0","pricePerUnit":{"USD":%q}}},`+
		`"sku":"A","effectiveDate":"2026-11-01T00:00:00Z","offerTermCode":"J","termAttributes":{}}}},"version":"1","publicationDate":"2026-11-20T22:46:29Z"}`,
		strings.Join(told, ","), usd)
}

func TestAProductHasPrices(t *testing.T) {
	whole, err := os.ReadFile("testdata/p5.48xlarge.json")
	if err != nil {
		t.Fatal(err)
	}
	november := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	published := time.Date(2026, 11, 20, 22, 46, 29, 0, time.UTC)
	one := func(micros costmodel.Micros) []price { return []price{{micros, 8, november, published}} }
	plain := product("p5.48xlarge", "us-east-1", "55.0400000000")
	for name, c := range map[string]struct {
		text string
		want []price
		err  string
	}{
		"one price":                      {plain, one(55_040_000), ""},
		"with reserved terms and more":   {string(whole), one(55_040_000), ""},
		"of nothing":                     {product("p5.48xlarge", "us-east-1", "0.0000000000"), nil, ""},
		"finer than a micro-dollar":      {product("p5.48xlarge", "us-east-1", "0.0000015000"), one(2), ""},
		"another region":                 {product("p5.48xlarge", "eu-west-1", "1"), nil, ""},
		"another type":                   {product("p5.4xlarge", "us-east-1", "1"), nil, ""},
		"another system":                 {product("p5.48xlarge", "us-east-1", "1", "operatingSystem", "Windows"), nil, ""},
		"software comes with it":         {product("p5.48xlarge", "us-east-1", "1", "preInstalledSw", "SQL Std"), nil, ""},
		"a host of one's own":            {product("p5.48xlarge", "us-east-1", "1", "tenancy", "Dedicated"), nil, ""},
		"capacity that is reserved":      {product("p5.48xlarge", "us-east-1", "1", "capacitystatus", "UnusedCapacityReservation"), nil, ""},
		"a capacity block":               {product("p5.48xlarge", "us-east-1", "1", "marketoption", "CapacityBlock"), nil, ""},
		"not by the hour":                {strings.ReplaceAll(plain, `"Hrs"`, `"Quantity"`), nil, ""},
		"no terms":                       {`{"product":{"attributes":{"instanceType":"p5.48xlarge"}}}`, nil, ""},
		"accelerators that are no GPUs":  {product("p5.48xlarge", "us-east-1", "1", "gpu", "NA"), []price{{costmodel.Dollar, 0, november, published}}, ""},
		"no dollars":                     {strings.ReplaceAll(plain, `"USD"`, `"CNY"`), nil, "not in dollars"},
		"no number":                      {product("p5.48xlarge", "us-east-1", "1e3"), nil, "1e3"},
		"no time":                        {strings.ReplaceAll(plain, "2026-11-01T", "yesterday"), nil, "no time"},
		"no time when it was published":  {strings.ReplaceAll(plain, "2026-11-20T", "later"), nil, "no time"},
		"no type":                        {`{"product":{}}`, nil, "instance type"},
		"no JSON":                        {`{"product":`, nil, "unexpected end"},
		"attributes that are no strings": {`{"product":{"attributes":{"instanceType":1}}}`, nil, "number"},
		"far too long":                   {plain + strings.Repeat(" ", maxItem), nil, "KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(c.text, (&Catalogue{o: Options{Place: Place{Code: "us-east-1"}}}).sold(known[15]))
			if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) || c.err == "" && err != nil {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if len(got) != len(c.want) || len(got) > 0 && got[0] != c.want[0] {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// A change that is announced stands in the list before it holds.
func TestAllTermsOfAProductAreRead(t *testing.T) {
	text := strings.Replace(product("p5.48xlarge", "us-east-1", "55.04"), `"OnDemand":{`, `"OnDemand":{"A.K":{"priceDimensions":`+
		`{"A.K.6":{"unit":"Hrs","pricePerUnit":{"USD":"60"}},"A.K.7":{"unit":"Quantity","pricePerUnit":{"USD":"9"}}},"effectiveDate":"2027-01-01T00:00:00+01:00"},`, 1)
	got, err := parse(text, nil)
	if err != nil || len(got) != 2 || got[0].perHour != 60*costmodel.Dollar || got[1].perHour != 55_040_000 {
		t.Fatalf("got %+v, %v", got, err)
	}
	if want := time.Date(2026, 12, 31, 23, 0, 0, 0, time.UTC); got[0].from != want {
		t.Errorf("begins %v, want %v", got[0].from, want)
	}
}

func TestInstanceTypesAreRead(t *testing.T) {
	for text, want := range map[string]Instance{
		"p5.48xlarge":        {"p5.48xlarge", "h100", 8, true},
		"g6e.xlarge":         {"g6e.xlarge", "l40s", 1, false},
		"p9.metal=X100:16":   {"p9.metal", "x100", 16, true},
		"p5.48xlarge=h800:8": {"p5.48xlarge", "h800", 8, true},
	} {
		if got, err := ParseInstance(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "p9.metal", "p9.metal=", "p9.metal=x100", "p9.metal=x100:0", "p9.metal=:8", "=x100:8", "p9=x:2000", "p9=x:-1"} {
		if got, err := ParseInstance(text); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
	seen := map[string]bool{}
	for _, i := range Instances() {
		if seen[i.Type] || i.GPUs < 1 || i.Class != strings.ToLower(i.Class) {
			t.Errorf("%+v", i)
		}
		seen[i.Type] = true
	}
	Instances()[0].Type = "changed"
	if Instances()[0].Type == "changed" {
		t.Error("the table can be changed from outside")
	}
}

// What is asked for and what is shipped are called the same, so that the one can take the other's place.
func TestShippedPricesAreOfTheSameInstances(t *testing.T) {
	for _, o := range costmodel.ShippedOffers() {
		i, err := ParseInstance(o.Instance)
		if err != nil || i.Class != o.Class || i.GPUs != o.GPUs {
			t.Errorf("%s is shipped with %d %s, and asked for as %+v (%v)", o.Instance, o.GPUs, o.Class, i, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(product("p5.48xlarge", "us-east-1", "55.0400000000"))
	f.Add(product("p5.48xlarge", "us-east-1", "0"))
	f.Add(`{"product":{"attributes":{"instanceType":"x"}},"terms":{"OnDemand":{"":{"priceDimensions":{"":{"unit":"Hrs"}}}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parse(text, map[string]string{"regionCode": "us-east-1"})
		if err != nil && got != nil {
			t.Errorf("%+v with %v", got, err)
		}
		for i, p := range got {
			if p.perHour <= 0 || p.gpus < 0 || i > 0 && p.perHour > got[i-1].perHour {
				t.Errorf("price %d of %+v", i, got)
			}
		}
	})
}
