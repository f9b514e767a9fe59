// Package child runs other programs as children that can't outlive their parent: each in a process
// group of its own, so that a Ctrl-C at the terminal reaches the parent only; killed by the kernel
// when the parent dies; with no input, no inherited descriptors, and its output in a file. It
// restarts nothing: a child that ends stays ended, and says how.
package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Command is one program to run.
type Command struct {
	// Name names it for people and its log file.
	Name string
	// Path is the binary, Args what follows its name.
	Path string
	Args []string
	// Env is its whole environment, "KEY=value" each; nil: the parent's.
	Env []string
	// Dir is where it runs; empty: the parent's folder.
	Dir string
	// Log is the file that its output is appended to; its folder must exist.
	Log string
}

// Status is how a child is doing.
type Status struct {
	Name    string    `json:"name"`
	PID     int       `json:"pid"`
	Running bool      `json:"running"`
	Started time.Time `json:"started"`
	// Ended and How are set once it no longer runs; How is "exit status 1", "signal: killed", …
	Ended time.Time `json:"ended,omitzero"`
	How   string    `json:"how,omitempty"`
	// Expected says that it ended because somebody asked for it.
	Expected bool   `json:"expected,omitempty"`
	Log      string `json:"log"`
}

// Process is a started child. Its methods are safe for concurrent use.
type Process struct {
	command Command
	done    chan struct{}

	mu     sync.Mutex // guards what follows
	cmd    *exec.Cmd
	status Status
}

// Start runs the command through the launcher. It fails if the program can't be started; a program
// that starts and ends at once is told by [Process.Done] and [Process.Status].
func (l *Launcher) Start(c Command) (*Process, error) {
	log, err := os.OpenFile(filepath.Clean(c.Log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	defer func() { _ = log.Close() }()                                  // the child has its own descriptor of it by then
	cmd := exec.CommandContext(context.Background(), c.Path, c.Args...) // ended by Stop, Kill or our own death
	cmd.Dir, cmd.Env = c.Dir, c.Env
	cmd.Stdout, cmd.Stderr = log, log // a *os.File each: no copying goroutine
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := time.Now()
	_, _ = fmt.Fprintf(log, "--- %s started %s: %s %s\n", c.Name, started.Format(time.RFC3339),
		filepath.Base(c.Path), strings.Join(c.Args, " ")) // a log that can't be written shows in the child's own failure
	if err := l.run(cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	p := &Process{command: c, cmd: cmd, done: make(chan struct{})}
	p.status = Status{Name: c.Name, PID: cmd.Process.Pid, Running: true, Started: started, Log: c.Log}
	l.waits.Go(p.wait)
	return p, nil
}

// wait reaps the child and keeps how it ended.
func (p *Process) wait() {
	err := p.cmd.Wait()
	how := "exit status 0"
	if err != nil {
		how = err.Error()
	}
	p.mu.Lock()
	p.status.Running, p.status.Ended, p.status.How = false, time.Now(), how
	p.mu.Unlock()
	close(p.done)
}

// Done is closed once the child has ended and was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Status says how the child is doing.
func (p *Process) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// Command returns what was started, so that it can be started again.
func (p *Process) Command() Command { return p.command }

// Kill ends the child and its group with SIGKILL and waits until it is gone.
func (p *Process) Kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Stop asks the child to end with SIGTERM, waits until it has or ctx ends, and kills it then. It
// returns nil if the child went by itself.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		if err := p.Kill(); err != nil {
			return err
		}
		return fmt.Errorf("stop %s: killed: %w", p.command.Name, context.Cause(ctx))
	}
}

// signal sends to the child's group, unless it was reaped already: the lock keeps the pid from
// being another process's by then.
func (p *Process) signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.status.Running {
		return nil
	}
	p.status.Expected = true
	if err := syscall.Kill(-p.status.PID, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %s: %w", p.command.Name, err)
	}
	return nil
}
