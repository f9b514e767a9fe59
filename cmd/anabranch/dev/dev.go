// Package dev is `anabranch dev`: the whole of Anabranch on one machine, on loopback. It starts a
// Redis, three control plane nodes, model servers of three regions and a router in each as child
// processes, seeds them through the public API, and then watches. It restarts nothing by itself:
// what is broken on purpose shows what the system does about it.
package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"

	"anabranch/cmd/anabranch/client"
	"anabranch/cmd/anabranch/dev/seed"
)

// StartWithin bounds how long everything may take until it is ready.
const StartWithin = 90 * time.Second

// Phases of the supervisor.
const (
	phaseStarting = "starting"
	phaseReady    = "ready"
	phaseStopping = "stopping"
)

// Options of [Run].
type Options struct {
	// Folder for state; see [FolderName].
	Folder Folder
	// Program is how the user calls this binary, for the hints; Self is its path.
	Program, Self string
	// Out takes progress and the final page.
	Out io.Writer
}

// errStart is the cause of a start that took too long.
var errStart = fmt.Errorf("not ready within %v", StartWithin)

// Run starts everything, prints "ready", and ends it all in reverse when ctx ends. It returns nil
// after that; otherwise what went wrong, with nothing left running. Whoever can't wait for the end
// may kill this process: its children die with it.
func Run(ctx context.Context, o Options) (err error) {
	s, l, release, err := prepare(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	return s.run(ctx, l, page(o, s.record))
}

// run is the life of the demonstration in a folder that is held: bring up, serve, end in reverse.
func (s *supervisor) run(ctx context.Context, l seed.Layout, greeting string) error {
	socket, err := s.folder.listen(ctx)
	if err != nil {
		return err
	}
	outlive, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var parts sync.WaitGroup
	failures := make(chan error, 2)
	parts.Go(func() { failures <- s.launcher.Run(outlive) })
	parts.Go(func() { failures <- s.serve(outlive, socket, os.Getpid()) })

	starting, cancel := context.WithTimeoutCause(ctx, StartWithin, errStart)
	err = s.bringUp(starting, l)
	cancel()
	switch {
	case err == nil:
		s.say("%s", greeting)
		s.becomeReady()
		select {
		case <-ctx.Done():
		case err = <-failures:
		}
	case ctx.Err() != nil:
		err = nil // told to end while starting: not a failure
	}

	s.enter(phaseStopping)
	s.say("ending, the last started first; once more Ctrl-C kills")
	s.orders.Lock() // an order that has begun ends first; none begins any more
	err = errors.Join(err, s.stop(context.WithoutCancel(ctx)))
	s.orders.Unlock()
	end()
	parts.Wait()
	close(failures)
	for f := range failures {
		err = errors.Join(err, f)
	}
	s.say("all ended")
	return err
}

// becomeReady says so and lets orders through, in one: whoever reads the word may send one at once,
// and whoever asks for the phase finds the word said.
func (s *supervisor) becomeReady() {
	s.orders.Lock()
	defer s.orders.Unlock()
	s.say("ready")
	s.enter(phaseReady)
}

// prepare checks what can be checked before anything runs, takes the folder and writes its files.
func prepare(o Options) (s *supervisor, l seed.Layout, release func() error, err error) {
	b, err := siblings(o.Self, exec.LookPath)
	if err != nil {
		return nil, l, nil, err
	}
	if err := o.Folder.make(); err != nil {
		return nil, l, nil, err
	}
	unhold, err := o.Folder.hold()
	if err != nil {
		return nil, l, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unhold())
		}
	}()
	l = seed.Loopback()
	record, err := o.Folder.loadOrNew(l)
	if err != nil {
		return nil, l, nil, err
	}
	if err := record.chooseAdmins(free); err != nil {
		return nil, l, nil, err
	}
	if err := o.Folder.writeSecrets(record, time.Now()); err != nil {
		return nil, l, nil, err
	}
	us := units(o.Folder, record, l, b)
	if err := checkPorts(us); err != nil {
		return nil, l, nil, err
	}
	return newSupervisor(o.Folder, record, us, printer(o.Out)), l, unhold, nil
}

// bringUp is the start, step by step.
func (s *supervisor) bringUp(ctx context.Context, l seed.Layout) error {
	s.say("starting redis, control plane and model servers; logs are in %s", s.folder.path("logs"))
	base := append(append(s.ofKind(KindRedis), s.ofKind(KindNode)...), s.ofKind(KindCluster)...)
	if err := s.start(ctx, base); err != nil {
		return err
	}
	leader := ""
	err := until(ctx, nil, func(ctx context.Context) (err error) {
		leader, err = s.leader(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("control plane has no leader: %w", err)
	}
	s.say("  control plane is led by %s", leader)
	created, of, err := s.seed(ctx, l)
	if err != nil {
		return err
	}
	s.say("  seeded: %d of %d resources created", created, of)
	if err := s.start(ctx, s.ofKind(KindRouter)); err != nil {
		return err
	}
	if err := s.waitLevel(ctx); err != nil {
		return err
	}
	return s.waitAnswers(ctx)
}

// waitLevel waits until the cluster takes all that its nodes can do: they agree on that a moment after
// they have met.
func (s *supervisor) waitLevel(ctx context.Context) error {
	api := s.api("")
	err := until(ctx, nil, func(ctx context.Context) error {
		var status struct{ FeatureLevel uint32 }
		var members struct {
			Items []struct{ FeatureLevel uint32 }
		}
		if err := errors.Join(api.JSON(ctx, "/v1/status", nil, &status), api.JSON(ctx, "/v1/controlplane/members", nil, &members)); err != nil {
			return err
		}
		for _, m := range members.Items {
			if m.FeatureLevel == 0 || m.FeatureLevel > status.FeatureLevel {
				return fmt.Errorf("the feature level is %d", status.FeatureLevel)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the nodes do not agree on what they can do: %w", err)
	}
	return nil
}

// seed creates the resources that are not there. Those that are stay as they are: they may have been
// changed on purpose.
func (s *supervisor) seed(ctx context.Context, l seed.Layout) (created, of int, err error) {
	rs, err := seed.Resources(l, s.record.keyHashes())
	if err != nil {
		return 0, 0, err
	}
	api := s.api("seed of anabranch dev")
	for _, r := range rs {
		err := until(ctx, nil, func(ctx context.Context) error {
			made, err := api.Create(ctx, r)
			if made {
				created++
			}
			var p *client.ProblemError
			if errors.As(err, &p) && p.Status < http.StatusInternalServerError {
				return permanent{err}
			}
			return err
		})
		if err != nil {
			return created, len(rs), fmt.Errorf("seed %s %s: %w", r.Kind, r.Metadata.Name, err)
		}
	}
	return created, len(rs), nil
}

// waitAnswers waits until every router answers a completion of every model.
func (s *supervisor) waitAnswers(ctx context.Context) error {
	key := s.record.Tenants["acme"].Key
	routers := s.ofKind(KindRouter)
	errs := make([]error, len(routers))
	var all sync.WaitGroup
	for i, u := range routers {
		all.Go(func() {
			began := time.Now()
			for _, model := range s.record.Models {
				try := func(ctx context.Context) error { return chat(ctx, u.Address, key, model) }
				if err := until(ctx, s.process(u).Done(), try); err != nil {
					errs[i] = s.explain(u, fmt.Errorf("completion of %s: %w", model, err))
					return
				}
			}
			s.say("  %-28s answers after %4.1f s", u.ID(), time.Since(began).Seconds())
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
