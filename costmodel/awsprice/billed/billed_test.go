package billed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"

	"anabranch/costmodel"
	"anabranch/costmodel/awsprice"
	"anabranch/costmodel/pricelist"
)

// row is a group of an answer: region, instance type, amount.
type row [3]string

// explorer speaks JSON 1.1 for GetCostAndUsage, in the shapes of
// https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_GetCostAndUsage.html
type explorer struct {
	t *testing.T

	mu        sync.Mutex // guards what is below
	rows      []row
	perPage   int // groups on a page; 0: all
	loop      bool
	unit      string // default USD
	estimated bool
	keys      int // of a group, default 2
	throttle  int
	refuse    string
	asked     []question
}

type question struct {
	TimePeriod  struct{ Start, End string }
	Granularity string
	Metrics     []string
	GroupBy     []struct{ Type, Key string }
	Filter      struct {
		And []struct {
			Dimensions struct {
				Key    string
				Values []string
			}
		}
	}
	NextPageToken string
}

func (e *explorer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	fail := func(name string) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"__type":%q,"message":"arn:aws:iam::123456789012:user/ann may not"}`, name)
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	text, err := io.ReadAll(r.Body)
	var q question
	switch {
	case err != nil, r.Header.Get("X-Amz-Target") != "AWSInsightsIndexService.GetCostAndUsage",
		r.Header.Get("Content-Type") != "application/x-amz-json-1.1", json.Unmarshal(text, &q) != nil:
		fail("UnknownOperationException")
	case !strings.Contains(r.Header.Get("Authorization"), "/us-east-1/ce/aws4_request"):
		fail("IncompleteSignatureException")
	case e.refuse != "":
		fail(e.refuse)
	case e.throttle > 0:
		e.throttle--
		fail("LimitExceededException")
	default:
		e.asked = append(e.asked, q)
		e.answer(w, q)
	}
}

func (e *explorer) answer(w http.ResponseWriter, q question) {
	from, _ := strconv.Atoi(q.NextPageToken)
	to, next := len(e.rows), ""
	if e.perPage > 0 && from+e.perPage < to {
		to = from + e.perPage
		next = strconv.Itoa(to)
	}
	if e.loop {
		from, next = 0, "0"
	}
	groups := []any{}
	for _, r := range e.rows[from:to] {
		unit := e.unit
		if unit == "" {
			unit = "USD"
		}
		keys := []string{r[0], r[1]}
		if e.keys > 0 {
			keys = keys[:e.keys]
		}
		groups = append(groups, map[string]any{
			"Keys": keys, "Metrics": map[string]any{"AmortizedCost": map[string]string{"Amount": r[2], "Unit": unit}},
		})
	}
	out := map[string]any{
		"ResultsByTime": []any{map[string]any{"TimePeriod": q.TimePeriod, "Estimated": e.estimated, "Groups": groups, "Total": map[string]any{}}},
	}
	if next != "" {
		out["NextPageToken"] = next
	}
	if err := json.NewEncoder(w).Encode(out); err != nil {
		e.t.Error(err)
	}
}

// serve starts a Cost Explorer that billed these rows, and the client as it is configured by the environment.
func serve(t *testing.T, rows ...row) (*explorer, *Explorer) {
	t.Helper()
	e := &explorer{t: t, rows: rows}
	h := httptest.NewServer(e)
	t.Cleanup(h.Close)
	alone(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_ENDPOINT_URL", h.URL)
	return e, New(config(t))
}

// config is as awsprice.Load gives it, with pauses of a millisecond.
func config(t *testing.T) aws.Config {
	t.Helper()
	c, err := awsprice.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Retryer = func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts, o.MaxBackoff = 3, time.Millisecond })
	}
	return c
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

var evening = time.Date(2026, 11, 27, 23, 30, 0, 0, time.FixedZone("", -3600)) // the 28th in UTC

func TestADayIsAskedForOnceAndRead(t *testing.T) {
	e, x := serve(t, row{"us-east-1", "p5.48xlarge", "1321.0000000000"}, row{"eu-west-1", "p5.48xlarge", "1.5E-3"}, row{"us-east-1", "g6.xlarge", "0.00000049"})
	e.perPage = 2
	day, err := x.Day(t.Context(), evening, []string{"p5.48xlarge", "g6.xlarge"})
	if err != nil {
		t.Fatal(err)
	}
	want := []costmodel.Charge{{Region: "eu-west-1", Instance: "p5.48xlarge", Cost: 1500}, {Region: "us-east-1", Instance: "g6.xlarge", Cost: 0}, {Region: "us-east-1", Instance: "p5.48xlarge", Cost: 1_321_000_000}}
	if !slices.Equal(day.Charges, want) || day.Estimate {
		t.Errorf("read %+v, want %v", day, want)
	}
	if len(e.asked) != 2 {
		t.Fatalf("%d questions, want one for each page", len(e.asked))
	}
	q := e.asked[0]
	filters := map[string][]string{}
	for _, f := range q.Filter.And {
		filters[f.Dimensions.Key] = f.Dimensions.Values
	}
	if q.TimePeriod.Start != "2026-11-28" || q.TimePeriod.End != "2026-11-29" || q.Granularity != "DAILY" ||
		!slices.Equal(q.Metrics, []string{"AmortizedCost"}) || len(q.GroupBy) != 2 || q.GroupBy[0].Key != "REGION" || q.GroupBy[1].Key != "INSTANCE_TYPE" ||
		!slices.Equal(filters["INSTANCE_TYPE"], []string{"g6.xlarge", "p5.48xlarge"}) ||
		!slices.Equal(filters["RECORD_TYPE"], []string{"Usage", "DiscountedUsage", "SavingsPlanCoveredUsage"}) {
		t.Errorf("asked %+v", q)
	}
}

func TestAThrottledQuestionIsAskedAgain(t *testing.T) {
	e, x := serve(t, row{"us-east-1", "p5.48xlarge", "2"})
	e.throttle, e.estimated = 2, true
	day, err := x.Day(t.Context(), evening, []string{"p5.48xlarge"})
	if err != nil || len(day.Charges) != 1 || !day.Estimate {
		t.Errorf("%+v, %v", day, err)
	}
}

func TestAnswersThatCannotBeComparedAreErrors(t *testing.T) {
	for want, change := range map[string]func(*explorer){
		"AccessDenied":        func(e *explorer) { e.refuse = "AccessDeniedException" },
		"more than 20 pages":  func(e *explorer) { e.loop = true },
		`"EUR"`:               func(e *explorer) { e.unit = "EUR" },
		"no number":           func(e *explorer) { e.rows[0][2] = "a lot" },
		"no number of":        func(e *explorer) { e.rows[0][2] = "Inf" },
		"not a region and an": func(e *explorer) { e.keys = 1 },
	} {
		t.Run(want, func(t *testing.T) {
			e, x := serve(t, row{"us-east-1", "p5.48xlarge", "2"})
			change(e)
			day, err := x.Day(t.Context(), evening, []string{"p5.48xlarge"})
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "123456789012") || len(day.Charges) > 0 {
				t.Errorf("%+v, error %v, want one that says %q", day, err, want)
			}
		})
	}
}

func TestNothingIsAskedInVain(t *testing.T) {
	e, x := serve(t)
	if day, err := x.Day(t.Context(), evening, nil); err != nil || len(day.Charges) > 0 {
		t.Errorf("no instances: %+v, %v", day, err)
	}
	if _, err := x.Day(t.Context(), evening, make([]string, maxInstances+1)); err == nil {
		t.Error("too many instances were asked for")
	}
	alone(t)
	without, err := awsprice.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(without).Day(t.Context(), evening, []string{"p5.48xlarge"}); !errors.Is(err, pricelist.ErrAbsent) {
		t.Errorf("without credentials: %v", err)
	}
	if len(e.asked) > 0 {
		t.Errorf("asked %+v", e.asked)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := x.Day(ended, evening, []string{"p5.48xlarge"}); err == nil {
		t.Error("asked after the end")
	}
}
