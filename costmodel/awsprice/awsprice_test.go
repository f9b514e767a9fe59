package awsprice

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"anabranch/costmodel"
	"anabranch/costmodel/pricelist"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func catalogue(t *testing.T, config aws.Config, instances ...string) *Catalogue {
	t.Helper()
	o := Options{Place: Place{Code: "eu-central-1", Region: "eu"}, Now: func() time.Time { return noon }}
	for _, name := range instances {
		i, err := ParseInstance(name)
		if err != nil {
			t.Fatal(err)
		}
		o.Instances = append(o.Instances, i)
	}
	c, err := New(config, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPricesOnDemandAreOffers(t *testing.T) {
	p := serve(
		t, product("p5.48xlarge", "us-east-1", "55.04"), product("p5.48xlarge", "eu-central-1", "68.8000000000"),
		product("p5.48xlarge", "eu-central-1", "99", "operatingSystem", "Windows"), product("g6.48xlarge", "eu-central-1", "16.69"),
	)
	c := catalogue(t, quick(t), "p5.48xlarge", "p5e.48xlarge", "g6.48xlarge")
	got, err := c.Offers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []costmodel.Offer{
		{
			Class: "h100", Instance: "p5.48xlarge", GPUs: 8, Region: "eu", Purchase: costmodel.OnDemand, PerHour: 68_800_000, Origin: costmodel.Live,
			From: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Source: "AWS Price List of 2026-11-20", AsOf: noon,
		},
		{
			Class: "l4", Instance: "g6.48xlarge", GPUs: 8, Region: "eu", Purchase: costmodel.OnDemand, PerHour: 16_690_000, Origin: costmodel.Live,
			From: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Source: "AWS Price List of 2026-11-20", AsOf: noon,
		},
	}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if p.asked() != 3 {
		t.Errorf("%d requests for three types", p.asked())
	}
	if found, ok := costmodel.NewBook(noon, got).Find(costmodel.Want{Class: "H100", Region: "eu"}); !ok || found.GPUsPerHour(1) != 8_600_000 {
		t.Errorf("a GPU costs %+v", found)
	}
}

func TestAllPagesAreRead(t *testing.T) {
	var products []string
	for _, usd := range []string{"1", "2", "3", "4", "5"} {
		products = append(products, product("p5.48xlarge", "eu-central-1", usd))
	}
	p := serve(t, products...)
	p.perPage = 2
	got, err := catalogue(t, quick(t), "p5.48xlarge").Offers(t.Context())
	if err != nil || len(got) != 5 || p.asked() != 3 {
		t.Errorf("%d offers in %d requests, %v", len(got), p.asked(), err)
	}
	p.set(func() { p.loop, p.requests = true, 0 })
	if _, err := catalogue(t, quick(t), "p5.48xlarge").Offers(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 20 pages") || p.asked() != maxPages {
		t.Errorf("pages without end: %v after %d requests", err, p.asked())
	}
}

func TestThrottlingIsBorneWithinBounds(t *testing.T) {
	p := serve(t, product("p5.48xlarge", "eu-central-1", "68.8"))
	p.throttle = attempts - 1
	got, err := catalogue(t, quick(t), "p5.48xlarge").Offers(t.Context())
	if err != nil || len(got) != 1 || p.asked() != attempts {
		t.Errorf("%d offers in %d requests, %v", len(got), p.asked(), err)
	}
	p.set(func() { p.throttle, p.requests = 1000, 0 })
	_, err = catalogue(t, quick(t), "p5.48xlarge").Offers(t.Context())
	if err == nil || !strings.Contains(err.Error(), "ThrottlingException") || !strings.Contains(err.Error(), "p5.48xlarge in eu-central-1") || p.asked() != attempts {
		t.Errorf("%d requests, %v", p.asked(), err)
	}
	t.Setenv("AWS_MAX_ATTEMPTS", "2")
	p.set(func() { p.requests = 0 })
	if _, err = catalogue(t, quick(t), "p5.48xlarge").Offers(t.Context()); err == nil || p.asked() != 2 {
		t.Errorf("AWS_MAX_ATTEMPTS=2: %d requests, %v", p.asked(), err)
	}
}

func TestWhatIsWrongIsToldAndNothingIsHalf(t *testing.T) {
	good := product("p5.48xlarge", "eu-central-1", "68.8")
	for name, c := range map[string]struct {
		change func(p *priceList)
		want   string
	}{
		"refused":             {func(p *priceList) { p.refuse = "AccessDeniedException" }, "AccessDeniedException"},
		"an unreadable item":  {func(p *priceList) { p.products = append(p.products, "{") }, "read the price list"},
		"an unreadable page":  {func(p *priceList) { p.answer = `{"PriceList":[` }, "price of p5.48xlarge"},
		"another GPU count":   {func(p *priceList) { p.products = []string{strings.Replace(good, `"gpu":"8"`, `"gpu":"4"`, 1)} }, "4 GPUs, not 8"},
		"longer than allowed": {func(p *priceList) { p.answer = `{"PriceList":["` + strings.Repeat("x", maxBody) + `"]}` }, "more than 32 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			p := serve(t, good)
			c.change(p)
			got, err := catalogue(t, quick(t), "p5.48xlarge").Offers(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) || got != nil {
				t.Errorf("%d offers, %v", len(got), err)
			}
			if errors.Is(err, pricelist.ErrAbsent) || err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "123456789012")) {
				t.Errorf("told wrongly: %v", err)
			}
		})
	}
	serve(t, good)
	c := catalogue(t, quick(t), "p5.48xlarge")
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := c.Offers(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := New(quick(t), Options{}); err == nil {
		t.Error("a catalogue of nowhere")
	}
	if all := catalogue(t, quick(t)); len(all.o.Instances) != len(known) || all.Name() != "aws on-demand eu-central-1" || (Place{Code: "a"}).Name() != "a" {
		t.Errorf("by default: %+v", all.o)
	}
}

func TestNoCredentialsAreANormalState(t *testing.T) {
	alone(t)
	if _, err := catalogue(t, quick(t), "p5.48xlarge").Offers(t.Context()); !errors.Is(err, pricelist.ErrAbsent) {
		t.Errorf("with nothing set: %v", err)
	}
	if err := Credentials(t.Context(), aws.Config{}); !errors.Is(err, pricelist.ErrAbsent) {
		t.Errorf("without a provider: %v", err)
	}
	machine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "60")
			_, _ = w.Write([]byte("token"))
			return
		}
		http.NotFound(w, r) // a machine without a role
	}))
	defer machine.Close()
	t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", machine.URL)
	if err := Credentials(t.Context(), quick(t)); !errors.Is(err, pricelist.ErrAbsent) {
		t.Errorf("a machine without a role: %v", err)
	}
	broken := aws.Config{Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, errors.New("the role may not be taken")
	})}
	if err := Credentials(t.Context(), broken); err == nil || errors.Is(err, pricelist.ErrAbsent) || !strings.Contains(err.Error(), "may not be taken") {
		t.Errorf("credentials that don't work: %v", err)
	}
}

func TestAnEndpointOfTheServiceAloneIsHonoured(t *testing.T) {
	p := serve(t, product("p5.48xlarge", "eu-central-1", "68.8"))
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
	t.Setenv("AWS_ENDPOINT_URL_PRICING", p.url)
	if got, err := catalogue(t, quick(t), "p5.48xlarge").Offers(t.Context()); err != nil || len(got) != 1 {
		t.Errorf("%d offers, %v", len(got), err)
	}
}
