package market

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"anabranch/api/fleet"
	"anabranch/controlplane/prices"
	"anabranch/costmodel"
	"anabranch/costmodel/pricelist"
)

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

// calls are what AWS was asked: "pricing p5.48xlarge eu-central-1", "spot p5.4xlarge p5.48xlarge".
type calls struct {
	mu  sync.Mutex // guards all
	all []string
}

func (c *calls) add(words ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, strings.Join(words, " "))
}

func (c *calls) sorted() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(slices.Values(c.all))
}

var (
	instanceType = regexp.MustCompile(`InstanceType(?:\.\d+)?=([a-z0-9.-]+)`)
	filterOf     = regexp.MustCompile(`"Field":"(instanceType|regionCode)"[^}]*"Value":"([^"]+)"`)
)

// fakeAWS answers at a loopback address as the Price List and EC2 do: a price for whatever it is asked.
func fakeAWS(t *testing.T) *calls {
	t.Helper()
	asked := &calls{}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		body := string(text)
		const ec2 = ` xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId>`
		var types []string
		for _, m := range instanceType.FindAllStringSubmatch(body, -1) {
			types = append(types, m[1])
		}
		switch {
		case r.Header.Get("X-Amz-Target") == "AWSPriceListService.GetProducts":
			values := map[string]string{}
			for _, m := range filterOf.FindAllStringSubmatch(body, -1) {
				values[m[1]] = m[2]
			}
			asked.add("pricing", values["instanceType"], values["regionCode"])
			item := fmt.Sprintf(`{"product":{"attributes":{"instanceType":%q,"regionCode":%q}},"terms":{"OnDemand":{"a":{"effectiveDate":"2026-11-01T00:00:00Z",`+
				`"priceDimensions":{"b":{"unit":"Hrs","pricePerUnit":{"USD":"68.8"}}}}}}}`, values["instanceType"], values["regionCode"])
			_, _ = fmt.Fprintf(w, `{"FormatVersion":"aws_v1","PriceList":[%q]}`, item)
		case strings.Contains(body, "Action=DescribeSpotPriceHistory"):
			asked.add(append([]string{"spot"}, types...)...)
			_, _ = fmt.Fprintf(w, `<DescribeSpotPriceHistoryResponse`+ec2+`<spotPriceHistorySet><item><instanceType>%s</instanceType>`+
				`<productDescription>Linux/UNIX</productDescription><spotPrice>32.7</spotPrice><timestamp>2026-11-30T01:00:00.000Z</timestamp>`+
				`<availabilityZone>eu-central-1a</availabilityZone></item></spotPriceHistorySet><nextToken/></DescribeSpotPriceHistoryResponse>`, types[0])
		case strings.Contains(body, "Action=DescribeCapacityBlockOfferings"):
			asked.add(append([]string{"block"}, types...)...)
			_, _ = io.WriteString(w, `<DescribeCapacityBlockOfferingsResponse`+ec2+`<capacityBlockOfferingSet/></DescribeCapacityBlockOfferingsResponse>`)
		default:
			t.Errorf("asked for %s", body)
		}
	}))
	t.Cleanup(h.Close)
	t.Setenv("AWS_ENDPOINT_URL", h.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "key-of-this-test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret-of-this-test")
	return asked
}

var needs = []prices.Need{
	{Region: "eu", Class: "h100", Instance: "p5.48xlarge", Purchase: costmodel.OnDemand},
	{Region: "eu", Class: "h100", Purchase: costmodel.Spot},
	{Region: "eu", Class: "h200", Purchase: costmodel.CapacityBlock},
	{Region: "eu", Class: "l4", Purchase: costmodel.Owned},
	{Region: "eu", Class: "x100", Instance: "p9.48xlarge", Purchase: costmodel.OnDemand},
	{Region: "home", Class: "h100", Purchase: costmodel.OnDemand},
	{Region: "us-east-1", Class: "b200", Purchase: costmodel.OnDemand},
}

func TestOnlyWhatClustersNeedIsAsked(t *testing.T) {
	withoutAWS(t)
	asked := fakeAWS(t)
	o := Options{AWS: true, Regions: []string{"eu=eu-central-1"}, Instances: []string{"p9.48xlarge=x100:8"}}
	groups, err := o.Groups(t.Context())
	if err != nil || len(groups) != 1 || groups[0].Every != DefaultInterval {
		t.Fatalf("%+v, %v", groups, err)
	}
	sources, err := groups[0].Sources(needs)
	if err != nil {
		t.Fatal(err)
	}
	var offers []costmodel.Offer
	for _, s := range sources {
		got, err := s.Offers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		offers = append(offers, got...)
	}
	want := []string{
		"block p5e.48xlarge", "block p5en.48xlarge", "pricing p5.48xlarge eu-central-1", "pricing p9.48xlarge eu-central-1", "spot p5.4xlarge p5.48xlarge",
	}
	if got := asked.sorted(); !slices.Equal(got, want) {
		t.Errorf("asked for\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(offers) != 3 {
		t.Fatalf("%+v", offers)
	}
	for i, want := range []string{"p5.48xlarge h100 8 on-demand $68.80", "p9.48xlarge x100 8 on-demand $68.80", "p5.4xlarge h100 1 spot $32.70"} {
		o := offers[i]
		if got := fmt.Sprint(o.Instance, " ", o.Class, " ", o.GPUs, " ", o.Purchase, " ", o.PerHour); got != want || o.Region != "eu" || o.Origin != costmodel.Live {
			t.Errorf("got %s in %s, want %s", got, o.Region, want)
		}
	}
	if sources, err := groups[0].Sources(nil); err != nil || len(sources) != 0 {
		t.Errorf("of no clusters: %d sources, %v", len(sources), err)
	}
}

func TestRegionsAreThoseOfClustersThatAWSHas(t *testing.T) {
	withoutAWS(t)
	groups, err := Options{AWS: true}.Groups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sources, err := groups[0].Sources(append(slices.Clone(needs), prices.Need{Region: "us-gov-west-1", Class: "h100", Purchase: costmodel.OnDemand}))
	if err != nil || len(sources) != 1 || sources[0].Name() != "aws on-demand us-east-1" {
		t.Fatalf("%v, %v", sources, err)
	}
	if _, err := sources[0].Offers(t.Context()); err == nil || !strings.Contains(err.Error(), pricelist.ErrAbsent.Error()) {
		t.Errorf("without credentials: %v", err)
	}
}

func TestFilesAreReadSoon(t *testing.T) {
	groups, err := Options{Files: []string{"b.yaml", "a.csv", "b.yaml"}}.Groups(t.Context())
	if err != nil || len(groups) != 1 || groups[0].Every > 30*time.Second {
		t.Fatalf("%+v, %v", groups, err)
	}
	sources, err := groups[0].Sources(nil)
	if err != nil || len(sources) != 2 || sources[0].Name() != "file a.csv" {
		t.Errorf("%v, %v", sources, err)
	}
	if groups, err := (Options{}).Groups(t.Context()); err != nil || len(groups) != 0 {
		t.Errorf("nobody is to be asked: %v, %v", groups, err)
	}
}

func TestWhatIsWrongIsToldByFlag(t *testing.T) {
	withoutAWS(t)
	for args, want := range map[string]string{
		"--price-file prices.txt":                              "--price-file: prices.txt does not end in",
		"--aws-prices --price-interval 1s":                     "--price-interval: 1s is too short, the least is 1m0s",
		"--aws-regions us-east-1":                              "give --aws-prices too",
		"--aws-instances p5.48xlarge":                          "give --aws-prices too",
		"--aws-prices --aws-regions mars":                      `--aws-regions: "mars" is neither`,
		"--aws-prices --aws-regions =us-east-1":                `"=us-east-1" is neither`,
		"--aws-prices --aws-regions us-east-1,us-east-1":       "there twice",
		"--aws-prices --aws-regions a=us-east-1,b=us-east-1":   "there twice",
		"--aws-prices --aws-instances p9.48xlarge":             "--aws-instances: the instance type",
		"--aws-prices --aws-instances p9.48xlarge=x100:0":      "--aws-instances:",
		"--aws-prices --aws-regions eu=eu-central-1":           "",
		"--price-file a.CSV --price-file b.yml --aws-prices":   "",
		"--price-file a.json --price-interval 2m --aws-prices": "",
	} {
		var o Options
		fl := pflag.NewFlagSet("test", pflag.ContinueOnError)
		o.Bind(fl)
		if err := fl.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		_, err := o.Groups(t.Context())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	t.Setenv("AWS_PROFILE", "not-there")
	if _, err := (Options{AWS: true}).Groups(t.Context()); err == nil || !strings.Contains(err.Error(), "--aws-prices: ") {
		t.Errorf("a profile that is not there: %v", err)
	}
}

func TestRegionsHaveTheirNamesAtAWS(t *testing.T) {
	o := Options{AWS: true, Regions: []string{"eu=eu-central-1", "us-east-1"}}
	for region, want := range map[fleet.RegionID]string{"eu": "eu-central-1", "us-east-1": "us-east-1", "ap": "ap"} {
		if got := o.Code(region); got != want {
			t.Errorf("%s is called %s, want %s", region, got, want)
		}
	}
}
