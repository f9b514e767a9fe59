package dataplane

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// RequestLog says which requests get a line in the log.
type RequestLog string

// Which requests get a line.
const (
	LogAll    RequestLog = "all"    // each
	LogFaults RequestLog = "faults" // those that went wrong, by no fault of the client
	LogNone   RequestLog = "none"
)

const (
	// linesPerSecond bounds what requests write into the log, linesSaved what a quiet time saves up.
	// Beyond it lines are left out and counted in the next one.
	linesPerSecond = 500
	linesSaved     = 1000
)

// lines writes the one structured line that a request gets when it has ended: where it went, why it
// took what it took, and what was wrong. It holds no text of the prompt or the answer.
type lines struct {
	which RequestLog
	log   *slog.Logger

	// due is when the lines written so far would all have been due at their rate, in unix ns: how far
	// it lies behind the present says how many may be written at once.
	due     atomic.Int64
	skipped atomic.Int64
}

func newLines(which RequestLog, log *slog.Logger) *lines {
	return &lines{which: which, log: log}
}

// write writes it: at level warn if the request went wrong, else info.
func (l *lines) write(x *trip, rec *Record) {
	level := slog.LevelInfo
	if rec.fault() {
		level = slog.LevelWarn
	}
	if l.which == LogNone || l.which == LogFaults && level == slog.LevelInfo || !l.log.Enabled(x.q.Context(), level) {
		return
	}
	skipped, ok := l.take(rec.At.Add(time.Duration(rec.TotalMs * float64(time.Millisecond))))
	if !ok {
		return
	}
	cluster, endpoint := x.wentTo(rec)
	attrs := make([]slog.Attr, 0, 24)
	attrs = append(
		attrs,
		slog.String("request", rec.ID), slog.String("tenant", string(rec.Tenant)), slog.String("model", string(rec.Model)),
		slog.String("class", string(rec.Class)), slog.String("cluster", cluster), slog.Int("status", rec.Status),
		slog.Int("attempts", x.attempts), slog.Float64("total_ms", rec.TotalMs), slog.Float64("first_byte_ms", rec.FirstByteMs),
		slog.Int64("input_tokens", rec.Usage.Prompt), slog.Int64("cached_tokens", rec.Usage.Cached), slog.Int64("output_tokens", rec.Usage.Completion),
	)
	if n := len(rec.Attempts); n > 0 {
		attrs = append(attrs, slog.String("endpoint", endpoint), slog.Float64("predicted_ms", rec.Attempts[n-1].PredictedMs))
	}
	for _, a := range []slog.Attr{
		slog.String("client_request", rec.ClientID), slog.String("adapter", rec.Adapter), slog.String("policy", rec.Policy),
		slog.String("arm", rec.Arm), slog.String("code", rec.Code), slog.String("quota", rec.Quota.limit()),
	} {
		if a.Value.String() != "" {
			attrs = append(attrs, a)
		}
	}
	if rec.QueuedMs > 0 {
		attrs = append(attrs, slog.Float64("queued_ms", rec.QueuedMs))
	}
	if rec.Hop {
		attrs = append(attrs, slog.Bool("hop", true))
	}
	if skipped > 0 {
		attrs = append(attrs, slog.Int64("lines_left_out", skipped))
	}
	if x.last != nil && x.last.Cause != nil {
		attrs = append(attrs, slog.Any("error", x.last.Cause))
	}
	l.log.LogAttrs(x.q.Context(), level, "request ended", attrs...)
}

// wentTo is the cluster and the endpoint that served a request, or else those of its last attempt. Of
// another region they are what the router there says, if it does, also where this one's table knows
// nothing of them. Empty: it was never sent, and of an endpoint abroad that nobody tells.
func (x *trip) wentTo(rec *Record) (cluster, endpoint string) {
	cluster = string(x.served)
	for i := len(rec.Attempts) - 1; i >= 0; i-- {
		if at := &rec.Attempts[i]; x.served == "" || x.served == at.Cluster {
			cluster, endpoint = string(at.Cluster), string(at.Endpoint)
			break
		}
	}
	if x.last == nil || !fit(x.last.Served.Cluster) {
		return cluster, endpoint
	}
	if told := x.last.Served; fit(told.Endpoint) {
		return told.Cluster, told.Endpoint
	}
	return x.last.Served.Cluster, ""
}

// take says whether a line may be written, and how many were left out before it.
func (l *lines) take(now time.Time) (skipped int64, ok bool) {
	const each = int64(time.Second / linesPerSecond)
	for {
		due := l.due.Load()
		next := max(due, now.UnixNano()-linesSaved*each) + each
		if next > now.UnixNano() {
			l.skipped.Add(1)
			return 0, false
		}
		if l.due.CompareAndSwap(due, next) {
			break
		}
	}
	if l.skipped.Load() == 0 {
		return 0, true
	}
	return l.skipped.Swap(0), true
}
