package dataplane

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"anabranch/api/fleet"
	"anabranch/dataplane/admit"
	"anabranch/dataplane/table"
)

// traceAll replaces the router of a region by one that records its spans.
func (w *world) traceAll(region string) *tracetest.SpanRecorder {
	w.t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))
	n := w.routers[region]
	n.front.Close()
	n.rest()
	var err error
	n.Router, err = New(Options{
		Router: fleet.RouterID("r-" + region), Region: fleet.RegionID(region), Version: "test", Tables: &table.Holder{},
		Quotas: admit.Own(w.ledger), PeerTLS: n.o.PeerTLS, Traces: provider, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	n.peer.Config.Handler = n.Peer()
	n.front = httptest.NewServer(n.Front())
	w.t.Cleanup(func() {
		n.front.Close()
		n.relay.Close()
		if err := provider.Shutdown(context.Background()); err != nil {
			w.t.Error(err)
		}
	})
	w.apply()
	n.lease(w.t)
	return recorder
}

func spansOf(spans []sdk.ReadOnlySpan, name string) []sdk.ReadOnlySpan {
	var found []sdk.ReadOnlySpan
	for _, s := range spans {
		if s.Name() == name {
			found = append(found, s)
		}
	}
	return found
}

// The client's trace goes through the router and, over the peer, to the model server.
func TestATraceGoesAllTheWay(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	there := newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, says(http.StatusInternalServerError))}},
		{id: "eu-a", region: eu, weight: 0, endpoints: []*stub{there}},
	}, nil)
	home, abroad := w.traceAll(us), w.traceAll(eu)
	r := w.ask(us, "acme", askStream, "Traceparent", parent)
	if r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	w.eventually("the spans have ended", func() bool { return len(home.Ended()) == 3 && len(abroad.Ended()) == 2 })
	for _, s := range append(home.Ended(), abroad.Ended()...) {
		if s.SpanContext().TraceID().String() != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("%s is of another trace", s.Name())
		}
	}
	spans := spansOf(home.Ended(), "chat llama")
	failed, hop, request := spans[0], spans[1], spans[2]
	if request.Parent().SpanID().String() != "b7ad6b7169203331" || failed.Parent().SpanID() != request.SpanContext().SpanID() ||
		hop.Parent().SpanID() != request.SpanContext().SpanID() {
		t.Error("attempts are no children of the request, or the request not of the client's span")
	}
	last := abroad.Ended()[0]
	if got := abroad.Ended()[1].Parent().SpanID(); got != hop.SpanContext().SpanID() {
		t.Error("the peer's span is no child of the hop")
	}
	if got := (*there.seen.Load()).Get("Traceparent"); !strings.Contains(got, last.SpanContext().SpanID().String()) {
		t.Errorf("the model server is told %q", got)
	}
	for _, s := range append(home.Ended(), abroad.Ended()...) {
		for _, kv := range s.Attributes() {
			if strings.Contains(kv.Value.String(), "hello") || strings.Contains(kv.Value.String(), "acme-key") {
				t.Errorf("%s holds what it must not: %s", s.Name(), kv.Key)
			}
		}
	}
}

// Without a provider the client's own trace context goes on to the model server.
func TestWithoutTracesTheClientsContextPasses(t *testing.T) {
	s := newStub(t, answers)
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{s}}}, nil)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	w.ask(us, "acme", askWhole, "Traceparent", parent)
	if got := (*s.seen.Load()).Get("Traceparent"); got != parent {
		t.Errorf("the model server is told %q", got)
	}
}
