// Package trace tells OpenTelemetry of requests: one server span for each, and one client span for
// each attempt at a place, with the attributes that the semantic conventions have for generative AI
// (https://opentelemetry.io/docs/specs/semconv/gen-ai/). No text of a prompt or an answer, no key and
// nothing that a client wrote but the name of a known model goes into a span. Where spans go to is
// left to the provider that is passed in; without one nothing is done, at no cost.
package trace

import (
	"context"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	oteltrace "go.opentelemetry.io/otel/trace"

	"anabranch/dataplane/inference"
)

// Tracer makes spans. The nil Tracer makes none.
type Tracer struct {
	tracer oteltrace.Tracer
}

// scope names this instrumentation.
const scope = "anabranch/dataplane"

// New makes a tracer; nil for a nil provider.
func New(provider oteltrace.TracerProvider, version string) *Tracer {
	if provider == nil {
		return nil
	}
	return &Tracer{provider.Tracer(scope,
		oteltrace.WithInstrumentationVersion(version), oteltrace.WithSchemaURL(semconv.SchemaURL))}
}

// w3c reads and writes traceparent and tracestate (https://www.w3.org/TR/trace-context/).
var w3c propagation.TraceContext

// Span is one span under way. The zero Span does nothing.
type Span struct {
	span oteltrace.Span
}

// Request begins the span of a client's or peer's request, as a child of the traceparent in its
// header, if it has one.
func (t *Tracer) Request(ctx context.Context, method string, h http.Header) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	name := method
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
	default: // whatever a client may have written, as the conventions name it
		name, method = "HTTP", "_OTHER"
	}
	ctx = w3c.Extract(ctx, propagation.HeaderCarrier(h))
	ctx, span := t.tracer.Start(ctx, name, oteltrace.WithSpanKind(oteltrace.SpanKindServer),
		oteltrace.WithAttributes(semconv.HTTPRequestMethodKey.String(method)))
	return ctx, Span{span}
}

// Asked is what a request asks for.
type Asked struct {
	// ID is the router's own name of the request, Tenant who pays.
	ID, Tenant string
	API        inference.API
	// Model is a name of the table, Class the traffic class.
	Model, Class string
	Stream       bool
	// MaxTokens of the answer; 0: not said.
	MaxTokens int64
}

// operation is what the conventions call an API.
func operation(a inference.API) string {
	switch a {
	case inference.Chat, inference.Responses, inference.Messages:
		return "chat"
	case inference.Completions:
		return "text_completion"
	case inference.Embeddings:
		return "embeddings"
	default:
		return "generate_content"
	}
}

// Names of our own, for what the conventions have no name.
const (
	keyRequestID = attribute.Key("anabranch.request.id")
	keyTenant    = attribute.Key("anabranch.tenant")
	keyClass     = attribute.Key("anabranch.class")
	keyCluster   = attribute.Key("anabranch.cluster")
	keyRegion    = attribute.Key("anabranch.region")
	keyEndpoint  = attribute.Key("anabranch.endpoint")
	keyAttempt   = attribute.Key("anabranch.attempt")
	keyKind      = attribute.Key("anabranch.attempt.kind")
	keyPredicted = attribute.Key("anabranch.predicted_time_to_first_token")
	keyQueued    = attribute.Key("anabranch.queue.wait")
)

// Asked tells what the request asks for, once that is known.
func (s Span) Asked(a *Asked) {
	if s.span == nil || !s.span.IsRecording() {
		return
	}
	op := operation(a.API)
	s.span.SetName(op + " " + a.Model)
	s.span.SetAttributes(
		semconv.GenAIOperationNameKey.String(op), semconv.GenAIProviderNameKey.String("anabranch"),
		semconv.GenAIRequestModel(a.Model), semconv.GenAIRequestStreamKey.Bool(a.Stream),
		keyRequestID.String(a.ID), keyTenant.String(a.Tenant), keyClass.String(a.Class),
	)
	if a.MaxTokens > 0 {
		s.span.SetAttributes(semconv.GenAIRequestMaxTokens(int(a.MaxTokens)))
	}
}

// Attempt is one try at a place.
type Attempt struct {
	API inference.API
	// Model as the place is asked for it.
	Model string
	// Cluster, Region and Endpoint name the place; Endpoint is empty in another region.
	Cluster, Region, Endpoint string
	// Address is host and port.
	Host string
	Port string
	// Number counts from 1; Kind is first, retry, exempt, hedge, rescue or shadow.
	Number int
	Kind   string
	// Predicted time to the first token in seconds; 0: not known.
	Predicted float64
}

// Attempt begins the span of a try. Its [Span.Headers] are for the place.
func (t *Tracer) Attempt(ctx context.Context, a *Attempt) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	op := operation(a.API)
	ctx, span := t.tracer.Start(ctx, op+" "+a.Model, oteltrace.WithSpanKind(oteltrace.SpanKindClient))
	if span.IsRecording() {
		span.SetAttributes(
			semconv.GenAIOperationNameKey.String(op), semconv.GenAIProviderNameKey.String(a.Cluster),
			semconv.GenAIRequestModel(a.Model), semconv.ServerAddress(a.Host),
			keyCluster.String(a.Cluster), keyRegion.String(a.Region), keyAttempt.Int(a.Number), keyKind.String(a.Kind),
		)
		if port, err := strconv.Atoi(a.Port); err == nil {
			span.SetAttributes(semconv.ServerPort(port))
		}
		if a.Endpoint != "" {
			span.SetAttributes(keyEndpoint.String(a.Endpoint))
		}
		if a.Predicted > 0 {
			span.SetAttributes(keyPredicted.Float64(a.Predicted))
		}
	}
	return ctx, Span{span}
}

// Headers are the trace context for whom the span's work is sent to; empty for the zero Span, whose
// client's own headers go on as they are.
func (s Span) Headers() (traceparent, tracestate string) {
	if s.span == nil {
		return "", ""
	}
	carrier := propagation.MapCarrier{}
	w3c.Inject(oteltrace.ContextWithSpan(context.Background(), s.span), carrier)
	return carrier["traceparent"], carrier["tracestate"]
}

// Queued tells how long the request waited for room, in seconds.
func (s Span) Queued(seconds float64) {
	if s.span != nil && seconds > 0 {
		s.span.SetAttributes(keyQueued.Float64(seconds))
	}
}

// Ended is how a request or an attempt ended.
type Ended struct {
	// Status is the HTTP status; 0: there was none.
	Status int
	// Code is the stable word of what was wrong; empty: nothing.
	Code string
	// Fault: it counts as an error of the one who answers, not of the one who asks.
	Fault bool
	// Model as the answer names it is not told; Usage is, where it is known.
	Usage inference.Usage
	// FirstToken is the time to the first content in seconds; 0: none came.
	FirstToken float64
}

// End ends the span.
func (s Span) End(e *Ended) {
	if s.span == nil {
		return
	}
	if s.span.IsRecording() {
		if e.Status > 0 {
			s.span.SetAttributes(semconv.HTTPResponseStatusCode(e.Status))
		}
		if e.Code != "" {
			s.span.SetAttributes(semconv.ErrorTypeKey.String(e.Code))
		}
		if e.Fault {
			s.span.SetStatus(codes.Error, e.Code)
		}
		if u := e.Usage; u.Prompt > 0 || u.Completion > 0 {
			s.span.SetAttributes(semconv.GenAIUsageInputTokens(int(u.Prompt)), semconv.GenAIUsageOutputTokens(int(u.Completion)))
			if u.Cached > 0 {
				s.span.SetAttributes(semconv.GenAIUsageCacheReadInputTokens(int(u.Cached)))
			}
		}
		if e.FirstToken > 0 {
			s.span.SetAttributes(semconv.GenAIResponseTimeToFirstChunkKey.Float64(e.FirstToken))
		}
	}
	s.span.End()
}
