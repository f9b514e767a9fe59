package client

import (
	"context"
	"errors"
	"net/http"
	"time"
)

const (
	// pacedAttempts is how often a call is made that a server takes too many of.
	pacedAttempts = 5
	// maxPace bounds what is waited in between: who is told to wait longer is told so.
	maxPace = 10 * time.Second
)

// paced makes a call, and again after as long as the server asks for while it says that there are too
// many: nothing was done then.
func (c *Client) paced(ctx context.Context, call Call) (*Answer, error) {
	for try := 1; ; try++ {
		a, err := c.anywhere(ctx, call)
		var p *ProblemError
		if !errors.As(err, &p) || p.Status != http.StatusTooManyRequests || p.after <= 0 || p.after > maxPace || try == pacedAttempts {
			return a, err
		}
		wait := time.NewTimer(p.after)
		select {
		case <-ctx.Done():
			wait.Stop()
			return nil, err
		case <-wait.C:
		}
	}
}
