package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
)

// The events of the stream of a drill.
const (
	eventDrill  = "drill"  // the drill, at first and whenever its revision has risen; a Drill without events
	eventNote   = "event"  // something happened; a DrillEvent
	eventSample = "sample" // a second of it was measured
	eventEnd    = "end"    // it is over: nothing follows
)

// drillCursor is how many events and seconds of a drill have been told. As an id, the events are in the upper half:
// there are at most 500 at a time, and seconds of at most a few hours.
type drillCursor struct{ events, samples uint32 }

func (k drillCursor) id() uint64 { return uint64(k.events)<<32 | uint64(k.samples) }

func drillCursorOf(id uint64) drillCursor {
	return drillCursor{events: uint32(id >> 32), samples: uint32(id)} //nolint:gosec // the halves
}

// watchDrill tells what has happened in a drill, then what happens, and ends with it. A stream that was cut off goes on
// after Last-Event-ID.
func (s *Server) watchDrill(c echo.Context) error {
	resume, err := lastEventID(c)
	if err != nil {
		return err
	}
	if err := s.barrierIf(c.Request().Context(), resume != nil); err != nil {
		return err
	}
	d, err := drillOf(c, s.o.View())
	if err != nil {
		return err
	}
	st, closed, err := s.openStream(c)
	if err != nil {
		return err
	}
	defer closed()
	w := drillWatch{Server: s, st: st, id: d.GetId()}
	if resume != nil {
		w.resume(d, *resume)
	}
	heartbeat := time.NewTicker(s.o.Heartbeat)
	defer heartbeat.Stop()
	for {
		view := s.o.View()
		over, err := w.tell(view.Drill(w.id))
		if err != nil || over {
			return nil // the client left, or reads too slowly; or there is no more
		}
		select {
		case <-s.o.Changed(view.Index()):
		case <-heartbeat.C:
			err = st.heartbeat(w.told.id())
		case <-c.Request().Context().Done():
			return nil
		case <-s.draining:
			return nil
		}
		if err != nil || s.lapsed(c) {
			return nil
		}
	}
}

// barrierIf waits for what was committed before where a client may know more than this node.
func (s *Server) barrierIf(ctx context.Context, needed bool) error {
	if !needed {
		return nil
	}
	return s.barrier(ctx)
}

// drillWatch is one stream.
type drillWatch struct {
	*Server
	st   eventSink
	id   uint64
	told drillCursor
	// last event that was told: the state drops the oldest of too many, and counting would lose the place.
	last *statepb.DrillEvent
	// revision of the drill that was told last, and how many bytes of its seconds were read.
	revision uint64
	read     int
}

// resume goes on after an id.
func (w *drillWatch) resume(d *statepb.Drill, id uint64) {
	w.told = drillCursorOf(id)
	w.told.events = min(w.told.events, uint32(len(d.GetEvents()))) //nolint:gosec // at most 500
	if n := w.told.events; n > 0 {
		w.last = d.GetEvents()[n-1]
	}
}

// tell sends what is new of the drill, nil if it is forgotten, and says whether it is over.
func (w *drillWatch) tell(d *statepb.Drill) (over bool, err error) {
	if d == nil {
		return true, w.send(eventEnd, map[string]string{"id": strconv.FormatUint(w.id, 10)})
	}
	if d.GetRevision() > w.revision {
		w.revision = d.GetRevision()
		if err := w.send(eventDrill, w.drill(d)); err != nil {
			return false, err
		}
	}
	for _, e := range d.GetEvents()[w.place(d.GetEvents()):] {
		w.told.events, w.last = w.told.events+1, e
		if err := w.send(eventNote, drillEvent(e)); err != nil {
			return false, err
		}
	}
	if err := w.samples(d.GetSamples()); err != nil {
		return false, err
	}
	if ended(d) {
		return true, w.send(eventEnd, w.drill(d))
	}
	return false, nil
}

// place is how many of the events were told.
func (w *drillWatch) place(events []*statepb.DrillEvent) int {
	if w.last == nil {
		return 0
	}
	for i := len(events); i > 0; i-- {
		if e := events[i-1]; e.GetAtUnixMs() == w.last.GetAtUnixMs() && proto.Equal(e, w.last) {
			return i
		}
	}
	return 0 // all that were told are dropped
}

// samples sends the seconds that came since. What was sent before is not read again.
func (w *drillWatch) samples(kept []byte) error {
	if len(kept) < w.read { // it is over: they are in its report
		return nil
	}
	skip := 0
	if w.read == 0 {
		skip = int(w.told.samples)
	}
	news, err := drill.ReadSamples(kept[w.read:])
	if err != nil {
		return fmt.Errorf("drill %d: %w", w.id, err)
	}
	w.read = len(kept)
	for i, second := range news {
		if i < skip {
			continue
		}
		w.told.samples++
		if err := w.send(eventSample, second); err != nil {
			return err
		}
	}
	return nil
}

func (w *drillWatch) send(name string, what any) error {
	data, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("watch drill %d: %w", w.id, err)
	}
	return w.st.event(w.told.id(), name, data)
}
