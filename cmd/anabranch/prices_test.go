package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"anabranch/costmodel"
	"anabranch/costmodel/pricelist"
)

// shown is what `anabranch prices -o json` writes.
type shown struct {
	Offers  []priced
	Sources []pricelist.State
}

func (s session) priced(code int, args ...string) shown {
	s.t.Helper()
	out, _ := s.do(code, "", append([]string{"prices", "-o", "json"}, args...)...)
	var v shown
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	return v
}

// withoutAWS takes away what the environment may say of AWS.
func withoutAWS(t *testing.T) {
	t.Helper()
	empty := filepath.Join(t.TempDir(), "none")
	for name, value := range map[string]string{
		"AWS_CONFIG_FILE": empty, "AWS_SHARED_CREDENTIALS_FILE": empty, "AWS_EC2_METADATA_DISABLED": "true", "AWS_ACCESS_KEY_ID": "",
		"AWS_SECRET_ACCESS_KEY": "", "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_WEB_IDENTITY_TOKEN_FILE": "", "AWS_ENDPOINT_URL": "",
		"AWS_ENDPOINT_URL_EC2": "", "AWS_ENDPOINT_URL_PRICING": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "", "AWS_MAX_ATTEMPTS": "1", "AWS_CA_BUNDLE": "", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "",
	} {
		t.Setenv(name, value)
	}
}

// aws answers as the Price List and EC2 do, with one price each for one instance type; refusing, it denies the
// spot market.
func aws(t *testing.T, refusing *atomic.Bool) {
	t.Helper()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		body := string(text)
		const ec2 = ` xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId>`
		switch {
		case r.Header.Get("X-Amz-Target") == "AWSPriceListService.GetProducts":
			item := `{"product":{"attributes":{"instanceType":"p5.48xlarge","regionCode":"eu-central-1"}},"terms":{"OnDemand":{"a":{"effectiveDate":"2026-11-01T00:00:00Z",` +
				`"priceDimensions":{"b":{"unit":"Hrs","pricePerUnit":{"USD":"68.8000000000"}}}}}}}`
			_, _ = fmt.Fprintf(w, `{"FormatVersion":"aws_v1","PriceList":[%q]}`, item)
		case refusing.Load():
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>no</Message></Error></Errors><RequestID>r</RequestID></Response>`)
		case strings.Contains(body, "Action=DescribeSpotPriceHistory"):
			_, _ = io.WriteString(w, `<DescribeSpotPriceHistoryResponse`+ec2+`<spotPriceHistorySet><item><instanceType>p5.48xlarge</instanceType>`+
				`<productDescription>Linux/UNIX</productDescription><spotPrice>32.772600</spotPrice><timestamp>2026-11-30T01:00:00.000Z</timestamp>`+
				`<availabilityZone>eu-central-1a</availabilityZone></item></spotPriceHistorySet><nextToken/></DescribeSpotPriceHistoryResponse>`)
		case strings.Contains(body, "Action=DescribeCapacityBlockOfferings"):
			_, _ = io.WriteString(w, `<DescribeCapacityBlockOfferingsResponse`+ec2+`<capacityBlockOfferingSet><item><instanceType>p5.48xlarge</instanceType>`+
				`<availabilityZone>eu-central-1b</availabilityZone><instanceCount>1</instanceCount><startDate>2099-01-01T11:30:00.000Z</startDate>`+
				`<endDate>2099-01-02T11:30:00.000Z</endDate><capacityBlockDurationHours>24</capacityBlockDurationHours><upfrontFee>755.136</upfrontFee>`+
				`<currencyCode>USD</currencyCode></item></capacityBlockOfferingSet></DescribeCapacityBlockOfferingsResponse>`)
		default:
			t.Errorf("asked for %s", body)
		}
	}))
	t.Cleanup(h.Close)
	t.Setenv("AWS_ENDPOINT_URL", h.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "key-of-this-test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret-of-this-test")
}

const card = `apiVersion: anabranch/v1
kind: RateCard
metadata: {name: ours}
spec: {gpus: [{class: h100, region: eu, usdPerHour: 2.5}]}
`

func TestPricesOfAllSources(t *testing.T) {
	s := begin(t)
	withoutAWS(t)
	var refusing atomic.Bool
	aws(t, &refusing)
	s.file("contract.csv", "class,instance,gpus,region,usdPerHour,source,asOf\nh100,p5.48xlarge,8,eu,50,our contract,2026-11-01\n")
	s.do(0, card, "apply", "-f", "-")
	args := []string{"--aws", "eu=eu-central-1", "--instance", "p5.48xlarge", "--file", "contract.csv"}

	v := s.priced(0, args...)
	want := []string{
		"capacity-block eu-central-1b 31.464 3.933 live price EC2 capacity block offerings false begins 2099-01-01T11:30:00Z",
		"on-demand  50.00 6.25 price file our contract false live price: before the price file at $8.60",
		"on-demand  68.80 8.60 live price AWS Price List true live price: before the price file",
		"spot eu-central-1a 32.7726 4.096575 live price EC2 spot price history true live price",
	}
	if len(v.Offers) != len(want) || len(v.Sources) != 4 {
		t.Fatalf("got %+v", v)
	}
	for i, p := range v.Offers {
		got := strings.Join([]string{p.Purchase, p.Zone, p.USDPerHour, p.USDPerGPUHour, p.Origin, p.Source, fmt.Sprint(p.Used), p.Why}, " ")
		if p.Class != "h100" || p.Instance != "p5.48xlarge" || p.GPUs != 8 || p.Region != "eu" || got != want[i] {
			t.Errorf("got  %s\nwant %s", got, want[i])
		}
	}
	for _, state := range v.Sources {
		if state.Standing != pricelist.Good || state.Offers != 1 || state.Read.IsZero() {
			t.Errorf("%+v", state)
		}
	}

	v = s.priced(0, append(args, "--cards", "--purchase", "on-demand", "--class", "H100", "--region", "eu")...)
	if len(v.Offers) != 3 || !v.Offers[0].Used || v.Offers[0].Source != "rate card ours" || v.Offers[0].USDPerHour != "2.50" || v.Offers[1].Used || v.Offers[2].Used {
		t.Errorf("an operator's price does not beat others: %+v", v.Offers)
	}
	if v = s.priced(0, append(args, "--class", "l4")...); len(v.Offers) != 0 {
		t.Errorf("of another class: %+v", v.Offers)
	}

	refusing.Store(true)
	out, errs := s.do(exitFailed, "", append([]string{"prices"}, args...)...)
	if !strings.Contains(errs, "2 of 4 sources of prices failed: aws spot eu-central-1, aws capacity blocks eu-central-1") || strings.Contains(out+errs, "secret-of-this-test") {
		t.Errorf("told: %s", errs)
	}
	for _, part := range []string{"$68.80", "aws spot eu-central-1", "failing", "UnauthorizedOperation", "USED", "ANSWER"} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is missing:\n%s", part, out)
		}
	}
}

func TestPricesWithoutCredentialsAreNoError(t *testing.T) {
	s := begin(t)
	withoutAWS(t)
	out, _ := s.do(0, "", "prices", "--aws", "us-east-1")
	if strings.Count(out, "absent") != 3 || strings.Count(out, "no AWS credentials") != 3 {
		t.Errorf("told:\n%s", out)
	}
}

func TestPricesThatComeWithTheProgram(t *testing.T) {
	s := begin(t)
	s.do(0, `apiVersion: anabranch/v1
kind: RateCard
metadata: {name: ours}
spec:
  gpus:
    - {class: h100, region: us-east-1, instance: p5.48xlarge, availabilityZone: us-east-1a, usdPerHour: 5, from: "2026-01-01T00:00:00Z"}
    - {class: h100, region: us-east-1, instance: p5.4xlarge, usdPerHour: 1, until: "2026-01-01T00:00:00Z"}
`, "apply", "-f", "-")
	var got []string
	for _, p := range s.priced(0, "--cards", "--shipped", "--class", "h100", "--region", "us-east-1").Offers {
		got = append(got, strings.Join([]string{p.Instance, p.Zone, p.USDPerHour, p.USDPerGPUHour, p.Origin, fmt.Sprint(p.Used), p.Why}, " "))
		if p.Origin == "shipped default" && (p.AsOf.IsZero() || !strings.HasPrefix(p.Source, "https://")) {
			t.Errorf("read in %q as of %v", p.Source, p.AsOf)
		}
	}
	want := []string{
		"p5.4xlarge  1.00 1.00 operator's price false over",
		"p5.4xlarge  6.88 6.88 shipped default true shipped default",
		"p5.48xlarge  55.04 6.88 shipped default false operator's price: before the shipped default at $5.00",
		"p5.48xlarge us-east-1a 5.00 5.00 operator's price true operator's price: before the shipped default",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// What follows the first look writes a bad file, so that the second fails and shows what the first found.
type spoiler struct {
	strings.Builder
	file string
	t    *testing.T
}

func (s *spoiler) Write(text []byte) (int, error) {
	if err := os.WriteFile(s.file, []byte("colour\n"), 0o600); err != nil {
		s.t.Error(err)
	}
	return s.Builder.Write(text)
}

func TestAWatchOfPricesKeepsTheLastGoodOnes(t *testing.T) {
	s := begin(t)
	s.file("a.csv", "class,region,usdPerHour,estimate\nh100,eu,2,true\n")
	out := &spoiler{file: "a.csv", t: t}
	var errs strings.Builder
	if code := run(t.Context(), []string{"anabranch", "prices", "--file", "a.csv", "--watch", "200ms", "--count", "2", "-o", "json"}, nil, out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, &errs)
	}
	looks := json.NewDecoder(strings.NewReader(out.String()))
	for i, want := range []pricelist.Standing{pricelist.Good, pricelist.Failing} {
		var v shown
		if err := looks.Decode(&v); err != nil {
			t.Fatal(err)
		}
		state := v.Sources[0]
		if len(v.Offers) != 1 || v.Offers[0].USDPerHour != "2.00" || !v.Offers[0].Estimate || state.Standing != want || state.Failures != i {
			t.Errorf("look %d: %+v", i, v)
		}
	}
}

func TestPricesSayHowTheyAreUsed(t *testing.T) {
	s := begin(t)
	withoutAWS(t)
	for args, want := range map[string]string{
		"--instance p5.48xlarge":           "give --aws REGION too",
		"--cards --cluster us-1":           "--cluster is of the control plane's prices",
		"--aws ,":                          "no region",
		"--aws a --aws a":                  "two sources",
		"--aws a --instance p9.metal":      "not known",
		"--file a --watch 1ms":             "too short",
		"--file a --watch 1s --count -1":   "below 0",
		"--file a -o xml":                  "unknown",
		"--file a --instance":              "needs an argument",
		"--aws us= --instance p5.48xlarge": "no region",
	} {
		if _, errs := s.do(exitUsage, "", append([]string{"prices"}, strings.Fields(args)...)...); !strings.Contains(errs, want) {
			t.Errorf("prices %s: %s", args, errs)
		}
	}
	if _, errs := s.do(exitFailed, "", "prices", "--file", "none.csv"); !strings.Contains(errs, "file none.csv") {
		t.Errorf("no file: %s", errs)
	}
	if got := decimal(1_500_000 * costmodel.Micros(1)); got != "1.50" {
		t.Errorf("an amount is written %q", got)
	}
}
