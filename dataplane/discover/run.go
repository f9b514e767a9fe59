package discover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

// shortPause and longPause bound the pause before a watch that ended by itself begins anew; it doubles.
const shortPause, longPause = time.Second, 30 * time.Second

// Discoverer watches the sources of the newest table's clusters. Get one from [New].
type Discoverer struct {
	opt     Options
	log     *slog.Logger
	finders map[string]Finder
	wake    chan struct{} // holds one wake-up of Run

	mu      sync.Mutex // guards watches and what is in them
	watches map[fleet.ClusterID]*watch
}

// watch is what is known of one cluster's source.
type watch struct {
	spec    table.Discovery
	wanted  bool  // by the newest table
	running *turn // nil: not yet

	list     []table.Endpoint // the last good one, never changed in place
	known    bool             // there is a last good one
	fresh    bool             // which Found hasn't got yet
	looked   time.Time        // when a look last succeeded; zero: never
	err      error            // of the last look
	failures uint64           // looks in vain
	changes  uint64           // of the list
}

// turn is one run of a finder. What one tells after another has taken its place isn't heard.
type turn struct {
	spec table.Discovery
	stop context.CancelFunc
}

// Sync takes in a new table. A source that is described as before goes on being watched. Where the
// description has changed the last list stays until the new source has told its own, so that a slip
// of the pen doesn't empty a cluster. It may be called before Run.
func (d *Discoverer) Sync(t *table.Table) {
	wanted := make(map[fleet.ClusterID]table.Discovery)
	for id, c := range t.Clusters {
		if c.Kind == table.KindEndpoints && c.Discovery != nil && (d.opt.Region == "" || c.Region == d.opt.Region) {
			wanted[id] = *c.Discovery
		}
	}
	d.mu.Lock()
	for id, w := range d.watches {
		_, ok := wanted[id]
		// Who takes the lists may have dropped this one with the table between.
		w.fresh = w.fresh || ok && !w.wanted && w.known
		w.wanted = ok
	}
	for id, spec := range wanted {
		w := d.watches[id]
		if w == nil {
			w = &watch{wanted: true}
			d.watches[id] = w
		}
		w.spec = spec
	}
	d.mu.Unlock()
	d.awake()
}

func (d *Discoverer) awake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Run watches until ctx ends and returns once all watches have ended. It must run once.
func (d *Discoverer) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for {
		for _, n := range d.settle(func(w *watch, t *turn) {
			ctx, stop := context.WithCancel(ctx)
			t.stop = stop
			all.Go(func() {
				defer stop()
				d.follow(ctx, w, t)
			})
		}) {
			d.opt.Found(n.cluster, n.endpoints)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-d.wake:
		}
	}
}

// news is one call of Found.
type news struct {
	cluster   fleet.ClusterID
	endpoints []table.Endpoint
}

// settle starts and stops what the newest table asks for, and collects what Found hasn't got.
func (d *Discoverer) settle(start func(*watch, *turn)) []news {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []news
	for id, w := range d.watches {
		if !w.wanted {
			if w.running != nil {
				w.running.stop()
				w.running = nil
			}
			delete(d.watches, id)
			if w.known {
				out = append(out, news{id, nil})
			}
			continue
		}
		if w.running == nil || w.running.spec != w.spec {
			if w.running != nil {
				w.running.stop()
			}
			w.running = &turn{spec: w.spec}
			start(w, w.running)
		}
		if w.fresh {
			w.fresh = false
			out = append(out, news{id, slices.Clone(w.list)})
			d.log.Info("endpoints discovered", "cluster", id, "kind", w.spec.Kind, "name", w.spec.Name, "endpoints", len(w.list))
		}
	}
	return out
}

// follow runs a cluster's finder until ctx ends.
func (d *Discoverer) follow(ctx context.Context, w *watch, t *turn) {
	finder := d.finders[t.spec.Kind]
	if finder == nil {
		d.take(w, t, nil, missing(t.spec.Kind))
		return
	}
	for pause := shortPause; ; pause = min(2*pause, longPause) {
		began := d.opt.Now()
		err := finder.Watch(ctx, t.spec, func(list []table.Endpoint, err error) { d.take(w, t, list, err) })
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("the watch has ended")
		}
		d.take(w, t, nil, err)
		if d.opt.Now().Sub(began) > longPause {
			pause = shortPause
		}
		if !rest(ctx, pause) {
			return
		}
	}
}

func missing(kind string) error {
	switch kind {
	case table.DiscoverEndpointSlices, table.DiscoverInferencePool:
		return fmt.Errorf("kind %q needs a router that was built with the tag kubernetes", kind)
	}
	return fmt.Errorf("kind %q is not known to this router", kind)
}

// take takes what one look found.
func (d *Discoverer) take(w *watch, t *turn, list []table.Endpoint, err error) {
	if err == nil {
		list, err = check(list, t.spec.Class)
	}
	now := d.opt.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.running != t {
		return
	}
	was := w.err
	w.err = err
	if err != nil {
		w.failures++
		if was == nil || was.Error() != err.Error() {
			d.log.Warn("discovery looked in vain, the last list stands",
				"kind", t.spec.Kind, "name", t.spec.Name, "endpoints", len(w.list), "error", err)
		}
		return
	}
	w.looked = now
	if w.known && slices.Equal(w.list, list) {
		return
	}
	w.list, w.known, w.fresh = list, true, true
	w.changes++
	d.awake()
}

// rest waits for d, or says that ctx has ended.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
