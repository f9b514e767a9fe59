package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"
)

const (
	// writeAttempts is how often a write is sent whose outcome is not known.
	writeAttempts = 3
	// Pause is the time between such attempts when [Client].Pause is 0: about an election.
	Pause = time.Second
)

// again sends a write once more while its outcome is not known: it carries a key, so that it is done
// once, and only one with a precondition is sent again, so that this holds for servers too that keep
// no keys. What is known in the end is returned, else the first error.
func (c *Client) again(ctx context.Context, call Call, first error) (*Answer, error) {
	if call.IfMatch == "" && call.IfNoneMatch == "" {
		return nil, first
	}
	pause := c.Pause
	if pause == 0 {
		pause = Pause
	}
	for try := 1; try < writeAttempts; try++ {
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			wait.Stop()
			return nil, first
		case <-wait.C:
		}
		a, err := c.anywhere(ctx, call)
		var p *ProblemError
		switch {
		case err == nil:
			return a, nil
		case errors.As(err, &p) && p.Status == http.StatusPreconditionFailed && !p.keyed:
			return nil, first // the write itself may be what has changed it
		case errors.As(err, &p) && p.Status < http.StatusInternalServerError:
			return nil, err
		}
	}
	return nil, first
}

// unknown says whether a write may have been made although there was no answer to it.
func unknown(err error) bool {
	var p *ProblemError
	if errors.As(err, &p) {
		return p.Code == "unknown_outcome"
	}
	var op *url.Error
	return errors.Is(err, errCut) || errors.As(err, &op) && !connecting(err)
}

// errCut says that an answer began and did not end.
var errCut = errors.New("the answer is not complete")
