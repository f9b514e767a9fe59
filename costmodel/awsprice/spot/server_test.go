package spot

import (
	"encoding/xml"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"

	"anabranch/costmodel/awsprice"
)

// market speaks EC2's query protocol for two operations of one region, "eu-central-1".
type market struct {
	t   *testing.T
	url string

	mu       sync.Mutex // guards what is below
	history  []sold
	blocks   []block
	perPage  int // things on a page; 0: all
	throttle int // how many requests are refused before one is answered
	refuse   string
	loop     bool
	requests []url.Values
}

// sold is one price of the history, block one offering.
type sold struct {
	Instance string `xml:"instanceType"`
	Product  string `xml:"productDescription"`
	Price    string `xml:"spotPrice"`
	At       string `xml:"timestamp,omitempty"`
	Zone     string `xml:"availabilityZone,omitempty"`
}

type block struct {
	ID       string `xml:"capacityBlockOfferingId"`
	Instance string `xml:"instanceType"`
	Zone     string `xml:"availabilityZone"`
	Count    int    `xml:"instanceCount"`
	From     string `xml:"startDate"`
	Until    string `xml:"endDate"`
	Hours    int    `xml:"capacityBlockDurationHours"`
	Minutes  int    `xml:"capacityBlockDurationMinutes,omitempty"`
	Fee      string `xml:"upfrontFee"`
	Currency string `xml:"currencyCode"`
	Tenancy  string `xml:"tenancy"`
}

// answer is a page. The names of operations and their sets are told by EC2's documentation.
type answer struct {
	XMLName xml.Name
	ID      string  `xml:"requestId"`
	History []sold  `xml:"spotPriceHistorySet>item"`
	Blocks  []block `xml:"capacityBlockOfferingSet>item"`
	Next    string  `xml:"nextToken"`
}

func serve(t *testing.T) *market {
	t.Helper()
	m := &market{t: t}
	h := httptest.NewServer(m)
	t.Cleanup(h.Close)
	m.url = h.URL
	empty := filepath.Join(t.TempDir(), "none")
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "key-of-this-test", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_REGION": "",
		"AWS_DEFAULT_REGION": "", "AWS_CONFIG_FILE": empty, "AWS_SHARED_CREDENTIALS_FILE": empty, "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_ENDPOINT_URL": m.url, "AWS_ENDPOINT_URL_EC2": "", "AWS_MAX_ATTEMPTS": "4", "AWS_WEB_IDENTITY_TOKEN_FILE": "",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "", "AWS_CA_BUNDLE": "", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "",
	} {
		t.Setenv(name, value)
	}
	return m
}

// quick is the configuration that awsprice.Load gives, with pauses of a millisecond.
func quick(t *testing.T) aws.Config {
	t.Helper()
	c, err := awsprice.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Retryer = func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts, o.MaxBackoff = c.RetryMaxAttempts, time.Millisecond })
	}
	return c
}

func (m *market) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		m.t.Error(err)
	}
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	operation, form := understood(r, text)
	m.requests = append(m.requests, form)
	switch {
	case operation == "":
		fail(w, http.StatusBadRequest, "InvalidAction")
	case !strings.Contains(r.Header.Get("Authorization"), "Credential=key-of-this-test/") ||
		!strings.Contains(r.Header.Get("Authorization"), "/eu-central-1/ec2/aws4_request"):
		fail(w, http.StatusUnauthorized, "AuthFailure")
	case m.throttle > 0:
		m.throttle--
		fail(w, http.StatusServiceUnavailable, "RequestLimitExceeded")
	case m.refuse != "":
		fail(w, http.StatusBadRequest, m.refuse)
	default:
		m.page(w, operation, form)
	}
}

// understood is the operation that a request is, "" if it is none of those that are known.
func understood(r *http.Request, text []byte) (operation string, form url.Values) {
	form, err := url.ParseQuery(string(text))
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/" || form.Get("Version") != "2016-11-15" ||
		r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		return "", form
	}
	switch operation = form.Get("Action"); operation {
	case "DescribeSpotPriceHistory", "DescribeCapacityBlockOfferings":
		return operation, form
	}
	return "", form
}

func fail(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	_, _ = io.WriteString(w, xml.Header+"<Response><Errors><Error><Code>"+code+"</Code><Message>arn:aws:iam::123456789012:user/ann may not</Message></Error></Errors><RequestID>r-1</RequestID></Response>")
}

func (m *market) page(w http.ResponseWriter, operation string, form url.Values) {
	out := answer{XMLName: xml.Name{Space: "http://ec2.amazonaws.com/doc/2016-11-15/", Local: operation + "Response"}, ID: "r-1"}
	from, _ := strconv.Atoi(form.Get("NextToken"))
	var total int
	if operation == "DescribeSpotPriceHistory" {
		out.History, total = cut(m.history, from, m.perPage, func(s sold) bool {
			return slices.Contains(numbered(form, "InstanceType"), s.Instance) && slices.Contains(numbered(form, "ProductDescription"), s.Product)
		})
	} else {
		out.Blocks, total = cut(m.blocks, from, m.perPage, func(b block) bool { return b.Instance == form.Get("InstanceType") })
	}
	if to := from + max(len(out.History), len(out.Blocks)); to < total {
		out.Next = strconv.Itoa(to)
	}
	if m.loop {
		out.Next = strconv.Itoa(-len(m.requests))
	}
	if err := xml.NewEncoder(w).Encode(out); err != nil {
		m.t.Error(err)
	}
}

// cut is the page of those that fit which begins at from, and how many there are in all.
func cut[T any](all []T, from, perPage int, fits func(T) bool) ([]T, int) {
	var found []T
	for _, one := range all {
		if fits(one) {
			found = append(found, one)
		}
	}
	if perPage <= 0 {
		perPage = len(found)
	}
	from = max(from, 0)
	return found[from:min(len(found), from+perPage)], len(found)
}

// numbered are the values of name.1, name.2 and so on.
func numbered(form url.Values, name string) []string {
	var out []string
	for i := 1; form.Has(name + "." + strconv.Itoa(i)); i++ {
		out = append(out, form.Get(name+"."+strconv.Itoa(i)))
	}
	return out
}

func (m *market) set(change func()) { m.mu.Lock(); defer m.mu.Unlock(); change() }

func (m *market) asked() int { m.mu.Lock(); defer m.mu.Unlock(); return len(m.requests) }

// The requests that the SDK's makers keep with it are what the server must understand.
func TestTheServerUnderstandsWhatTheSDKSends(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/aws-sdk-go-v2/service/ec2").Output()
	if err != nil {
		t.Fatal(err)
	}
	for operation, instance := range map[string]string{"DescribeSpotPriceHistory": "InstanceType.1", "DescribeCapacityBlockOfferings": "InstanceType"} {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "request_snapshot", operation+".request.snap"))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		method, path, _ := strings.Cut(lines[0], " ")
		r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
		for _, line := range lines[1 : len(lines)-1] {
			if name, value, ok := strings.Cut(line, ": "); ok {
				r.Header.Set(name, value)
			}
		}
		got, form := understood(r, []byte(lines[len(lines)-1]))
		if got != operation || !form.Has(instance) || !form.Has("NextToken") || !form.Has("MaxResults") {
			t.Errorf("%s is taken for %q with %v", operation, got, form)
		}
	}
}
