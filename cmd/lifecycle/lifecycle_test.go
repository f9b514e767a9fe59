package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var quiet = slog.New(slog.DiscardHandler)

// diary notes what happened, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) add(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) part(name string) Part {
	return Part{
		Name: name,
		Run: func(ctx context.Context) error {
			<-ctx.Done()
			d.add(name + " gone")
			return nil
		},
		Stop: func(context.Context) error {
			d.add(name + " asked")
			return nil
		},
	}
}

func TestPartsStopInReverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error)
		go func() { result <- Run(ctx, quiet, d.part("store"), d.part("server")) }()
		synctest.Wait()
		cancel()
		if err := <-result; err != nil {
			t.Fatal(err)
		}
		want := []string{"server asked", "server gone", "store asked", "store gone"}
		if !slices.Equal(d.lines, want) {
			t.Errorf("got %v, want %v", d.lines, want)
		}
	})
}

func TestAPartThatEndsTakesTheRestAlong(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"with an error", errors.New("disk is full"), "raft: disk is full"},
		{"without", nil, "raft: ended by itself"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d diary
				err := Run(t.Context(), quiet, d.part("other"),
					Part{Name: "raft", Run: func(context.Context) error { return c.err }})
				if err == nil || err.Error() != c.want {
					t.Errorf("got %v, want %q", err, c.want)
				}
				if !slices.Contains(d.lines, "other gone") {
					t.Error("the other part was left running")
				}
			})
		})
	}
}

func TestAPartThatHangsIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		release := make(chan struct{})
		start := time.Now()
		err := Run(ctx, quiet, Part{
			Name:       "stuck",
			StopWithin: time.Second,
			Stop: func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			},
			Run: func(context.Context) error { <-release; return nil },
		})
		if err == nil || !strings.Contains(err.Error(), "stop stuck: still running") ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took != 11*time.Second {
			t.Errorf("took %v", took)
		}
		close(release)
	})
}
