package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
)

// eventSink takes the events of a watch. Ids are its own.
type eventSink interface {
	event(id uint64, name string, data []byte) error
}

// mark is how far a topic is told whose places are numbers: what a watch of its own would have as ids.
type mark struct {
	*eventStream
	topic string
	at    uint64
	// anew: the client has to be told to begin anew.
	anew bool
	// rename gives the event's name in a stream of several topics; empty: it is not told.
	rename func(name string) string
}

func (m *mark) place() string { return strconv.FormatUint(m.at, 10) }

// event is of an eventSink.
func (m *mark) event(id uint64, name string, data []byte) error {
	m.at = id
	if name == eventRelist {
		return m.relist(m.topic, m.o.View())
	}
	if name = m.rename(name); name == "" {
		return nil
	}
	return m.send(name, data)
}

// relisted tells the client once to begin anew, if it has to.
func (m *mark) relisted(view *state.View) error {
	if !m.anew {
		return nil
	}
	m.anew = false
	return m.relist(m.topic, view)
}

// resumedAt reads a place; without one a topic begins at or, and anew if it had one that is no good.
func (e *eventStream) resumedAt(topic, place string, or uint64, good func(uint64) bool) *mark {
	m := &mark{eventStream: e, topic: topic, at: or}
	if place == "" {
		return m
	}
	at, err := strconv.ParseUint(place, 10, 64)
	if err != nil || !good(at) {
		m.anew = true
		return m
	}
	m.at = at
	return m
}

// vetEventFilters reads the parameters that narrow topics.
func vetEventFilters(c echo.Context) error {
	for _, name := range c.QueryParams()["kind"] {
		if !isKind(name) {
			return newProblem(codeInvalidRequest, fmt.Sprintf("kind is %.40q, which is none.", name))
		}
	}
	if _, err := tenantsOf(c); err != nil {
		return err
	}
	_, err := closelyOf(c)
	return err
}

func isKind(name string) bool {
	for _, k := range policy.Kinds() {
		if string(k) == name {
			return true
		}
	}
	return false
}

// resourcesTopic tells of resources that change, as /v1/watch does after a list.
type resourcesTopic struct {
	*mark
	w watcher
}

func beginResources(e *eventStream, name, place string) (topic, bool) {
	view := e.o.View()
	m := e.resumedAt(name, place, view.Index(), func(at uint64) bool {
		_, ok := view.Changes(at)
		return ok && at <= view.Index()
	})
	m.rename = func(name string) string {
		if name == eventBookmark || name == eventSynced {
			return ""
		}
		return name
	}
	kinds := policy.Kinds()
	if asked := e.c.QueryParams()["kind"]; len(asked) > 0 {
		kinds = kinds[:0:0]
		for _, k := range asked {
			kinds = append(kinds, policy.Kind(k))
		}
	}
	from := m.at
	t := &resourcesTopic{m, watcher{Server: e.Server, st: m, kinds: kinds, at: from, from: &from, scope: identity(e.c).Scope, told: map[policy.Ref]bool{}}}
	return t, !m.anew
}

func (t *resourcesTopic) tell(view *state.View) error {
	if err := t.relisted(view); err != nil {
		return err
	}
	err := t.w.changes(view)
	t.at = t.w.at
	return err
}

// proposalsTopic tells of proposals, as /v1/proposals?watch=true does.
type proposalsTopic struct {
	*mark
	told *uint64 // nil: nothing yet
}

func beginProposals(e *eventStream, name, place string) (topic, bool) {
	view := e.o.View()
	m := e.resumedAt(name, place, 0, func(at uint64) bool { return at <= view.Index() && at >= view.ProposalsForgotten() })
	m.rename = func(name string) string { return name }
	t := &proposalsTopic{mark: m}
	if place != "" && !m.anew {
		at := m.at
		t.told = &at
	}
	return t, !m.anew
}

func (t *proposalsTopic) tell(view *state.View) error {
	if err := t.relisted(view); err != nil {
		return err
	}
	at, err := t.tellProposals(t.c, t, view, t.told)
	if err != nil {
		return err
	}
	t.at, t.told = at, &at
	return nil
}

// auditTopic tells entries of the trail, as /v1/audit/watch does.
type auditTopic struct{ *mark }

func beginAudit(e *eventStream, name, place string) (topic, bool) {
	view := e.o.View()
	last := newest(view)
	m := e.resumedAt(name, place, last, func(at uint64) bool { return at <= last && at >= view.AuditDropped() })
	m.rename = func(string) string { return "audit" }
	return auditTopic{m}, !m.anew
}

func (t auditTopic) tell(view *state.View) error {
	if err := t.relisted(view); err != nil {
		return err
	}
	at, err := tellEntries(t, view, t.at)
	t.at = at
	return err
}

// drillsTopic tells each drill whenever it has changed, as lists do.
type drillsTopic struct {
	*mark
	began bool
}

func beginDrills(e *eventStream, name, place string) (topic, bool) {
	view := e.o.View()
	m := e.resumedAt(name, place, view.Index(), func(at uint64) bool { return at <= view.Index() && at >= view.DrillsForgotten() })
	return &drillsTopic{m, place != "" && !m.anew}, !m.anew
}

func (t *drillsTopic) tell(view *state.View) error {
	if err := t.relisted(view); err != nil {
		return err
	}
	var news []*statepb.Drill
	for _, d := range view.Drills() {
		if d.GetRevision() > t.at || !t.began && drill.State(d.GetState()).Active() {
			news = append(news, d)
		}
	}
	t.began = true
	for _, d := range news {
		// Only after all of them the place moves on: they are in the order in which they were made.
		if err := t.say("drill", t.drill(d)); err != nil {
			return err
		}
	}
	t.at = view.Index()
	return nil
}

// DrillEventOf is an event of one drill among those of other topics.
type DrillEventOf struct {
	ID string `json:"id"`
	// Kind and Data are name and data of the event in the drill's own stream.
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data"`
}

// drillTopic tells all that happens in one drill, as /v1/drills/12/events does.
type drillTopic struct {
	*mark
	w    drillWatch
	over bool
}

func beginDrill(e *eventStream, name, place string) (topic, bool) {
	_, id, _ := strings.Cut(name, "/")
	m := e.resumedAt(name, place, 0, func(uint64) bool { return true })
	t := &drillTopic{mark: m, w: drillWatch{Server: e.Server, id: mustUint(id)}}
	t.w.st = t
	if d := e.o.View().Drill(t.w.id); d != nil && place != "" {
		t.w.resume(d, m.at)
	}
	return t, !m.anew
}

// event is of an eventSink.
func (t *drillTopic) event(id uint64, name string, data []byte) error {
	t.at = id
	return t.say("drill.event", DrillEventOf{strconv.FormatUint(t.w.id, 10), name, data})
}

func (t *drillTopic) tell(view *state.View) (err error) {
	if !t.over {
		t.over, err = t.w.tell(view.Drill(t.w.id))
	}
	return err
}

// picture is a topic that is told whole whenever it differs, and has no place.
type picture struct {
	*eventStream
	name   string
	look   func(view *state.View) ([]byte, error) // nil: there is none
	before []byte
}

func (p *picture) place() string { return "" }

func (p *picture) tell(view *state.View) error {
	now, err := p.look(view)
	if err != nil {
		return fmt.Errorf("watch %s: %w", p.name, err)
	}
	if now == nil || bytes.Equal(p.before, now) {
		return nil
	}
	p.before = now
	return p.send(p.name, now)
}

// LiveStatus is [Status] without routers and with the members, for a stream.
type LiveStatus struct {
	Status
	Members     []Member `json:"members"`
	StalenessMs int64    `json:"stalenessMs"`
	// Routers are not told here: a picture of the fleet has their counts.
	Routers []Router `json:"routers,omitempty"`
}

func beginStatus(e *eventStream, _, _ string) (topic, bool) {
	return &picture{eventStream: e, name: "status", look: func(view *state.View) ([]byte, error) {
		return json.Marshal(LiveStatus{Status: e.statusOf(identity(e.c).Scope, view), Members: e.memberList(), StalenessMs: e.roughStaleness()})
	}}, true
}

func beginRollouts(e *eventStream, _, _ string) (topic, bool) {
	return &picture{eventStream: e, name: "rollout", look: e.newestRollout}, true
}

// fleetTopic tells the picture of the fleet, then what makes the next out of it.
type fleetTopic struct {
	*eventStream
	seq uint64 // 0: nothing was told
}

func beginFleet(e *eventStream, _, place string) (topic, bool) {
	seq, ok := e.ofThisNode(place)
	return &fleetTopic{e, seq}, ok || place == ""
}

// ofThisNode reads a place in what this node alone counts; 0: it is of another, or there is none.
func (e *eventStream) ofThisNode(place string) (seq uint64, ok bool) {
	run, number, _ := strings.Cut(place, ".")
	if run != e.run {
		return 0, false
	}
	seq, err := strconv.ParseUint(number, 10, 64)
	return seq, err == nil
}

func (t *fleetTopic) place() string { return t.run + "." + strconv.FormatUint(t.seq, 10) }

func (t *fleetTopic) tell(*state.View) error {
	whole, patches, seq, err := t.live.since(t.Server, t.seq)
	if err != nil {
		return err
	}
	if whole != nil {
		t.seq = seq
		return t.send("fleet", whole)
	}
	for i, p := range patches {
		t.seq = seq - uint64(len(patches)-1-i) //nolint:gosec // counts down
		if err := t.send("fleet.delta", p); err != nil {
			return err
		}
	}
	return nil
}

// routersTopic tells each router whenever it stands otherwise. It begins with none: they are listed.
type routersTopic struct {
	*eventStream
	seq  uint64
	anew bool
}

func beginRouters(e *eventStream, _, place string) (topic, bool) {
	t := &routersTopic{eventStream: e}
	seq, ok := e.ofThisNode(place)
	if t.seq = seq; !ok {
		t.anew = place != ""
		_, t.seq, _, _ = e.live.routersSince(e.Server, 0) // the number is good anyway
	}
	return t, !t.anew
}

func (t *routersTopic) place() string { return t.run + "." + strconv.FormatUint(t.seq, 10) }

func (t *routersTopic) tell(view *state.View) error {
	news, seq, ok, err := t.live.routersSince(t.Server, t.seq)
	if err != nil {
		return err
	}
	if !ok || t.anew {
		t.seq, t.anew = seq, false
		return t.relist("routers", view)
	}
	for i, r := range news {
		t.seq = seq - uint64(len(news)-1-i) //nolint:gosec // counts down
		if err := t.say("router", r); err != nil {
			return err
		}
	}
	return nil
}
