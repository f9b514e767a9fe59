package trace

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"anabranch/dataplane/inference"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// recorded makes a tracer and the recorder of its ended spans.
func recorded(t *testing.T, options ...sdk.TracerProviderOption) (*Tracer, *tracetest.SpanRecorder) {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(append(options, sdk.WithSpanProcessor(recorder))...)
	t.Cleanup(func() {
		if err := provider.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return New(provider, "1.2.3"), recorder
}

func attributes(s sdk.ReadOnlySpan) map[string]attribute.Value {
	m := map[string]attribute.Value{}
	for _, kv := range s.Attributes() {
		m[string(kv.Key)] = kv.Value
	}
	return m
}

func TestARequestAndItsAttempts(t *testing.T) {
	tracer, recorder := recorded(t)
	h := http.Header{"Traceparent": {parent}, "Tracestate": {"vendor=x"}}
	ctx, request := tracer.Request(context.Background(), "POST", h)
	request.Asked(&Asked{ID: "r1-aa", Tenant: "acme", API: inference.Chat, Model: "llama", Class: "interactive", Stream: true, MaxTokens: 64})
	request.Queued(0.25)
	_, attempt := tracer.Attempt(ctx, &Attempt{
		API: inference.Chat, Model: "llama", Cluster: "us-a", Region: "us", Endpoint: "e1", Host: "10.0.0.1", Port: "8000", Number: 1, Kind: "first", Predicted: 0.5,
	})
	traceparent, tracestate := attempt.Headers()
	attempt.End(&Ended{Status: 502, Code: "upstream_reset", Fault: true})
	request.End(&Ended{Status: 200, Usage: inference.Usage{Prompt: 10, Cached: 4, Completion: 3}, FirstToken: 0.1})

	spans := recorder.Ended()
	if len(spans) != 2 {
		t.Fatalf("%d spans", len(spans))
	}
	inner, outer := spans[0], spans[1]
	if got := outer.Parent().SpanID().String(); got != "b7ad6b7169203331" || !outer.Parent().IsRemote() {
		t.Errorf("the request's parent is %s", got)
	}
	if inner.Parent().SpanID() != outer.SpanContext().SpanID() || inner.SpanContext().TraceID().String() != "0af7651916cd43dd8448eb211c80319c" {
		t.Error("the attempt is no child of the request")
	}
	if !strings.Contains(traceparent, inner.SpanContext().SpanID().String()) || tracestate != "vendor=x" {
		t.Errorf("the place is told %q, %q", traceparent, tracestate)
	}
	if outer.Name() != "chat llama" || outer.SpanKind() != oteltrace.SpanKindServer || inner.SpanKind() != oteltrace.SpanKindClient {
		t.Errorf("%q, kinds %v and %v", outer.Name(), outer.SpanKind(), inner.SpanKind())
	}
	if inner.Status().Code != codes.Error || outer.Status().Code != codes.Unset {
		t.Errorf("status %v and %v", inner.Status(), outer.Status())
	}
	for key, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.request.model": "llama", "gen_ai.request.max_tokens": "64", "gen_ai.request.stream": "true",
		"gen_ai.usage.input_tokens": "10", "gen_ai.usage.output_tokens": "3", "gen_ai.usage.cache_read.input_tokens": "4",
		"gen_ai.response.time_to_first_chunk": "0.1", "http.response.status_code": "200", "anabranch.queue.wait": "0.25",
		"anabranch.tenant": "acme", "anabranch.request.id": "r1-aa", "anabranch.class": "interactive", "gen_ai.provider.name": "anabranch",
	} {
		if got := attributes(outer)[key].String(); got != want {
			t.Errorf("request: %s = %q, want %q", key, got, want)
		}
	}
	for key, want := range map[string]string{
		"server.address": "10.0.0.1", "server.port": "8000", "anabranch.cluster": "us-a", "anabranch.region": "us", "anabranch.endpoint": "e1",
		"anabranch.attempt": "1", "anabranch.attempt.kind": "first", "error.type": "upstream_reset", "anabranch.predicted_time_to_first_token": "0.5",
	} {
		if got := attributes(inner)[key].String(); got != want {
			t.Errorf("attempt: %s = %q, want %q", key, got, want)
		}
	}
}

func TestWhatAnAPIIsCalled(t *testing.T) {
	for api, want := range map[inference.API]string{
		inference.Chat: "chat", inference.Responses: "chat", inference.Messages: "chat", inference.Completions: "text_completion",
		inference.Embeddings: "embeddings", inference.Other: "generate_content",
	} {
		if got := operation(api); got != want {
			t.Errorf("%v: %s, want %s", api, got, want)
		}
	}
}

// A malformed traceparent starts a new trace, as the W3C recommendation wants.
func TestAMalformedParentIsNoParent(t *testing.T) {
	tracer, recorder := recorded(t)
	for _, bad := range []string{"", "00-xyz", "00-00000000000000000000000000000000-b7ad6b7169203331-01", strings.Repeat("0", 5000)} {
		_, s := tracer.Request(context.Background(), "POST", http.Header{"Traceparent": {bad}})
		s.End(&Ended{})
	}
	for _, s := range recorder.Ended() {
		if s.Parent().IsValid() {
			t.Errorf("parent %v", s.Parent())
		}
	}
}

// What is not sampled still hands its context on, with the flag that says so.
func TestAnUnsampledTraceGoesOn(t *testing.T) {
	tracer, recorder := recorded(t, sdk.WithSampler(sdk.NeverSample()))
	ctx, s := tracer.Request(context.Background(), "POST", http.Header{"Traceparent": {parent}})
	s.Asked(&Asked{Model: "m"})
	_, a := tracer.Attempt(ctx, &Attempt{Model: "m"})
	if traceparent, _ := a.Headers(); !strings.HasPrefix(traceparent, "00-0af7651916cd43dd8448eb211c80319c-") || !strings.HasSuffix(traceparent, "-00") {
		t.Errorf("traceparent %q", traceparent)
	}
	a.End(&Ended{})
	s.End(&Ended{})
	if n := len(recorder.Ended()); n != 0 {
		t.Errorf("%d spans recorded", n)
	}
}

func TestWithoutAProviderNothingIsDone(t *testing.T) {
	tracer := New(nil, "")
	if tracer != nil {
		t.Fatal("a tracer without a provider")
	}
	h := http.Header{"Traceparent": {parent}}
	ctx := context.Background()
	asked, attempt, ended := &Asked{Model: "m"}, &Attempt{Model: "m"}, &Ended{Status: 200}
	allocs := testing.AllocsPerRun(100, func() {
		inner, s := tracer.Request(ctx, "POST", h)
		s.Asked(asked)
		s.Queued(1)
		_, a := tracer.Attempt(inner, attempt)
		if traceparent, _ := a.Headers(); traceparent != "" {
			t.Error("a traceparent of nothing")
		}
		a.End(ended)
		s.End(ended)
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// A method may be any word of a client's.
func TestAnUnknownMethodIsNotTold(t *testing.T) {
	tracer, recorder := recorded(t)
	_, request := tracer.Request(context.Background(), "SECRET", http.Header{})
	request.End(&Ended{Status: 405})
	s := recorder.Ended()[0]
	if method := attributes(s)["http.request.method"].AsString(); s.Name() != "HTTP" || method != "_OTHER" {
		t.Errorf("span %q, method %q", s.Name(), method)
	}
}
