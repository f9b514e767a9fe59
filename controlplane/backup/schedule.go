package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/state"
)

const (
	// MinInterval is the least time between two backups.
	MinInterval = time.Second
	// DefaultInterval is the default of Options.Interval.
	DefaultInterval = time.Hour
	// DefaultKeep is the default of Options.Keep: a day of hourly ones.
	DefaultKeep = 24
	// timeout bounds one backup to one place, reading what is there included.
	timeout = 10 * time.Minute
	// retryAfter is the wait after a backup that failed, unless the interval is shorter.
	retryAfter = time.Minute
	// suffix ends the names of backups.
	suffix = ".backup"
)

// Place is where backups are kept. Names are made by this package, and sort by age.
type Place interface {
	// String names the place for logs and metrics, without secrets.
	String() string
	// Put keeps an archive of size bytes under a name, whole or not at all.
	Put(ctx context.Context, name string, archive io.ReadSeeker, size int64) error
	// Names lists what is there, in any order; other things may be among it.
	Names(ctx context.Context) ([]string, error)
	// Delete removes one of them.
	Delete(ctx context.Context, name string) error
}

// Options of a schedule. All but Interval, Keep, Node, Version, Now and Logger are required.
type Options struct {
	// Places to keep backups at, each with a schedule of its own.
	Places []Place
	// Interval between backups; 0: DefaultInterval, else at least MinInterval.
	Interval time.Duration
	// Keep is how many of the newest stay at each place; 0: DefaultKeep.
	Keep int
	// Scratch is a folder for one archive at a time, of the size of the state.
	Scratch string
	// Leading says whether this node leads: the others take no backups.
	Leading func() bool
	// ReadBarrier returns when View holds everything that was committed before the call.
	ReadBarrier func(context.Context) error
	View        func() *state.View
	// Node and Version go into the meta data.
	Node    fleet.NodeID
	Version string
	// Now is time.Now when nil. Logger is slog.Default() when nil.
	Now    func() time.Time
	Logger *slog.Logger
}

// Validate names the option that is missing or wrong.
func (o Options) Validate() error {
	switch {
	case len(o.Places) == 0:
		return errors.New("backup: Places is empty: name a folder or a bucket")
	case o.Interval != 0 && o.Interval < MinInterval:
		return fmt.Errorf("backup: Interval is %s, the least is %s", o.Interval, MinInterval)
	case o.Keep < 0:
		return errors.New("backup: Keep is negative; 0 takes the default")
	case o.Scratch == "":
		return errors.New("backup: Scratch is empty: name a folder")
	case o.Leading == nil || o.ReadBarrier == nil || o.View == nil:
		return errors.New("backup: Leading, ReadBarrier and View are needed: give those of the node")
	}
	return nil
}

// Schedule takes backups at regular times while its node leads.
type Schedule struct {
	o      Options
	logger *slog.Logger

	mu       sync.Mutex // guards progress
	progress map[string]progress
}

// progress is how a place stands.
type progress struct {
	known    bool      // last has been looked up since this node began to lead
	last     time.Time // of the newest backup there, by its name; zero: none
	next     time.Time // not before
	good     uint64    // taken by this node
	failures uint64
}

// New makes a schedule that Run starts.
func New(o Options) (*Schedule, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.Keep == 0 {
		o.Keep = DefaultKeep
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Schedule{o: o, logger: o.Logger.With("component", "backup"), progress: map[string]progress{}}, nil
}

// Run takes backups until ctx ends. What fails is logged, counted and tried again.
func (s *Schedule) Run(ctx context.Context) error {
	var children sync.WaitGroup
	for i, p := range s.o.Places {
		children.Go(func() { s.serve(ctx, p, filepath.Join(s.o.Scratch, fmt.Sprintf("backup-%d%s", i, suffix))) })
	}
	children.Wait()
	return nil
}

// serve looks after one place.
func (s *Schedule) serve(ctx context.Context, p Place, scratch string) {
	look := time.NewTicker(min(max(s.o.Interval/10, MinInterval/10), 10*time.Second))
	defer look.Stop()
	for {
		s.step(ctx, p, scratch)
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// step takes a backup if one is due.
func (s *Schedule) step(ctx context.Context, p Place, scratch string) {
	leading, now := s.o.Leading() && s.o.View().ClusterID() != "", s.o.Now()
	was := s.of(p)
	if !leading {
		s.update(p, func(g *progress) { g.known = false })
		return
	}
	if was.known && now.Before(was.next) || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	last, err := s.work(ctx, p, scratch, now)
	s.update(p, func(g *progress) {
		g.known, g.last, g.next = true, last, last.Add(s.o.Interval)
		if err != nil {
			g.failures++
			g.next = now.Add(min(s.o.Interval, retryAfter))
		}
	})
	if err != nil {
		s.logger.Error("backup failed", "place", p.String(), "error", err)
	}
}

// work takes a backup unless the place has one that is young enough, and removes what is too many.
// It returns the time of the newest good one there.
func (s *Schedule) work(ctx context.Context, p Place, scratch string, now time.Time) (time.Time, error) {
	names, err := s.names(ctx, p)
	if err != nil {
		return s.of(p).last, err
	}
	var last time.Time
	if len(names) > 0 {
		last, _ = timeOf(names[len(names)-1])
	}
	if age := now.Sub(last); age >= 0 && age < s.o.Interval {
		return last, nil // of the leader before, or of another start of this node
	}
	name, err := s.take(ctx, p, scratch, now)
	if err != nil {
		return last, err
	}
	s.update(p, func(g *progress) { g.good++ })
	last, _ = timeOf(name)
	names = append(names, name)
	slices.Sort(names)
	for _, old := range names[:max(0, len(names)-s.o.Keep)] {
		if err := p.Delete(ctx, old); err != nil {
			return last, fmt.Errorf("delete %s at %s: %w", old, p, err)
		}
	}
	return last, nil
}

// names lists the backups of this cluster at a place, the oldest first.
func (s *Schedule) names(ctx context.Context, p Place) ([]string, error) {
	all, err := p.Names(ctx)
	if err != nil {
		return nil, fmt.Errorf("list backups at %s: %w", p, err)
	}
	prefix := prefixOf(s.o.View().ClusterID())
	own := slices.DeleteFunc(slices.Clone(all), func(n string) bool {
		_, ok := timeOf(n)
		return !ok || !strings.HasPrefix(n, prefix)
	})
	slices.Sort(own)
	return own, nil
}

// take writes an archive, proves it good, and brings it to the place.
func (s *Schedule) take(ctx context.Context, p Place, scratch string, now time.Time) (string, error) {
	if err := s.o.ReadBarrier(ctx); err != nil {
		return "", fmt.Errorf("take backup: %w", err)
	}
	view := s.o.View()
	if err := os.MkdirAll(s.o.Scratch, 0o700); err != nil {
		return "", fmt.Errorf("take backup: %w", err)
	}
	m, back, err := save(scratch, func(w io.Writer) error {
		_, err := Write(w, view, Origin{At: now, Node: s.o.Node, Version: s.o.Version})
		return err
	})
	if err != nil {
		return "", fmt.Errorf("take backup: %w", err)
	}
	defer func() { _ = os.Remove(scratch) }() // the next one replaces it anyway
	if !state.Equal(view, back) {
		return "", fmt.Errorf("take backup: %w: what was read back is not the state at %d", ErrDamaged, view.Index())
	}
	f, err := os.Open(scratch)
	if err != nil {
		return "", fmt.Errorf("take backup: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("take backup: %w", err)
	}
	name := Name(m)
	if err := p.Put(ctx, name, f, info.Size()); err != nil {
		return "", fmt.Errorf("put backup at %s: %w", p, err)
	}
	s.logger.Info("backup taken", "place", p.String(), "name", name, "revision", m.Revision, "bytes", info.Size())
	return name, nil
}

func (s *Schedule) of(p Place) progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.progress[p.String()]
}

func (s *Schedule) update(p Place, f func(*progress)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.progress[p.String()]
	f(&g)
	s.progress[p.String()] = g
}

// stamp is how times stand in names, so that they sort by age.
const stamp = "20060102T150405.000Z"

// Name is what an archive is called at a place.
func Name(m Meta) string {
	return fmt.Sprintf("%s%s-%d-%d%s", prefixOf(m.ClusterID), m.At.UTC().Format(stamp), m.Epoch, m.Revision, suffix)
}

func prefixOf(cluster string) string { return "anabranch-" + cluster + "-" }

// timeOf reads the time in a name; false: it is no backup's.
func timeOf(name string) (time.Time, bool) {
	name, ok := strings.CutSuffix(name, suffix)
	parts := strings.Split(name, "-")
	if !ok || len(parts) < 5 {
		return time.Time{}, false
	}
	at, err := time.Parse(stamp, parts[len(parts)-3])
	return at, err == nil
}
