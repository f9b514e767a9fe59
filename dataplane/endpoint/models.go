package endpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"anabranch/api/fleet"
	"anabranch/failover"
)

// A place that serves several models is judged by model too. That it can't be reached, or says nothing, is the
// place's; that it answers with errors, or knows a model no more, is the model's, until all of its models are so.

// missingPause is the least between two canaries for requests that were told that a model is not there.
const missingPause = time.Second

// errMissing: the place says that it does not have the model.
var errMissing = errors.New("answered that it does not have the model")

// asking is whose turn it is with canaries. It is used by one canary after another.
type asking struct {
	model fleet.ModelID // that the last one asked for
	next  int           // in the cluster's models
	other bool          // the last one went where something is wrong, the next goes in turn
}

// judges tells an endpoint which models its cluster has, and judges them apart where there are several. A
// provider, whose canaries cost money, is judged as a whole.
func (e *Endpoint) judges(models []fleet.ModelID, cfg failover.EjectConfig) {
	if len(models) < 2 || e.breaker.costly {
		models = nil
	}
	e.models.keep(models, func(m fleet.ModelID) *breaker {
		b := newBreaker(cfg)
		b.kick, b.ejections = e.breaker.kick, e.breaker.ejections
		b.permit = func(b *breaker) bool {
			return e.Cluster.mayEject(b, func(e *Endpoint) *breaker { return e.models.of(m) })
		}
		return b
	})
	for _, b := range e.models.all() {
		b.configure(cfg)
	}
	e.recount()
}

// recount notes how many of the models the endpoint is not used for.
func (e *Endpoint) recount() {
	e.counting.Lock()
	defer e.counting.Unlock()
	n := int32(0)
	for _, b := range e.models.all() {
		if out, _ := b.ejected(); out {
			n++
		}
	}
	e.lacking.Store(n)
}

// Lacks says whether only canaries may ask the endpoint for a model while it is used for others, and why.
func (e *Endpoint) Lacks(model fleet.ModelID) (bool, string) {
	if e.lacking.Load() == 0 {
		return false, ""
	}
	if b := e.models.of(model); b != nil {
		return b.ejected()
	}
	return false, ""
}

// EjectedOf says whether the router sends no requests for a model there, and why: the cluster is ejected, or each of
// its endpoints in use lacks the model.
func (c *Cluster) EjectedOf(model fleet.ModelID) (bool, string) {
	if c.Remote {
		return c.breaker.ejected()
	}
	reason := "no endpoint is known"
	for _, e := range c.Endpoints() {
		out, why := e.Ejected()
		if !out {
			out, why = e.Lacks(model)
		}
		if !out {
			return false, ""
		}
		reason = why
	}
	return true, reason
}

// record takes in the outcome of a request for a model. Missing: the place said that it does not have it.
func (e *Endpoint) record(model fleet.ModelID, o failover.Outcome, missing bool, now time.Time) {
	b := e.models.of(model)
	if missing {
		e.lost(b, now)
	}
	if b == nil {
		e.breaker.record(o, now)
		return
	}
	switch o {
	case failover.ServerFault:
		b.record(o, now)
	case failover.OK:
		b.record(o, now)
		e.breaker.record(o, now)
		return
	default:
		e.breaker.record(o, now)
		return
	}
	e.recount()
}

// lost asks for a canary after a request was told that its model is not there: what is said to one request may be
// the request's own fault.
func (e *Endpoint) lost(b *breaker, now time.Time) {
	if last := e.missed404.Load(); now.UnixNano()-last < int64(missingPause) || !e.missed404.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	if b == nil {
		b = e.breaker
	}
	b.doubt()
}

// idle: no canary has to go until the next kick.
func (e *Endpoint) idle() bool {
	if !e.breaker.idle() {
		return false
	}
	for _, b := range e.models.all() {
		if !b.idle() {
			return false
		}
	}
	return true
}

// turn is the model that the next canary asks for; false: none is due. At every other turn one goes where something
// is wrong, so that it is known soon however many models there are, and else to each in turn, so that one that
// nobody asks for is looked at too.
func (e *Endpoint) turn(now time.Time, rnd float64) (model fleet.ModelID, due bool) {
	place := e.breaker.probe(now, rnd)
	models := e.Cluster.Spec().Models
	if len(models) == 0 {
		return "", place
	}
	a := &e.asks
	if a.other = place && !a.other; !a.other {
		for i := range models {
			m := models[(a.next+i)%len(models)]
			if b := e.models.of(m); b != nil && b.probe(now, rnd) {
				a.next = (a.next + i + 1) % len(models)
				return m, true
			}
		}
	}
	if !place {
		return "", false
	}
	m := models[a.next%len(models)]
	a.next = (a.next + 1) % len(models)
	return m, true
}

// answersFor takes in a canary's answer for one of several models: what it says of the model, and what is left of it to
// be said of the place. The first that fails has the others looked at.
func (e *Endpoint) answersFor(model fleet.ModelID, o failover.Outcome, what string, now time.Time) failover.Outcome {
	b := e.models.of(model)
	if b == nil || o != failover.OK && o != failover.ServerFault {
		return o
	}
	b.probed(o, what, now)
	e.recount()
	if o == failover.OK {
		return o
	}
	if out, _ := b.ejected(); !out {
		b.doubt() // though it was asked for in its turn, and nothing was known to be wrong
	}
	if b.first() {
		for m, other := range e.models.all() {
			if m != model {
				other.doubt()
			}
		}
	}
	if out, _ := e.breaker.ejected(); out {
		return o
	}
	return failover.Ignored
}

// refuses judges a 404: whether the place says that it does not have the model, and not that it does not know
// the path. Servers tell the one as an error of the API, with the model in it, and the other as a page.
func refuses(resp *http.Response) bool {
	if resp.StatusCode != http.StatusNotFound {
		return false
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return false
	}
	type told struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Code    any    `json:"code"` // a word, or the status
	}
	var body struct {
		told
		Error told `json:"error"`
	}
	if json.Unmarshal(raw, &body) != nil {
		return false
	}
	return slices.ContainsFunc([]told{body.told, body.Error}, func(t told) bool {
		return strings.Contains(strings.ToLower(fmt.Sprint(t.Code)), "model") || strings.Contains(strings.ToLower(t.Message), "model")
	})
}
