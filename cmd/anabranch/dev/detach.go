package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"anabranch/cmd/anabranch/dev/child"
)

// Detach starts the supervisor in a session of its own, shows its progress, and returns once it is
// ready, or with what went wrong and nothing left. When ctx ends first, the supervisor is told to end.
func Detach(ctx context.Context, o Options) error {
	if _, err := siblings(o.Self, exec.LookPath); err != nil {
		return err // before a folder is made
	}
	if err := o.Folder.make(); err != nil {
		return err
	}
	if pid, err := o.Folder.Holder(); err == nil {
		return fmt.Errorf("%w (pid %d); see `%s dev status`, or end it with `%s dev stop`", ErrRunning, pid, o.Program, o.Program)
	}
	path := o.Folder.Log("dev")
	log, err := os.OpenFile(filepath.Clean(path), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	defer func() { _ = log.Close() }() // only read; the supervisor writes through its own
	if err := child.Seal(); err != nil {
		return err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), o.Self, "dev") // it outlives us
	cmd.Args[0] = o.Program
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	progress, err := os.Open(filepath.Clean(path))
	if err != nil {
		return errors.Join(err, cmd.Process.Signal(syscall.SIGTERM), <-ended)
	}
	defer func() { _ = progress.Close() }() // only read
	return follow(ctx, o, cmd.Process, ended, progress)
}

// follow copies the supervisor's progress until it is ready, ended, or ctx ends. Its process is left
// alone when it is ready: ended then never speaks.
func follow(ctx context.Context, o Options, p *os.Process, ended <-chan error, progress io.Reader) error {
	copied := func() error {
		_, err := io.Copy(o.Out, progress) // up to what is written so far
		return err
	}
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case err := <-ended:
			if err == nil {
				err = errors.New("the supervisor ended")
			}
			return errors.Join(copied(), fmt.Errorf("anabranch dev did not become ready: %w", err))
		case <-ctx.Done():
			return errors.Join(ctx.Err(), p.Signal(syscall.SIGTERM), <-ended, copied())
		case <-t.C:
			if err := copied(); err != nil {
				return err
			}
			if s, err := o.Folder.Status(ctx); err == nil && s.PID == p.Pid && s.Phase == phaseReady {
				return copied()
			}
		}
	}
}

// StopWithin bounds how long [Stop] waits: every kind of unit has its time to end.
const StopWithin = 4*stopWithin + 20*time.Second

// Stop ends the supervisor of the folder and everything that it runs, and waits until it is gone.
func Stop(ctx context.Context, f Folder) (pid int, err error) {
	pid, err = f.Holder()
	if err != nil {
		return 0, err
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return pid, fmt.Errorf("stop process %d: %w", pid, err)
	}
	ctx, cancel := context.WithTimeout(ctx, StopWithin)
	defer cancel()
	err = until(ctx, nil, func(context.Context) error {
		if now, err := f.Holder(); err == nil && now == pid {
			return fmt.Errorf("process %d still runs", pid)
		}
		return nil
	})
	return pid, err
}
