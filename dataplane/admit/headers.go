package admit

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"anabranch/costmodel"
	"anabranch/ratelimit"
)

// WriteHeaders tells the client how it stands: x-ratelimit-{limit,remaining,reset}-{requests,tokens}
// as OpenAI's API does, RateLimit-Policy and RateLimit as the IETF draft does (requests at the same
// time too), each for the tightest limit of its sort, and on a refusal retry-after (whole seconds,
// rounded up) and retry-after-ms. A request that can never pass, or whose budget is spent, gets
// x-should-retry: false instead, which OpenAI's client libraries obey. Remaining is an estimate: other
// requests draw on the same buckets.
func WriteHeaders(h http.Header, d ratelimit.Decision) {
	var room [320]byte // enough for all but the strangest limits
	w := headerWriter{text: room[:0]}
	w.compose(&d)
	w.to(h)
}

// EachHeader calls add with what [WriteHeaders] writes, for answers that are not of net/http. Names are
// in its canonical form.
func EachHeader(d *ratelimit.Decision, add func(name, value string)) {
	var room [320]byte
	w := headerWriter{text: room[:0]}
	w.compose(d)
	text, from := string(w.text), 0
	for i, end := range w.ends[:w.n] {
		add(w.keys[i], text[from:end])
		from = end
	}
}

// compose writes the headers of a decision.
func (w *headerWriter) compose(d *ratelimit.Decision) {
	sorts := [...]struct {
		limit, remaining, reset string
		ratelimit.Standing
	}{
		{"X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests", d.Requests},
		{"X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens", d.Tokens},
	}
	for i := range sorts {
		if s := &sorts[i]; s.Limit.Amount != 0 {
			w.number(s.Limit.Amount).end(s.limit)
			w.number(max(0, s.Remaining)).end(s.remaining)
			w.words(millis(s.ResetMs).String()).end(s.reset)
		}
	}
	if slots := &d.Slots; w.n > 0 || slots.Limit.Burst != 0 {
		comma := ""
		for i := range sorts {
			if s := &sorts[i]; s.Limit.Amount != 0 {
				w.words(comma, `"`, string(s.Limit.Kind), `";q=`).number(s.Limit.Amount).words(";w=").number(seconds(s.Limit.PeriodMs))
				comma = ", "
			}
		}
		if slots.Limit.Burst != 0 {
			w.words(comma, `"concurrent";q=`).number(slots.Limit.Burst).words(`;qu="concurrent-requests"`)
		}
		w.end("Ratelimit-Policy")
		comma = ""
		for i := range sorts {
			if s := &sorts[i]; s.Limit.Amount != 0 {
				w.words(comma, `"`, string(s.Limit.Kind), `";r=`).number(max(0, s.Remaining)).words(";t=").number(seconds(s.ResetMs))
				comma = ", "
			}
		}
		if slots.Limit.Burst != 0 {
			w.words(comma, `"concurrent";r=`).number(max(0, slots.Remaining))
		}
		w.end("Ratelimit")
	}
	switch {
	case d.Allowed:
	case d.Reason == ratelimit.ReasonTooLarge, d.Reason == ratelimit.ReasonOver && d.Limit.Kind == ratelimit.Money:
		w.words("false").end("X-Should-Retry")
	default:
		w.number(max(1, seconds(d.RetryAfterMs))).end("Retry-After")
		w.number(max(1, d.RetryAfterMs)).end("Retry-After-Ms")
	}
}

// headerWriter puts the values of several headers into one string and one slice, since every request
// gets them.
type headerWriter struct {
	keys [10]string // in canonical form
	ends [10]int    // of their values in text
	n    int
	text []byte
}

func (w *headerWriter) words(all ...string) *headerWriter {
	for _, s := range all {
		w.text = append(w.text, s...)
	}
	return w
}

func (w *headerWriter) number(n int64) *headerWriter {
	w.text = strconv.AppendInt(w.text, n, 10)
	return w
}

// end says that what was written since the last is the value of key.
func (w *headerWriter) end(key string) {
	w.keys[w.n], w.ends[w.n] = key, len(w.text)
	w.n++
}

func (w *headerWriter) to(h http.Header) {
	text, values, from := string(w.text), make([]string, w.n), 0
	for i := range values {
		values[i] = text[from:w.ends[i]]
		h[w.keys[i]] = values[i : i+1 : i+1]
		from = w.ends[i]
	}
}

// Denial is a refusal in the terms of an OpenAI error body.
type Denial struct {
	// Status of HTTP: 429, or 503 when the limits can't be told and the policy is closed.
	Status int
	// Type and Code of the error object.
	Type, Code string
	// Message for a person.
	Message string
}

// Deny puts a refusal into words. It is the zero Denial for a decision that allows.
func Deny(d ratelimit.Decision) Denial {
	if d.Allowed {
		return Denial{}
	}
	switch d.Reason {
	case ratelimit.ReasonTooLarge:
		return Denial{
			Status: http.StatusTooManyRequests,
			Type:   "invalid_request_error",
			Code:   "request_exceeds_quota",
			Message: fmt.Sprintf("This request asks for %s at once and quota %s never allows more than %s. Waiting does not help: send less in one request.",
				amount(d.Limit.Kind, d.Cost), d.Limit.ID, amount(d.Limit.Kind, d.Limit.Burst)),
		}
	case ratelimit.ReasonClosed:
		return Denial{
			Status:  http.StatusServiceUnavailable,
			Type:    "server_error",
			Code:    "quota_store_unavailable",
			Message: fmt.Sprintf("The counters of quota %s can't be reached, and its policy is to admit nothing more until they can.", d.Limit.ID),
		}
	}
	denial := Denial{Status: http.StatusTooManyRequests, Type: "rate_limit_exceeded", Code: "rate_limit_exceeded"}
	switch d.Limit.Kind {
	case ratelimit.Money:
		denial.Type, denial.Code = "insufficient_quota", "insufficient_quota"
		denial.Message = fmt.Sprintf("Quota %s is spent: its budget is %s, of which %s is left, and this request may cost %s. It is renewed in %v. Waiting for less than that does not help.",
			d.Limit.ID, amount(ratelimit.Money, d.Limit.Burst), amount(ratelimit.Money, max(0, d.Remaining)), amount(ratelimit.Money, d.Cost),
			time.Duration(seconds(d.ResetMs))*time.Second)
	case ratelimit.Slots:
		denial.Message = fmt.Sprintf("Too many requests at the same time: quota %s allows %d. Please try again when one of them has ended.",
			d.Limit.ID, d.Limit.Burst)
	default:
		denial.Message = fmt.Sprintf("Rate limit reached for quota %s: limit %s per %s, remaining about %d, requested %d. Please try again in %v.",
			d.Limit.ID, amount(d.Limit.Kind, d.Limit.Amount), period(d.Limit.PeriodMs), max(0, d.Remaining), d.Cost, millis(d.RetryAfterMs))
	}
	return denial
}

// amount is so many units of a kind in words.
func amount(k ratelimit.Kind, n int64) string {
	switch k {
	case ratelimit.Money:
		return costmodel.Micros(n).String()
	case ratelimit.Slots:
		return fmt.Sprintf("%d requests at the same time", n)
	}
	return fmt.Sprintf("%d %s", n, strings.ReplaceAll(string(k), "-", " "))
}

// period is a time in words that follow "per".
func period(ms int64) string {
	switch d := millis(ms); d {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	case 24 * time.Hour:
		return "day"
	default:
		return d.String()
	}
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

func seconds(ms int64) int64 { return (ms + 999) / 1000 }
