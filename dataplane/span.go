package dataplane

import (
	"context"
	"net/url"

	"anabranch/dataplane/proxy"
	"anabranch/dataplane/trace"
	"anabranch/failover"
)

// beginSpan begins the span of an attempt at a place.
func (r *Router) beginSpan(ctx context.Context, x *trip, t *try) (context.Context, trace.Span) {
	if r.traces == nil {
		return ctx, trace.Span{}
	}
	a := trace.Attempt{
		API: x.request.API, Model: x.request.Model, Cluster: string(t.target.Cluster.ID), Region: string(t.target.Region),
		Number: t.number, Kind: t.kind, Predicted: t.reason.Seconds,
	}
	if t.endpoint != nil {
		a.Endpoint = string(t.endpoint.ID)
		if u, err := url.Parse(t.endpoint.URL); err == nil { // the table was validated
			a.Host, a.Port = u.Hostname(), u.Port()
		}
	}
	return r.traces.Attempt(ctx, &a)
}

// endSpan ends it.
func endSpan(s trace.Span, result *proxy.Result) {
	e := trace.Ended{Status: result.Status, Usage: result.Usage, FirstToken: result.FirstByte.Seconds()}
	if result.Err != nil {
		e.Code = result.Err.Code
	}
	e.Fault = result.Outcome != failover.OK && result.Outcome != failover.Ignored
	s.End(&e)
}

// traceFields are the headers that let a place's spans be children of the attempt's.
func traceFields(s trace.Span) []proxy.Field {
	parent, state := s.Headers()
	if parent == "" {
		return nil
	}
	return []proxy.Field{{Key: "Traceparent", Value: parent}, {Key: "Tracestate", Value: state}}
}
