package cloudwatch

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/smithy-go/encoding/cbor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/costmodel/pricelist"
)

// service speaks RPC v2 CBOR for PutMetricData, as CloudWatch does:
// https://smithy.io/2.0/additional-specs/protocols/smithy-rpc-v2.html
type service struct {
	t *testing.T

	mu       sync.Mutex // guards what is below
	throttle int        // how many calls are refused before one is answered
	refuse   string     // error of every call; empty: none
	calls    int
	took     []string // "namespace name: value"
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
	w.Header().Set("Content-Type", "application/cbor")
	fail := func(code int, name string) {
		w.WriteHeader(code)
		_, _ = w.Write(cbor.Encode(cbor.Map{"__type": cbor.String("com.amazonaws.cloudwatch#" + name), "message": cbor.String("arn:aws:iam::123456789012:user/ann may not")}))
	}
	body, err := readAll(r)
	switch {
	case err != nil, r.URL.Path != "/service/GraniteServiceVersion20100801/operation/PutMetricData",
		r.Header.Get("Smithy-Protocol") != "rpc-v2-cbor":
		fail(http.StatusNotFound, "UnknownOperationException")
	case !strings.Contains(r.Header.Get("Authorization"), "/eu-west-1/monitoring/aws4_request"):
		fail(http.StatusForbidden, "IncompleteSignature")
	case s.refuse != "":
		fail(http.StatusBadRequest, s.refuse)
	case s.throttle > 0:
		s.throttle--
		fail(http.StatusBadRequest, "ThrottlingException")
	default:
		s.take(body)
		_, _ = w.Write(cbor.Encode(cbor.Map{}))
	}
}

func readAll(r *http.Request) ([]byte, error) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, err
		}
		body = unzipped
	}
	return io.ReadAll(body)
}

func (s *service) take(body []byte) {
	value, err := cbor.Decode(body)
	if err != nil {
		s.t.Errorf("not CBOR: %v", err)
		return
	}
	in := value.(cbor.Map)
	for _, item := range in["MetricData"].(cbor.List) {
		datum := item.(cbor.Map)
		text := string(in["Namespace"].(cbor.String)) + " " + string(datum["MetricName"].(cbor.String))
		switch v := datum["Value"].(type) {
		case cbor.Float64:
			text += fmt.Sprintf(": %g", float64(v))
		case cbor.Uint:
			text += fmt.Sprintf(": %d", uint64(v))
		}
		s.took = append(s.took, text)
	}
}

func (s *service) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := s.took
	s.took = nil
	return took
}

func (s *service) set(throttle int, refuse string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.throttle, s.refuse = throttle, refuse
}

// publisher with the real client, and what it publishes to.
func publisher(t *testing.T, r *prometheus.Registry, o Options) (*Publisher, *service) {
	t.Helper()
	s := &service{t: t}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	o.Client = cloudwatch.New(cloudwatch.Options{
		Region: "eu-west-1", BaseEndpoint: aws.String(h.URL),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "key", SecretAccessKey: "secret"}, nil
		}),
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts, o.MaxBackoff = 3, time.Millisecond }),
	})
	o.Gatherer, o.Registerer = r, r
	if o.Leading == nil {
		o.Leading = func() bool { return true }
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p, s
}

func TestTheServiceIsToldWhatIsWanted(t *testing.T) {
	r := prometheus.NewRegistry()
	cost := prometheus.NewCounter(prometheus.CounterOpts{Name: "anabranch_cost_dollars_total"})
	wanted := prometheus.NewGauge(prometheus.GaugeOpts{Name: "anabranch_wanted_capacity"})
	other := prometheus.NewGauge(prometheus.GaugeOpts{Name: "anabranch_else"})
	r.MustRegister(cost, wanted, other)
	wanted.Set(4)
	p, s := publisher(t, r, Options{Namespace: "Test"})
	publish := func(want ...string) {
		t.Helper()
		if err := p.Publish(t.Context()); err != nil {
			t.Fatal(err)
		}
		same(t, "data", s.taken(), want)
	}
	publish("Test anabranch_wanted_capacity: 4")
	cost.Add(0.5)
	publish("Test anabranch_cost_dollars_total: 0.5", "Test anabranch_wanted_capacity: 4")
	s.set(2, "")
	cost.Add(0.25)
	publish("Test anabranch_cost_dollars_total: 0.25", "Test anabranch_wanted_capacity: 4")
	if got := testutil.ToFloat64(p.put); got != 5 {
		t.Errorf("%g data points count as published, want 5", got)
	}
}

func TestGrowthIsKeptUntilItCouldBeTold(t *testing.T) {
	r := prometheus.NewRegistry()
	cost := prometheus.NewCounter(prometheus.CounterOpts{Name: "anabranch_cost_dollars_total"})
	r.MustRegister(cost)
	p, s := publisher(t, r, Options{})
	if err := p.Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.set(0, "AccessDenied")
	for range 2 {
		cost.Add(1)
		if err := p.Publish(t.Context()); err == nil || !strings.Contains(err.Error(), "AccessDenied") || strings.Contains(err.Error(), "123456789012") {
			t.Fatalf("error %v, want that of the service", err)
		}
	}
	s.set(0, "")
	if err := p.Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "growth", s.taken(), []string{"Anabranch anabranch_cost_dollars_total: 2"})
	if got := testutil.ToFloat64(p.failed); got != 2 {
		t.Errorf("%g failures, want 2", got)
	}
}

func TestWhatIsTooMuchIsLeftOutAndCounted(t *testing.T) {
	r := prometheus.NewRegistry()
	level := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "anabranch_cost_level"}, []string{"cluster"})
	r.MustRegister(level)
	for i := range perCall + 20 {
		level.WithLabelValues(fmt.Sprint("c", i)).Set(1)
	}
	p, s := publisher(t, r, Options{Most: perCall + 10})
	if err := p.Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(s.taken()); got != perCall+10 {
		t.Errorf("%d data points, want %d", got, perCall+10)
	}
	if s.calls != 2 {
		t.Errorf("%d calls, want 2", s.calls)
	}
	if got := testutil.ToFloat64(p.omitted); got != 10 {
		t.Errorf("%g left out, want 10", got)
	}
}

func TestOptionsThatAreWrongAreNamed(t *testing.T) {
	right := Options{Client: cloudwatch.New(cloudwatch.Options{}), Gatherer: prometheus.NewRegistry(), Leading: func() bool { return true }}
	for want, change := range map[string]func(*Options){
		"":         func(*Options) {},
		"Client":   func(o *Options) { o.Client = nil },
		"interval": func(o *Options) { o.Interval = time.Second },
		"AWS/":     func(o *Options) { o.Namespace = "AWS/EC2" },
		`"a["`:     func(o *Options) { o.Names = []string{"a["} },
		`""`:       func(o *Options) { o.Names = []string{""} },
	} {
		o := right
		change(&o)
		_, err := New(o)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("error %v, want one about %q", err, want)
		}
	}
}

// fake counts calls, for tests whose time is not real.
type fake struct{ calls atomic.Int64 }

func (f *fake) PutMetricData(context.Context, *cloudwatch.PutMetricDataInput, ...func(*cloudwatch.Options)) (*cloudwatch.PutMetricDataOutput, error) {
	f.calls.Add(1)
	return nil, nil
}

func TestOnlyALeaderPublishesAndAbsentCredentialsAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := prometheus.NewRegistry()
		level := prometheus.NewGauge(prometheus.GaugeOpts{Name: "anabranch_wanted_capacity"})
		r.MustRegister(level)
		var leads, has atomic.Bool
		var client fake
		var log bytes.Buffer
		p, err := New(Options{
			Client: &client, Gatherer: r, Leading: leads.Load, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Credentials: func(context.Context) error {
				if has.Load() {
					return nil
				}
				return fmt.Errorf("%w: no AWS credentials", pricelist.ErrAbsent)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.Run(ctx) }()
		after := func(wait time.Duration, want int64) {
			t.Helper()
			<-time.After(wait)
			synctest.Wait()
			if got := client.calls.Load(); got != want {
				t.Errorf("%d calls, want %d", got, want)
			}
		}
		after(5*time.Minute+time.Second, 0)
		leads.Store(true)
		after(3*time.Minute, 0)
		has.Store(true)
		after(3*time.Minute, 3)
		leads.Store(false)
		after(3*time.Minute, 3)
		stop()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if got := strings.Count(log.String(), "no metrics are published"); got != 1 {
			t.Errorf("absent credentials were told %d times, want once:\n%s", got, log.String())
		}
		if got := testutil.ToFloat64(p.failed); got != 0 {
			t.Errorf("absent credentials count as %g failures", got)
		}
	})
}
