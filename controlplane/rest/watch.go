package rest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/access"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
)

// Event is what a watch tells of one resource.
type Event struct {
	Kind     policy.Kind `json:"kind"`
	Name     string      `json:"name"`
	Revision uint64      `json:"revision"`
	// Resource is absent when it was deleted.
	Resource *policy.Resource `json:"resource,omitempty"`
}

// The events of a watch. Each has the revision of its change as its id, and ids rise.
const (
	eventPut    = "put"    // created or changed
	eventDelete = "delete" // gone
	eventSynced = "synced" // after the first puts: all that there was has been told
	eventRelist = "relist" // the watch fell so far behind that the history is gone: list, then go on from here
	// eventBookmark moves Last-Event-ID on when there is nothing to tell, so that a quiet watch can be resumed
	// after the history has left it behind.
	eventBookmark = "bookmark"
)

func (s *Server) watchAll(c echo.Context) error { return s.watch(c, policy.Kinds()) }

// watch streams the changes of some kinds. Without Last-Event-ID it starts with a put for every
// resource there is.
func (s *Server) watch(c echo.Context, kinds []policy.Kind) error {
	resume, err := lastEventID(c)
	if err != nil {
		return err
	}
	if resume != nil {
		if err := s.resumable(c.Request().Context(), *resume); err != nil {
			return err
		}
	}
	st, closed, err := s.openStream(c)
	if err != nil {
		return err
	}
	defer closed()
	w := watcher{Server: s, st: st, kinds: kinds, scope: identity(c).Scope, told: map[policy.Ref]bool{}}
	if resume == nil {
		err = w.snapshot(s.o.View())
	} else {
		w.at, w.from = *resume, resume
		err = w.changes(s.o.View())
	}
	heartbeat := time.NewTicker(s.o.Heartbeat)
	defer heartbeat.Stop()
	for err == nil {
		select {
		case <-s.o.Changed(w.at):
			if s.lapsed(c) {
				return nil
			}
			err = w.changes(s.o.View())
		case <-heartbeat.C:
			if s.lapsed(c) {
				return nil
			}
			err = w.mark(eventBookmark)
		case <-c.Request().Context().Done():
			return nil
		case <-s.draining:
			return nil
		}
	}
	return nil // the client left, or reads too slowly: there is nobody to tell
}

// lastEventID is where the client wants to go on: the header, or ?after= for the first connection
// after a list. Nil: from the start.
func lastEventID(c echo.Context) (*uint64, error) {
	text := c.Request().Header.Get("Last-Event-ID")
	if text == "" {
		text = c.QueryParam("after")
	}
	if text == "" {
		return nil, nil
	}
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, newProblem(codeInvalidRequest, fmt.Sprintf("Last-Event-ID %.40q is not a revision.", text))
	}
	return &id, nil
}

// watcher is one watch; at is the revision up to which it has told everything.
type watcher struct {
	*Server
	st    eventSink
	kinds []policy.Kind
	at    uint64
	scope access.Scope
	// told says, where the scope hides anything, of what was told whether it was put last, and not deleted.
	told map[policy.Ref]bool
	// from is the revision up to which the client knows all from elsewhere, of what is not in told: an
	// earlier watch, or a list. Nil: it knows nothing else.
	from *uint64
}

// snapshot tells all that there is, oldest change first, so that a client that is cut off in between
// resumes without a gap.
func (w *watcher) snapshot(view *state.View) error {
	var all []*policy.Resource
	for _, k := range w.kinds {
		all = append(all, view.List(k)...)
	}
	slices.SortStableFunc(all, func(a, b *policy.Resource) int { return cmp.Compare(a.Metadata.Revision, b.Metadata.Revision) })
	dressed := w.dresser(view)
	for _, r := range all {
		if !w.scope.Sees(r) {
			continue
		}
		if err := w.put(dressed(r), r.Metadata.Revision); err != nil {
			return err
		}
	}
	w.at = view.Index()
	return w.mark(eventSynced)
}

// resumable says that the history does not reach back to a revision, or that there has not been one: the
// client has to list anew.
func (s *Server) resumable(ctx context.Context, after uint64) error {
	view := s.o.View()
	if after > view.Index() {
		// This node is behind the one that the client was on, or the client knew another cluster.
		if err := s.barrier(ctx); err != nil {
			return err
		}
		view = s.o.View()
	}
	if _, ok := view.Changes(after); !ok {
		return newProblem(codeGone, fmt.Sprintf("The history does not tell what came after revision %d. List anew, and watch from the revision in the header %s.", after, headerRevision))
	}
	return nil
}

// changes tells what changed since w.at.
func (w *watcher) changes(view *state.View) error {
	changes, ok := view.Changes(w.at)
	if !ok {
		return w.relist(view)
	}
	dressed := w.dresser(view)
	for _, ch := range changes {
		if !slices.Contains(w.kinds, ch.Kind) {
			continue
		}
		if r, ok := view.Get(ch.Kind, ch.Name); ok && w.scope.Sees(r) {
			if err := w.put(dressed(r), ch.Revision); err != nil {
				return err
			}
			continue
		}
		missed, known := w.missed(view, policy.Ref{Kind: ch.Kind, Name: ch.Name})
		if !known {
			return w.relist(view)
		}
		if missed {
			if err := w.gone(ch); err != nil {
				return err
			}
		}
	}
	w.at = view.Index()
	return nil
}

// relist has the client begin anew.
func (w *watcher) relist(view *state.View) error {
	w.at = view.Index()
	at := w.at
	w.from = &at
	clear(w.told)
	return w.mark(eventRelist)
}

func (w *watcher) gone(ch state.Change) error {
	data, err := json.Marshal(Event{Kind: ch.Kind, Name: ch.Name, Revision: ch.Revision})
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	return w.st.event(ch.Revision, eventDelete, data)
}

// missed says whether the client holds something that is gone, or that its scope hides by now: others
// are not even to hear its name. Known is false if that can't be told any more.
func (w *watcher) missed(view *state.View, of policy.Ref) (missed, known bool) {
	if len(w.scope.Tenants) == 0 {
		return true, true
	}
	held, told := w.told[of]
	if !told && w.from != nil {
		if held, known = w.held(view, of); !known {
			return false, false
		}
	}
	w.told[of] = false
	if w.from == nil {
		delete(w.told, of)
	}
	return held, true
}

// held says whether the scope showed something at the revision that the client knows from elsewhere.
func (w *watcher) held(view *state.View, of policy.Ref) (held, known bool) {
	if !hides(w.scope, view, of) {
		return true, true // of a kind, or a tenant, that it always shows
	}
	all := view.History(of.Kind, of.Name)
	for _, r := range all { // newest first
		if r.GetRevision() > *w.from {
			continue
		}
		was, ok := view.Was(of.Kind, of.Name, r.GetRevision())
		return ok && w.scope.Sees(was), true
	}
	// Nothing is kept of that time: it was made since, or its past is forgotten.
	return false, len(all) > 0 && all[len(all)-1].GetAction() == actionCreate
}

func (w *watcher) put(r *policy.Resource, revision uint64) error {
	if len(w.scope.Tenants) > 0 {
		w.told[policy.Ref{Kind: r.Kind, Name: r.Metadata.Name}] = true
	}
	data, err := json.Marshal(Event{Kind: r.Kind, Name: r.Metadata.Name, Revision: revision, Resource: r})
	if err != nil {
		return fmt.Errorf("watch %s %q: %w", r.Kind, r.Metadata.Name, err)
	}
	return w.st.event(revision, eventPut, data)
}

func (w *watcher) mark(name string) error {
	return w.st.event(w.at, name, []byte(`{"revision":`+strconv.FormatUint(w.at, 10)+`}`))
}

// watchFleet sends the picture of the fleet, and again whenever it differs, at most once in an
// interval. Ids count from 1; there is nothing to resume.
func (s *Server) watchFleet(c echo.Context) error {
	var id uint64
	var before []byte
	return s.follow(c, "fleet", func() (uint64, []byte, error) {
		now, err := s.fleetJSON()
		if err != nil || sameFleet(before, now) {
			return id, nil, err
		}
		id, before = id+1, now
		return id, now, nil
	})
}

// follow sends a picture whenever it differs, which is looked for once in an interval. News is nil if it is
// as before; id is that of the event, or of a heartbeat. An error of look ends it.
func (s *Server) follow(c echo.Context, event string, look func() (id uint64, news []byte, err error)) error {
	st, closed, err := s.openStream(c)
	if err != nil {
		return err
	}
	defer closed()
	tick := time.NewTicker(s.o.FleetInterval)
	defer tick.Stop()
	var quiet time.Duration
	for !s.lapsed(c) {
		id, news, err := look()
		if err != nil {
			return fmt.Errorf("watch %s: %w", event, err)
		}
		switch {
		case news != nil:
			quiet = 0
			err = st.event(id, event, news)
		case quiet >= s.o.Heartbeat:
			quiet = 0
			err = st.heartbeat(id)
		default:
			quiet += s.o.FleetInterval
		}
		if err != nil {
			return nil // the client left, or reads too slowly
		}
		select {
		case <-tick.C:
		case <-c.Request().Context().Done():
			return nil
		case <-s.draining:
			return nil
		}
	}
	return nil
}

// sameFleet compares two pictures but for the time at their start.
func sameFleet(a, b []byte) bool {
	return a != nil && bytes.Equal(afterAt(a), afterAt(b))
}

func afterAt(b []byte) []byte {
	_, rest, _ := bytes.Cut(b, []byte(`,"revision"`))
	return rest
}
