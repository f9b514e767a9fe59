package store

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
)

// guardedLog watches the log store. It stops the node at the first error of a write: Raft itself
// goes on, and a full disk then elects the same leader again and again, or leaves a follower
// wedged. It also knows for how long the current append has been hanging.
type guardedLog struct {
	raft.LogStore
	halt     func(error)
	patience time.Duration
	ghosts   ghosts
	appends  prometheus.Observer // takes how long each append took, in seconds; nil: nobody wants to know
	// since is when the oldest unfinished append began, in Unix nanoseconds; 0: none. Raft
	// appends from one goroutine.
	since atomic.Int64
}

// IsMonotonic passes on what the log store says, as embedding an interface hides it.
func (g *guardedLog) IsMonotonic() bool {
	m, ok := g.LogStore.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// StoreLog appends one entry.
func (g *guardedLog) StoreLog(l *raft.Log) error { return g.StoreLogs([]*raft.Log{l}) }

// StoreLogs appends entries.
func (g *guardedLog) StoreLogs(logs []*raft.Log) error {
	if err := g.ghosts.appended(logs); err != nil {
		return g.check("append to the log", err)
	}
	began := time.Now()
	g.since.Store(began.UnixNano())
	defer g.since.Store(0)
	err := g.LogStore.StoreLogs(logs)
	if g.appends != nil {
		g.appends.Observe(time.Since(began).Seconds())
	}
	return g.check("append to the log", err)
}

// DeleteRange deletes entries.
func (g *guardedLog) DeleteRange(low, high uint64) error {
	err := g.LogStore.DeleteRange(low, high)
	if err == nil {
		err = g.ghosts.deleted(g.LogStore, high)
	}
	return g.check("truncate the log", err)
}

// GetLog reads an entry. After an error other than "not found" Raft panics in places, so the
// reason is reported first.
func (g *guardedLog) GetLog(index uint64, l *raft.Log) error {
	err := g.LogStore.GetLog(index, l)
	if errors.Is(err, raft.ErrLogNotFound) {
		err = g.ghosts.get(g.LogStore, index, l)
	}
	if errors.Is(err, raft.ErrLogNotFound) {
		return err
	}
	return g.check("read the log", err)
}

func (g *guardedLog) check(what string, err error) error {
	if err != nil {
		g.halt(fmt.Errorf("%s: %w", what, err))
	}
	return err
}

// stalled says whether an append has been hanging for longer than patience.
func (g *guardedLog) stalled() bool {
	since := g.since.Load()
	return since != 0 && time.Since(time.Unix(0, since)) > g.patience
}

// errFenced is what peers are spared of while the disk hangs.
var errFenced = errors.New("fenced: the local disk hangs")

// fence is a transport that sends nothing as leader while the local disk hangs. Without it such a
// leader would go on sending heartbeats from its other goroutines and lead for ever, committing
// nothing; with it the others elect one that works.
type fence struct {
	raft.Transport
	stalled func() bool
	// cut: nothing is sent to peers while this node is isolated for a rehearsal.
	cut func() bool
}

var (
	_ raft.WithPreVote = (*fence)(nil)
	_ raft.WithClose   = (*fence)(nil)
)

// AppendEntries sends entries or a heartbeat.
func (f *fence) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	switch {
	case f.stalled():
		return errFenced
	case f.cut():
		return errIsolated
	}
	return f.Transport.AppendEntries(id, to, args, resp)
}

// AppendEntriesPipeline is off: with one append in flight a failed one cannot wedge a follower.
func (f *fence) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// RequestPreVote asks for a vote without disturbing; Options.Validate has made sure that the
// transport can.
func (f *fence) RequestPreVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if f.cut() {
		return errIsolated
	}
	return f.Transport.(raft.WithPreVote).RequestPreVote(id, to, args, resp)
}

// RequestVote asks for a vote.
func (f *fence) RequestVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if f.cut() {
		return errIsolated
	}
	return f.Transport.RequestVote(id, to, args, resp)
}

// InstallSnapshot sends what a peer lacks, whole.
func (f *fence) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if f.cut() {
		return errIsolated
	}
	return f.Transport.InstallSnapshot(id, to, args, resp, data)
}

// TimeoutNow hands the lead over.
func (f *fence) TimeoutNow(id raft.ServerID, to raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	if f.cut() {
		return errIsolated
	}
	return f.Transport.TimeoutNow(id, to, args, resp)
}

// Close closes the transport if it can be closed.
func (f *fence) Close() error {
	if c, ok := f.Transport.(raft.WithClose); ok {
		return c.Close()
	}
	return nil
}
