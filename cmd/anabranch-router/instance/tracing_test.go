package instance

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// inbox is an OpenTelemetry collector that keeps what it gets.
type inbox struct {
	*httptest.Server
	mu    sync.Mutex // guards spans
	spans map[string]*tracepb.Span
	about map[string]string // of the resource
}

func newInbox(t *testing.T) *inbox {
	t.Helper()
	c := &inbox{spans: map[string]*tracepb.Span{}, about: map[string]string{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request collector.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &request) != nil {
			http.Error(w, "no traces", http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, resource := range request.ResourceSpans {
			for _, kv := range resource.Resource.GetAttributes() {
				c.about[kv.Key] = kv.Value.GetStringValue()
			}
			for _, scope := range resource.ScopeSpans {
				for _, s := range scope.Spans {
					c.spans[s.Kind.String()] = s
				}
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *inbox) span(kind string) *tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spans[kind]
}

// Spans of a request come to a collector over OTLP, the last of them when the router ends.
func TestTracesComeToACollector(t *testing.T) {
	f, c := newFixture(t), newInbox(t)
	f.release <- struct{}{}
	o := f.options()
	o.OTLPEndpoint, o.TraceRatio = c.URL, 1
	n := f.start(o)
	n.eventually("it is ready", n.ready)
	res := n.stream()
	if _, err := io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	n.stop()
	if err := n.ended(); err != nil {
		t.Fatal(err)
	}
	request, attempt := c.span("SPAN_KIND_SERVER"), c.span("SPAN_KIND_CLIENT")
	if request == nil || attempt == nil {
		t.Fatal("the collector got no spans")
	}
	if request.Name != "chat llama" || string(attempt.ParentSpanId) != string(request.SpanId) {
		t.Errorf("%q, and the attempt's parent is %x", request.Name, attempt.ParentSpanId)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.about["service.name"] != "anabranch-router" || c.about["service.instance.id"] != "r1" || c.about["cloud.region"] != "eu-west-1" {
		t.Errorf("the resource is %v", c.about)
	}
}

// OpenTelemetry's own variables do as well as the flag.
func TestTracesAreTurnedOnByTheirVariables(t *testing.T) {
	if (Options{}).tracesOn() {
		t.Error("on without anything")
	}
	t.Setenv(otlpEndpoint, "http://127.0.0.1:4318")
	if !(Options{}).tracesOn() {
		t.Error("off in spite of " + otlpEndpoint)
	}
	t.Setenv(otlpProtocol, "http/json")
	if _, err := (Options{}).traces(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "http/protobuf and grpc") {
		t.Errorf("error %v", err)
	}
	t.Setenv(otlpProtocol, "grpc")
	p, err := (Options{}).traces(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// A collector that is away does not keep the router from serving and ending.
func TestACollectorThatIsAwayCostsNothing(t *testing.T) {
	f := newFixture(t)
	f.release <- struct{}{}
	o := f.options()
	o.OTLPEndpoint = "http://127.0.0.1:1"
	n := f.start(o)
	n.eventually("it is ready", n.ready)
	res := n.stream()
	if body, err := io.ReadAll(res.Body); err != nil || !strings.HasSuffix(string(body), done) {
		t.Errorf("%q %v", body, err)
	}
	res.Body.Close()
	n.stop()
	if err := n.ended(); err != nil {
		t.Error(err)
	}
}

func TestWrongTraceOptionsAreNamed(t *testing.T) {
	f := newFixture(t)
	for flag, change := range map[string]func(*Options){
		"--otlp-endpoint": func(o *Options) { o.OTLPEndpoint = "collector:4317" },
		"--trace-ratio":   func(o *Options) { o.TraceRatio = 1.5 },
	} {
		o := f.options()
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
