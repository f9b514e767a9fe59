// Package lifecycle runs the parts of a command: they start in the order given, and stop in
// reverse, each within its time. Whoever reads the list of parts sees the whole of a process.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Part is one thing that runs.
type Part struct {
	// Name stands in logs and errors.
	Name string
	// Run blocks until ctx ends and all that it started is gone. Coming back earlier, with or
	// without an error, ends the process.
	Run func(ctx context.Context) error
	// Stop, if set, is called before Run's ctx ends and may use up to its own ctx's deadline: to
	// drain, to hand over leadership. Nil: nothing to do first.
	Stop func(ctx context.Context) error
	// StopWithin bounds Stop, and after it the wait for Run. 0: 10 s.
	StopWithin time.Duration
}

// Run starts all parts, waits until ctx ends or a part does, and stops them, the last started
// first. It gives back what the parts said, joined; nil after an orderly stop.
func Run(ctx context.Context, log *slog.Logger, parts ...Part) error {
	type ended struct {
		index int
		err   error
	}
	exits := make(chan ended, len(parts))
	cancels := make([]context.CancelFunc, len(parts))
	gone := make([]chan struct{}, len(parts))
	for i, part := range parts {
		partCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		cancels[i], gone[i] = cancel, make(chan struct{})
		go func() {
			defer close(gone[i])
			exits <- ended{i, part.Run(partCtx)}
		}()
	}

	var problems []error
	select {
	case <-ctx.Done():
		log.Info("stopping")
	case first := <-exits:
		name := parts[first.index].Name
		if first.err == nil {
			first.err = errors.New("ended by itself")
		}
		log.Error("part ended, stopping the rest", "part", name, "error", first.err)
		problems = append(problems, fmt.Errorf("%s: %w", name, first.err))
	}

	for i := len(parts) - 1; i >= 0; i-- {
		problems = append(problems, stop(ctx, log, parts[i], cancels[i], gone[i]))
	}
	for {
		select {
		case late := <-exits:
			if late.err != nil && !errors.Is(late.err, context.Canceled) {
				problems = append(problems, fmt.Errorf("%s: %w", parts[late.index].Name, late.err))
			}
			continue
		default:
		}
		return errors.Join(problems...)
	}
}

func stop(ctx context.Context, log *slog.Logger, part Part, cancel context.CancelFunc, gone <-chan struct{}) error {
	within := part.StopWithin
	if within <= 0 {
		within = 10 * time.Second
	}
	stopCtx, done := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer done()
	var err error
	if part.Stop != nil {
		if err = part.Stop(stopCtx); err != nil {
			err = fmt.Errorf("stop %s: %w", part.Name, err)
		}
	}
	cancel()
	timer := time.NewTimer(10 * time.Second)
	defer timer.Stop()
	select {
	case <-gone:
		log.Debug("part stopped", "part", part.Name)
		return err
	case <-timer.C:
		return errors.Join(err, fmt.Errorf("stop %s: still running after 10s", part.Name))
	}
}
