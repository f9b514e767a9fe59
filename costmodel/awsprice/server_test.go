package awsprice

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// priceList speaks the JSON 1.1 protocol of the Price List for one operation.
type priceList struct {
	t   *testing.T
	url string

	mu       sync.Mutex // guards what is below
	products []string
	perPage  int // products on a page; 0: all
	loop     bool
	throttle int    // how many requests are refused before one is answered
	refuse   string // exception of every answer; empty: none
	requests int
	answer   string // in place of a page
}

// request is the body of GetProducts.
type request struct {
	Filters []struct{ Field, Type, Value string }

	ServiceCode, FormatVersion, NextToken string
}

func (r request) filters() map[string]string {
	out := map[string]string{}
	for _, f := range r.Filters {
		if f.Type == "TERM_MATCH" {
			out[f.Field] = f.Value
		}
	}
	return out
}

// serve starts a list of these products, and points the environment to it.
func serve(t *testing.T, products ...string) *priceList {
	t.Helper()
	p := &priceList{t: t, products: products}
	h := httptest.NewServer(p)
	t.Cleanup(h.Close)
	p.url = h.URL
	alone(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "key-of-this-test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_ENDPOINT_URL", p.url)
	return p
}

// alone takes away whatever the environment may say of AWS.
func alone(t *testing.T) {
	t.Helper()
	for _, both := range os.Environ() {
		if name, value, _ := strings.Cut(both, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, value) // so that it comes back
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	empty := filepath.Join(t.TempDir(), "none")
	t.Setenv("AWS_CONFIG_FILE", empty)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", empty)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

// quick is the configuration that Load gives, with pauses of a millisecond.
func quick(t *testing.T) aws.Config {
	t.Helper()
	c, err := Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Retryer = patient(c.RetryMaxAttempts, time.Millisecond)
	return c
}

func (p *priceList) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	var in request
	text, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Error(err)
	}
	switch {
	case !understood(r, text, &in):
		fail(w, http.StatusBadRequest, "UnknownOperationException")
	case !strings.Contains(r.Header.Get("Authorization"), "Credential=key-of-this-test/") ||
		!strings.Contains(r.Header.Get("Authorization"), "/us-east-1/pricing/aws4_request"):
		fail(w, http.StatusBadRequest, "IncompleteSignatureException")
	case p.refuse != "":
		fail(w, http.StatusBadRequest, p.refuse)
	case p.throttle > 0:
		p.throttle--
		fail(w, http.StatusBadRequest, "ThrottlingException")
	case p.answer != "":
		_, _ = io.WriteString(w, p.answer)
	default:
		p.page(w, in)
	}
}

func understood(r *http.Request, text []byte, in *request) bool {
	return r.Method == http.MethodPost && r.URL.Path == "/" && r.Header.Get("Content-Type") == "application/x-amz-json-1.1" &&
		r.Header.Get("X-Amz-Target") == "AWSPriceListService.GetProducts" && json.Unmarshal(text, in) == nil && in.ServiceCode != ""
}

func fail(w http.ResponseWriter, status int, exception string) {
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"__type":%q,"Message":"arn:aws:iam::123456789012:user/ann may not"}`, exception)
}

// page answers with the products that match all filters.
func (p *priceList) page(w http.ResponseWriter, in request) {
	var found []string
	for _, text := range p.products {
		var it item
		if err := json.Unmarshal([]byte(text), &it); err != nil {
			found = append(found, text) // what can't be read matches everything
			continue
		}
		fits := true
		for field, value := range in.filters() {
			fits = fits && it.Product.Attributes[field] == value
		}
		if fits {
			found = append(found, text)
		}
	}
	from, _ := strconv.Atoi(in.NextToken)
	to := len(found)
	var out struct {
		FormatVersion string
		PriceList     []string
		NextToken     string `json:",omitempty"`
	}
	out.FormatVersion = in.FormatVersion
	if p.perPage > 0 && from+p.perPage < to {
		to = from + p.perPage
		out.NextToken = strconv.Itoa(to)
	}
	if p.loop {
		out.NextToken = strconv.Itoa(p.requests)
		from = 0
	}
	out.PriceList = found[from:to]
	if err := json.NewEncoder(w).Encode(out); err != nil {
		p.t.Error(err)
	}
}

func (p *priceList) set(change func()) { p.mu.Lock(); defer p.mu.Unlock(); change() }

func (p *priceList) asked() int { p.mu.Lock(); defer p.mu.Unlock(); return p.requests }

// The request that the SDK's makers keep with it is what the server must understand.
func TestTheServerUnderstandsWhatTheSDKSends(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/aws-sdk-go-v2/service/pricing").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "request_snapshot", "GetProducts.request.snap"))
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ := strings.Cut(string(text), "\n{")
	lines := strings.Split(head, "\n")
	method, path, _ := strings.Cut(lines[0], " ")
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	for _, line := range lines[1:] {
		if name, value, ok := strings.Cut(line, ": "); ok {
			r.Header.Set(name, value)
		}
	}
	var in request
	if !understood(r, []byte("{"+body), &in) || len(in.filters()) != 1 || in.filters()["__Field__"] != "__Value__" || in.NextToken != "__NextToken__" {
		t.Errorf("not understood:\n%s\n%+v", text, in)
	}
}
