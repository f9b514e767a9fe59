package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/api/fleet"
	"anabranch/controlplane/state"
)

// The events of /v1/events that belong to no topic.
const (
	eventHello     = "hello"     // first; a Hello
	eventHeartbeat = "heartbeat" // when there was nothing else for a while; a Heartbeat
	eventBye       = "bye"       // last, where the server ends the stream; a Bye
)

// Hello says what a stream will tell.
type Hello struct {
	Node     fleet.NodeID `json:"node"`
	At       time.Time    `json:"at"`
	Revision uint64       `json:"revision"`
	// Topics that are told, and why others are not.
	Topics  []string          `json:"topics"`
	Refused map[string]string `json:"refused"`
	// HeartbeatMs is how long the stream is silent at most.
	HeartbeatMs int64 `json:"heartbeatMs"`
	// Resumed: all that was told before is followed by what came since.
	Resumed bool `json:"resumed"`
}

// Heartbeat says how the node stands.
type Heartbeat struct {
	At          time.Time `json:"at"`
	Revision    uint64    `json:"revision"`
	StalenessMs int64     `json:"stalenessMs"`
}

// Relist has the client forget what it holds of a topic, and read it anew.
type Relist struct {
	Topic    string `json:"topic"`
	Revision uint64 `json:"revision"`
}

// Bye says why the server ends a stream: credential or shutdown.
type Bye struct {
	Reason string `json:"reason"`
}

// eventsHeartbeat is how long a stream of events is silent at most: a console greys what is older than its last word.
const eventsHeartbeat = 5 * time.Second

// topic is one of those that a stream tells.
type topic interface {
	// tell sends what is new as of a view.
	tell(view *state.View) error
	// place is how far it has been told, for a later stream to go on from; empty: there is nothing to go on from.
	place() string
}

// topicKind is how a topic is made and when it is told.
type topicKind struct {
	// operation is the one that gives the right to it.
	operation string
	// when it has news.
	when pace
	// begin makes it, from a place on if that is not empty. Resumed is false where the client has to be told to
	// begin anew, which the first tell does.
	begin func(e *eventStream, name, place string) (t topic, resumed bool)
}

// pace says when a topic is to be told.
type pace int

const (
	byChange   pace = iota // of the state
	byTick                 // as often as the client asks for
	byInterval             // once in an interval of the fleet
)

// topicKinds are the topics. One of the name drill/12 is of the kind drill.
var topicKinds = map[string]topicKind{
	"fleet":     {"watchFleet", byTick, beginFleet},
	"routers":   {"listRouters", byTick, beginRouters},
	"status":    {"getStatus", byInterval, beginStatus},
	"rollouts":  {"listRollouts", byInterval, beginRollouts},
	"usage":     {"listUsage", byInterval, beginUsage},
	"resources": {"watch", byChange, beginResources},
	"proposals": {"listProposals", byChange, beginProposals},
	"audit":     {"watchAudit", byChange, beginAudit},
	"drills":    {"listDrills", byChange, beginDrills},
	"drill":     {"watchDrill", byChange, beginDrill},
}

// eventStream is one stream of several topics.
type eventStream struct {
	*Server
	c     echo.Context
	st    *stream
	names []string
	all   []toldTopic
	// rate is how many pictures of the fleet it wants in an interval.
	rate int
}

// toldTopic is a topic of a stream.
type toldTopic struct {
	name string
	when pace
	topic
}

// events streams what changes, of the topics that are asked for.
func (s *Server) events(c echo.Context) error {
	e := &eventStream{Server: s, c: c}
	var err error
	if e.names, err = topicsOf(c); err != nil {
		return err
	}
	if e.rate, err = intOf(c, "rate", 1, fleetRate, 1); err != nil {
		return err
	}
	if err := vetEventFilters(c); err != nil {
		return err
	}
	places, had := cursors{}, false
	if id := eventIDOf(c); id != "" {
		places, had = parseCursors(id)
	}
	hello := e.begin(places, had)
	compress, done := s.gzips(c)
	defer done()
	var closed func()
	if e.st, closed, err = s.openStream(c); err != nil {
		c.Response().Header().Del(echo.HeaderContentEncoding)
		return err
	}
	defer closed()
	compress(e.st)
	defer e.st.end()
	return e.follow(hello)
}

// eventIDOf is the id to go on from: the header, or ?after= where a page has kept one.
func eventIDOf(c echo.Context) string {
	if id := c.Request().Header.Get("Last-Event-ID"); id != "" {
		return id
	}
	return c.QueryParam("after")
}

// topicsOf reads the topics that are asked for.
func topicsOf(c echo.Context) ([]string, error) {
	var all []string
	for name := range strings.SplitSeq(c.QueryParam("topics"), ",") {
		kind, id, one := strings.Cut(name, "/")
		_, known := topicKinds[kind]
		if known && kind == "drill" {
			_, err := strconv.ParseUint(id, 10, 64)
			known = one && err == nil && strconv.FormatUint(mustUint(id), 10) == id
		} else {
			known = known && !one
		}
		if !known {
			return nil, newProblem(codeInvalidRequest, fmt.Sprintf("topics has %.40q; use some of fleet, routers, status, rollouts, usage, resources, proposals, audit, drills and drill/ID, with commas between.", name))
		}
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	if len(all) > maxTopics {
		return nil, newProblem(codeInvalidRequest, fmt.Sprintf("topics has %d, the limit is %d.", len(all), maxTopics))
	}
	return all, nil
}

func mustUint(text string) uint64 {
	n, _ := strconv.ParseUint(text, 10, 64) // was judged
	return n
}

// intOf reads a whole number of the query within bounds.
func intOf(c echo.Context, name string, least, most, or int) (int, error) {
	text := c.QueryParam(name)
	if text == "" {
		return or, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, newProblem(codeInvalidRequest, fmt.Sprintf("%s is %.40q; give a whole number from %d to %d.", name, text, least, most))
	}
	return n, nil
}

// begin makes the topics that the caller may have.
func (e *eventStream) begin(places cursors, had bool) Hello {
	rights := map[string]Capability{}
	for _, o := range e.operations {
		rights[o.ID] = capability(identity(e.c), o, "")
	}
	view := e.o.View()
	hello := Hello{
		Node: e.o.Node, At: e.o.Now().UTC(), Revision: view.Index(), Topics: []string{}, Refused: map[string]string{},
		HeartbeatMs: e.heartbeat().Milliseconds(), Resumed: had,
	}
	if had {
		e.catchUp(places)
	}
	for _, name := range e.names {
		base, _, _ := strings.Cut(name, "/")
		kind := topicKinds[base]
		if can := rights[kind.operation]; !can.Allowed {
			hello.Refused[name] = can.Reason
			continue
		}
		t, resumed := kind.begin(e, name, places[name])
		hello.Resumed = hello.Resumed && resumed
		hello.Topics = append(hello.Topics, name)
		e.all = append(e.all, toldTopic{name, kind.when, t})
	}
	return hello
}

// catchUp waits, a moment at most, for what a client knows from another node and this one does not. A node that can't
// goes on with what it has, and its clients list anew: they are told how old that is.
func (e *eventStream) catchUp(places cursors) {
	for _, name := range []string{"resources", "proposals", "drills"} {
		if at, err := strconv.ParseUint(places[name], 10, 64); err == nil && at > e.o.View().Index() {
			_ = e.barrier(e.c.Request().Context()) // as above
			return
		}
	}
}

func (e *eventStream) heartbeat() time.Duration { return min(e.o.Heartbeat, eventsHeartbeat) }

// errBye ends a stream after its last word.
var errBye = errors.New("the stream has ended")

// follow tells until either side ends it.
func (e *eventStream) follow(hello Hello) error {
	tick := time.NewTicker(e.o.FleetInterval / time.Duration(e.rate))
	defer tick.Stop()
	heartbeat := time.NewTicker(e.heartbeat())
	defer heartbeat.Stop()
	view := e.o.View()
	err := e.say(eventHello, hello)
	for _, when := range []pace{byChange, byTick, byInterval} {
		if err == nil {
			err = e.tell(view, when)
		}
	}
	for ticks := 1; err == nil; {
		select {
		case <-e.o.Changed(view.Index()):
			if err = e.lapses(); err == nil {
				view = e.o.View()
				err = e.tell(view, byChange)
			}
		case <-tick.C:
			now := e.o.View()
			if err = e.tell(now, byTick); err == nil && ticks%e.rate == 0 {
				if err = e.lapses(); err == nil {
					err = e.tell(now, byInterval)
				}
			}
			ticks++
		case <-heartbeat.C:
			err = e.say(eventHeartbeat, Heartbeat{e.o.Now().UTC(), e.o.View().Index(), e.roughStaleness()})
		case <-e.c.Request().Context().Done():
			return nil
		case <-e.draining:
			err = e.bye("shutdown")
		}
	}
	return nil // the client left, or reads too slowly: there is nobody to tell
}

// tell has topics send their news.
func (e *eventStream) tell(view *state.View, when pace) error {
	for _, t := range e.all {
		if t.when != when {
			continue
		}
		if err := t.tell(view); err != nil {
			return err
		}
	}
	return nil
}

// lapses ends the stream of a caller who may not have it any more.
func (e *eventStream) lapses() error {
	if !e.lapsed(e.c) {
		return nil
	}
	return e.bye("credential")
}

func (e *eventStream) bye(reason string) error {
	return errors.Join(errBye, e.say(eventBye, Bye{reason}))
}

// say sends an event with the places of all topics as its id.
func (e *eventStream) say(name string, what any) error {
	data, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	return e.send(name, data)
}

func (e *eventStream) send(name string, data []byte) error {
	k := cursors{}
	for _, t := range e.all {
		k[t.name] = t.place()
	}
	return e.st.named(k.String(), name, data)
}

// relist has the client read a topic anew.
func (e *eventStream) relist(topic string, view *state.View) error {
	return e.say(eventRelist, Relist{topic, view.Index()})
}
