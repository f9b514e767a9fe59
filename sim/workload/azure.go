package workload

import (
	"io"
	"time"
)

// azureStamps are the forms of time that the published files have.
var azureStamps = []string{"2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00"}

// Azure reads an LLM inference trace in the format of https://github.com/Azure/AzurePublicDataset: a
// row a request with TIMESTAMP, ContextTokens and GeneratedTokens, compressed or not. The first row's
// time is the start. It tells nothing of prompts or clients, so that prompts share nothing and
// everything is drawn for each request.
func Azure(r io.Reader, o TraceOptions) (*Trace, error) {
	t, err := newTable("Azure trace", r, "TIMESTAMP", "ContextTokens", "GeneratedTokens")
	if err != nil {
		return nil, err
	}
	var start, last time.Time
	return newTrace(o, func() (record, error) {
		row, err := t.row()
		if err != nil {
			return record{}, err
		}
		at, ok := azureTime(row[0])
		if !ok {
			return record{}, t.wrong("TIMESTAMP is %.40q, want a form like %s", row[0], azureStamps[0])
		}
		if start.IsZero() {
			start, last = at, at
		}
		if at.Before(last) {
			return record{}, t.wrong("TIMESTAMP %s is before that of the row above", row[0])
		}
		if at.Sub(start) > maxDelay {
			return record{}, t.wrong("TIMESTAMP %s is more than %v after the first", row[0], maxDelay)
		}
		last = at
		in, err := t.tokens(row, 1)
		if err != nil {
			return record{}, err
		}
		out, err := t.tokens(row, 2)
		if err != nil {
			return record{}, err
		}
		return record{at: at.Sub(start), key: uint64(t.at), in: in, out: out}, nil
	})
}

// azureTime reads a time stamp; fractions of a second are accepted wherever seconds are.
func azureTime(s string) (time.Time, bool) {
	for _, form := range azureStamps {
		if at, err := time.Parse(form, s); err == nil && at.Year() > 1 {
			return at, true
		}
	}
	return time.Time{}, false
}
