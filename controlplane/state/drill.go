package state

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
)

// Bounds of drills.
const (
	// MaxDrills is how many that are over are remembered, the newest; their samples are not, only the report.
	MaxDrills = 100
	// MaxReports is how many of the newest reports are kept, and MaxReportBytes how large they may be together.
	MaxReports     = 20
	MaxReportBytes = 64 << 20
	// MaxReport bounds one report as it is kept, in bytes.
	MaxReport = drill.MaxReportBytes
	// MaxWaiting is how many drills may wait for their dry run, approval or start.
	MaxWaiting = 20
	// MaxDrillEvents is how many events of a drill are kept, the newest.
	MaxDrillEvents = 500
	// MaxSamples bounds what was measured in the drill under way, in bytes; what comes after is left out.
	MaxSamples = 32 << 20
	// MaxDrillSpec, MaxResolved, MaxForecast and MaxBaseline bound a drill's documents, in bytes.
	MaxDrillSpec = 64 << 10
	MaxResolved  = 256 << 10
	MaxForecast  = 256 << 10
	MaxBaseline  = 256 << 10
	// SeriesFor is how long the drills of a schedule may be approved at once.
	SeriesFor = drill.SeriesTime
	// MaxSeries is how many schedules may be approved at once.
	MaxSeries = 100
)

// KindDrill stands for drills in answers and in the audit trail: they are no resources.
const KindDrill = "Drill"

// drills are the rehearsals that are remembered.
type drills struct {
	all       []*statepb.Drill          // oldest first; replaced, never written to
	last      []byte                    // hash of the report of the last that ended; nil: none has
	forgotten uint64                    // revision of the last change of those that are forgotten
	series    []*statepb.SeriesApproval // by name; replaced, never written to
}

// Drills gives the drills that are remembered, oldest first. The samples of one that is over are in its
// report alone.
func (v *View) Drills() []*statepb.Drill { return v.drills.all }

// Drill finds one by its id; nil: there is none, or it is not remembered any more.
func (v *View) Drill(id uint64) *statepb.Drill {
	if at, ok := v.drillAt(id); ok {
		return v.drills.all[at]
	}
	return nil
}

// ActiveDrill is the drill that may have moved traffic, or is about to; nil: there is none.
func (v *View) ActiveDrill() *statepb.Drill {
	at := slices.IndexFunc(v.drills.all, func(d *statepb.Drill) bool { return drill.State(d.GetState()).Active() })
	if at < 0 {
		return nil
	}
	return v.drills.all[at]
}

// DrillsForgotten is the revision of the newest change of a drill that is not remembered any more; 0: all are.
func (v *View) DrillsForgotten() uint64 { return v.drills.forgotten }

// LastReport is the hash of the report of the drill that ended last; nil: none has.
func (v *View) LastReport() []byte { return v.drills.last }

// SeriesApproval is what lets scheduled drills of a plan with a spec begin at a time; nil: nothing does.
func (v *View) SeriesApproval(series string, spec []byte, at time.Time) *statepb.SeriesApproval {
	for _, s := range v.drills.series {
		if s.GetSeries() == series && string(s.GetSpecSha256()) == string(hashOf(spec)) && at.UnixMilli() < s.GetUntilUnixMs() {
			return s
		}
	}
	return nil
}

// SeriesApprovals gives the schedules that are, or were, approved at once, by name.
func (v *View) SeriesApprovals() []*statepb.SeriesApproval { return v.drills.series }

func (v *View) drillAt(id uint64) (int, bool) {
	return slices.BinarySearchFunc(v.drills.all, id, func(d *statepb.Drill, id uint64) int { return cmp.Compare(d.GetId(), id) })
}

// createDrill makes a draft.
func (v *View) createDrill(cmd *statepb.Command, c *statepb.CreateDrill) *statepb.Outcome {
	switch {
	case len(c.GetSpec()) == 0 || len(c.GetSpec()) > MaxDrillSpec || !isObject(c.GetSpec()):
		return refuse(CodeInvalid, "spec", fmt.Sprintf("is no JSON object, or larger than %d bytes", MaxDrillSpec))
	case len(c.GetPlan()) > maxAuditText || len(c.GetSeries()) > maxAuditText:
		return refuse(CodeInvalid, "plan", fmt.Sprintf("or series is longer than %d bytes", maxAuditText))
	case v.waitingDrills() >= MaxWaiting:
		return refuse(CodeTooMany, "", fmt.Sprintf("%d drills wait already, as many as there may be: start or abort some", MaxWaiting))
	}
	d := &statepb.Drill{
		Id: v.index, Plan: c.GetPlan(), PlanRevision: c.GetPlanRevision(), Spec: c.GetSpec(),
		State: string(drill.Draft), Revision: v.index, StateUnixMs: cmd.GetAtUnixMs(),
		Creator: cmd.GetActor(), CreatedUnixMs: cmd.GetAtUnixMs(), StartUnixMs: c.GetStartUnixMs(), Series: c.GetSeries(),
	}
	v.tellDrill(d, &statepb.DrillEvent{AtUnixMs: cmd.GetAtUnixMs(), Kind: drill.OfTransition, Actor: cmd.GetActor().GetName()})
	v.drills.all = append(slices.Clone(v.drills.all), d)
	v.recordDrill(cmd, d, "create", "")
	return &statepb.Outcome{}
}

func isObject(doc []byte) bool {
	var o map[string]json.RawMessage
	return json.Unmarshal(doc, &o) == nil && o != nil
}

func (v *View) waitingDrills() int {
	n := 0
	for _, d := range v.drills.all {
		if s := drill.State(d.GetState()); s != drill.Done && !s.Active() {
			n++
		}
	}
	return n
}

// tellDrill adds events to a drill, which is this command's own. Beyond the bound the oldest go.
func (v *View) tellDrill(d *statepb.Drill, events ...*statepb.DrillEvent) {
	for _, e := range events {
		d.Events = append(d.Events, &statepb.DrillEvent{
			AtUnixMs: e.GetAtUnixMs(), State: bounded(cmp.Or(e.GetState(), d.GetState())), Step: e.GetStep(),
			Kind: bounded(e.GetKind()), Text: bounded(e.GetText()), Actor: bounded(e.GetActor()),
		})
	}
	d.Events = d.Events[max(0, len(d.Events)-MaxDrillEvents):]
}

// close ends a drill, which is this command's own: what was measured is told in its report alone, which is chained to
// that of the drill that ended before.
func (v *View) close(d *statepb.Drill) {
	d.Samples, d.Resume = nil, ""
	if len(d.GetReportSha256()) > 0 {
		d.PreviousSha256, v.drills.last = v.drills.last, d.GetReportSha256()
	}
}

// setDrill replaces one, and forgets those that are too many.
func (v *View) setDrill(at int, d *statepb.Drill) {
	all := slices.Clone(v.drills.all)
	all[at] = d
	v.drills.all = all
	if d.GetEndedUnixMs() != 0 {
		v.forgetDrills()
	}
}

// forgetDrills drops the reports, and then the drills, that ended first beyond the bounds. The list is this
// command's own.
func (v *View) forgetDrills() {
	var over []int // places of those that are over, the last that ended first
	for at, d := range v.drills.all {
		if d.GetEndedUnixMs() != 0 {
			over = append(over, at)
		}
	}
	slices.SortStableFunc(over, func(a, b int) int {
		return cmp.Compare(v.drills.all[b].GetRevision(), v.drills.all[a].GetRevision())
	})
	reports, size := 0, 0
	for i, at := range over {
		d := v.drills.all[at]
		if i >= MaxDrills {
			v.drills.forgotten = max(v.drills.forgotten, d.GetRevision())
			v.drills.all[at] = nil
			continue
		}
		if len(d.GetReport()) == 0 {
			continue
		}
		reports++
		if size += len(d.GetReport()); reports > MaxReports || size > MaxReportBytes {
			bare := proto.CloneOf(d)
			bare.Report = nil
			v.drills.all[at] = bare
		}
	}
	v.drills.all = slices.DeleteFunc(v.drills.all, func(d *statepb.Drill) bool { return d == nil })
}

func (v *View) recordDrill(cmd *statepb.Command, d *statepb.Drill, action, why string) {
	code := d.GetState()
	if d.GetOutcome() != "" {
		code = d.GetOutcome()
	}
	v.record(cmd, entry{action: action, kind: KindDrill, name: strconv.FormatUint(d.GetId(), 10), code: code, reason: why})
}

// proto is what a snapshot holds; nil: there is nothing.
func (d drills) proto() *statepb.Drills {
	if len(d.all) == 0 && len(d.last) == 0 && d.forgotten == 0 && len(d.series) == 0 {
		return nil
	}
	return &statepb.Drills{Drills: d.all, LastSha256: d.last, Forgotten: d.forgotten, Series: d.series}
}

// read is the inverse of proto.
func (d *drills) read(s *statepb.Drills) error {
	active := 0
	for i, one := range s.GetDrills() {
		if i > 0 && s.GetDrills()[i-1].GetId() >= one.GetId() {
			return errors.New("drills are out of order")
		}
		if drill.State(one.GetState()).Active() {
			active++
		}
	}
	if active > 1 {
		return fmt.Errorf("%d drills are under way at once", active)
	}
	d.all, d.last, d.forgotten, d.series = s.GetDrills(), s.GetLastSha256(), s.GetForgotten(), s.GetSeries()
	return nil
}

// sum hashes what tells drills apart. Documents, samples and reports are bytes of commands, and what is
// approved is hashed in them.
func (d drills) sum(h hash.Hash) {
	for _, one := range d.all {
		number(h, one.GetId())
		number(h, one.GetRevision())
		number(h, one.GetSequence())
		number(h, uint64(len(one.GetApprovals())))
		number(h, uint64(len(one.GetEvents())))
		number(h, uint64(len(one.GetSamples())))
		number(h, uint64(len(one.GetReport())))
		for _, s := range []string{
			one.GetState(), one.GetOutcome(), string(one.GetPlanSha256()), string(one.GetBaseSha256()), string(one.GetReportSha256()), string(one.GetPreviousSha256()),
		} {
			text(h, s)
		}
	}
	text(h, string(d.last))
	number(h, d.forgotten)
	messages(h, d.series)
}
