package endpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"anabranch/failover"
)

const (
	// CanaryHeader marks canaries, so that nobody charges or counts them.
	CanaryHeader = "X-Anabranch-Canary"
	// CanaryPause lies between looks at a place in doubt: three fit well into the second in
	// which a dead place is to be known.
	CanaryPause = 100 * time.Millisecond
)

// probed is a place that canaries look at.
type probed interface {
	idle() bool
	// ProbeDue says whether a canary should go now, and if so counts it as sent.
	ProbeDue(now time.Time, rnd float64) bool
}

// probing looks at one place with canaries until ctx ends: when it is in doubt, and when it is
// ejected and a probe is due. A kick wakes it when it is idle. Send makes one and says how it went, for people with a
// few words, and took takes that in.
func (r *Registry) probing(ctx context.Context, b probed, kick <-chan struct{}, send func(context.Context) (failover.Outcome, string), took func(failover.Outcome, string, time.Time)) {
	timer := time.NewTimer(CanaryPause)
	defer timer.Stop()
	for {
		if b.idle() {
			select {
			case <-ctx.Done():
				return
			case <-kick:
			}
		}
		if b.ProbeDue(r.opt.Now(), r.opt.Random()) {
			outcome, what := send(ctx)
			if ctx.Err() != nil {
				return
			}
			took(outcome, what, r.opt.Now())
		}
		timer.Reset(CanaryPause)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
	}
}

// canary asks an endpoint for one token.
func (r *Registry) canary(ctx context.Context, e *Endpoint) (failover.Outcome, string) {
	began := r.opt.Now()
	within, cancel := context.WithTimeout(ctx, e.ProbeWithin(began))
	defer cancel()
	err := r.ask(within, e)
	now := r.opt.Now()
	what := ""
	if err != nil {
		what = err.Error()
	}
	return e.heard(judge(err), what, began, now)
}

// answered is a status that says the place itself is at fault.
type answered int

func (a answered) Error() string { return fmt.Sprintf("answered %d", int(a)) }

// errFull: the place says that it has no room now, and when to come back.
var errFull = errors.New("answered that it has no room")

// ask sends the canary. Any answer but a 5xx means that the place is alive, but that it does not have the model; one
// that says when to come back is no fault.
func (r *Registry) ask(ctx context.Context, e *Endpoint) error {
	spec := e.Cluster.Spec()
	model := string(e.asks.model)
	if model != "" {
		model = spec.NameOf(model)
	}
	body, err := json.Marshal(map[string]any{
		"model": model, "max_tokens": 1, "messages": []map[string]string{{"role": "user", "content": "ping"}},
	})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(CanaryHeader, "1")
	resp, err := r.roundTrip(e.Cluster, req, body)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // what matters of it has been read
	switch {
	case resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "":
		return errFull
	case resp.StatusCode >= http.StatusInternalServerError:
		return answered(resp.StatusCode)
	case refuses(resp):
		return errMissing
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	return err
}

// judge tells what an error of a canary says of the place.
func judge(err error) failover.Outcome {
	var op *net.OpError
	switch {
	case err == nil:
		return failover.OK
	case errors.Is(err, errFull):
		return failover.Ignored // as of a request
	case errors.Is(err, context.DeadlineExceeded):
		return failover.Silence
	case errors.As(err, &op) && op.Op == "dial":
		return failover.ConnectFailure
	}
	return failover.ServerFault
}

// probeCluster asks another region's router for a cluster of it.
func (r *Registry) probeCluster(ctx context.Context, c *Cluster) (failover.Outcome, string) {
	if r.opt.Probe == nil {
		return failover.OK, ""
	}
	ctx, cancel := context.WithTimeout(ctx, c.class.Load().FirstByteFloor/2)
	defer cancel()
	if err := r.opt.Probe(ctx, c.Spec()); err != nil {
		// Whatever went wrong, that router can't be counted on for this cluster.
		return failover.ConnectFailure, err.Error()
	}
	return failover.OK, ""
}
