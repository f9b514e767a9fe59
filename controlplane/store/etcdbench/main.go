// Command etcdbench measures how fast the control plane's store commits beside etcd's server, both
// embedded and on the same disk: three nodes in one process, plain TCP on loopback, every commit
// synced, 128 bytes a write, handed to the leader without a client's protocol in between.
//
// It is a module of its own, so that nobody who builds Anabranch needs etcd.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// system is a cluster under load.
type system interface {
	// Put writes a value under one of 64 keys, and returns when the leader has applied it.
	Put(ctx context.Context, key int, value string) error
	// Restart stops all nodes and starts them again on what they have on disk; it returns when one
	// of them leads and has written.
	Restart(ctx context.Context) error
	Close() error
}

// options of a run.
type options struct {
	dir     string
	each    time.Duration
	entries int
}

func main() {
	var o options
	var only string
	flag.StringVar(&o.dir, "dir", "", "folder on the disk to be measured (default: the system's for temporary files)")
	flag.DurationVar(&o.each, "each", 5*time.Second, "how long each number of writers writes")
	flag.IntVar(&o.entries, "entries", 100_000, "entries written before the restart")
	flag.StringVar(&only, "only", "", "ours or etcd: measure it in this process and print JSON")
	flag.Parse()
	if err := run(context.Background(), o, only); err != nil {
		fmt.Fprintln(os.Stderr, "etcdbench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, only string) error {
	if only != "" {
		r, err := measure(ctx, only, o)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	ours, err := child(ctx, "ours", o)
	if err != nil {
		return err
	}
	theirs, err := child(ctx, "etcd", o)
	if err != nil {
		return err
	}
	compare(os.Stdout, ours, theirs)
	return nil
}

// child measures a system in a process of its own, so that neither has the other's memory.
func child(ctx context.Context, name string, o options) (result, error) {
	cmd := exec.CommandContext(ctx, os.Args[0], "-only", name, "-dir", o.dir, "-each", o.each.String(), "-entries", strconv.Itoa(o.entries))
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return result{}, fmt.Errorf("measure %s: %w", name, err)
	}
	var r result
	if err := json.Unmarshal(text, &r); err != nil {
		return result{}, fmt.Errorf("measure %s: %w", name, err)
	}
	return r, nil
}

// measure starts a system and puts it under load.
func measure(ctx context.Context, name string, o options) (r result, err error) {
	dir, err := os.MkdirTemp(o.dir, "etcdbench")
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	open := map[string]func(context.Context, string) (system, error){"ours": openOurs, "etcd": openEtcd}[name]
	if open == nil {
		return result{}, fmt.Errorf("%q is neither ours nor etcd", name)
	}
	s, err := open(ctx, dir)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, err := load(ctx, s, 16, time.Second); err != nil { // files grow, connections open
		return result{}, err
	}
	total := 0
	for _, writers := range []int{1, 64, 256} {
		row, err := load(ctx, s, writers, o.each)
		if err != nil {
			return result{}, fmt.Errorf("%d writers: %w", writers, err)
		}
		r.Rows = append(r.Rows, row)
		total += row.Writes
	}
	for total < o.entries {
		row, err := load(ctx, s, 256, time.Second)
		if err != nil {
			return result{}, err
		}
		total += row.Writes
	}
	r.Entries = total
	r.ResidentBytes = resident()
	began := time.Now()
	if err := s.Restart(ctx); err != nil {
		return result{}, fmt.Errorf("restart: %w", err)
	}
	r.Restart = time.Since(began)
	return r, nil
}
