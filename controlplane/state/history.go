package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// Bounds of the history of resources. The present version of what is there counts for none of them.
const (
	// MaxRevisions is how many of the newest revisions of a resource are kept.
	MaxRevisions = 20
	// MaxGone is how many deleted resources are remembered: those deleted last.
	MaxGone = 1000
	// MaxPast is for all earlier revisions together, in bytes as counted by weigh. Beyond it the
	// oldest go, until an eighth of it is free.
	MaxPast = 64 << 20
)

// What a revision was, besides the actions of the audit trail.
const (
	// ActionRollback wrote the document of an earlier revision.
	ActionRollback = "rollback"
	// ActionKnown is what was there when history began, at feature level 3.
	ActionKnown = "known"
	// ActionDelete left no document.
	ActionDelete = "delete"
)

// past is the history of all resources, those deleted included.
type past struct {
	of   map[policy.Kind][]*statepb.History // sorted by name; replaced, never written to
	size int                                // of all revisions but the present ones of what is there
	gone int                                // resources that were deleted
}

// History gives the revisions kept of a resource, newest first; none: there never was one, or its past
// is forgotten. The newest is the present one or, with [ActionDelete] and no document, the deletion.
func (v *View) History(kind policy.Kind, name string) []*statepb.Revision {
	h := v.past.find(kind, name)
	if h == nil {
		return nil
	}
	all := slices.Clone(h.GetRevisions())
	slices.Reverse(all)
	s := v.shelf(kind)
	if at, ok := s.find(name); ok {
		all[0] = closed(all[0], s.docs[at])
	}
	return all
}

// Was gives a resource as one of its revisions left it. False: the revision is not kept, is not one of
// this resource, or was its deletion.
func (v *View) Was(kind policy.Kind, name string, revision uint64) (*policy.Resource, bool) {
	for _, r := range v.History(kind, name) {
		if r.GetRevision() != revision || r.GetAction() == ActionDelete {
			continue
		}
		was, err := policy.FromCanonical(kind, name, r.GetDoc())
		if err != nil {
			return nil, false
		}
		was.Metadata.Revision, was.Metadata.UpdatedBy = revision, r.GetActor()
		was.Metadata.CreatedAt = time.UnixMilli(r.GetCreatedUnixMs()).UTC()
		was.Metadata.UpdatedAt = time.UnixMilli(r.GetAtUnixMs()).UTC()
		return was, true
	}
	return nil, false
}

func findHistory(list []*statepb.History, name string) (int, bool) {
	return slices.BinarySearchFunc(list, name, func(h *statepb.History, name string) int { return cmp.Compare(h.GetName(), name) })
}

func (p past) find(kind policy.Kind, name string) *statepb.History {
	if at, ok := findHistory(p.of[kind], name); ok {
		return p.of[kind][at]
	}
	return nil
}

// revision is what a command makes of a resource, for its history.
func (v *View) revision(cmd *statepb.Command, action string) *statepb.Revision {
	a := cmd.GetActor()
	return &statepb.Revision{
		Revision: v.index, Action: action, AtUnixMs: cmd.GetAtUnixMs(),
		Actor: bounded(a.GetName()), Role: bounded(a.GetRole()), Reason: bounded(a.GetReason()), RequestId: bounded(a.GetRequestId()),
	}
}

// written is what a put makes of a resource.
func (v *View) written(cmd *statepb.Command, action string, p *statepb.Put, r *policy.Resource, by licence) *statepb.Revision {
	made := v.revision(cmd, action)
	made.Manager, made.CreatedUnixMs = p.GetManager(), r.Metadata.CreatedAt.UnixMilli()
	if to := p.GetRollbackTo(); to != 0 {
		made.Action, made.RollbackTo = ActionRollback, to
	}
	licensed(made, p.GetBreakGlass(), by)
	return made
}

// licensed notes in a revision why it may be one of something protected.
func licensed(r *statepb.Revision, glass string, by licence) {
	r.BreakGlass, r.Proposal = glass != "", by.of.GetId()
	r.ApprovedBy = approvers(by.of)
}

// chronicle adds a revision to the history of a resource; was is the document that it ends. Before
// feature level 3 there is no history.
func (v *View) chronicle(kind policy.Kind, name string, r *statepb.Revision, was []byte) {
	if v.FeatureLevel() < 3 {
		return
	}
	p, list := v.past, v.past.of[kind]
	h := &statepb.History{Kind: string(kind), Name: name}
	at, found := findHistory(list, name)
	if found {
		h.Revisions = slices.Clone(list[at].GetRevisions())
		if last := len(h.GetRevisions()) - 1; isGone(list[at]) {
			p.gone--
		} else {
			h.Revisions[last] = closed(h.GetRevisions()[last], was)
			p.size += weigh(h.GetRevisions()[last])
		}
	}
	h.Revisions = append(h.GetRevisions(), r)
	if r.GetAction() == ActionDelete {
		p.gone++
		p.size += weigh(r)
	}
	for len(h.GetRevisions()) > MaxRevisions {
		p.size -= weigh(h.GetRevisions()[0])
		h.Revisions = h.GetRevisions()[1:]
	}
	if list = slices.Clone(list); found {
		list[at] = h
	} else {
		list = slices.Insert(list, at, h)
	}
	v.past = p.with(kind, list).within(MaxGone, MaxPast)
}

func (p past) with(kind policy.Kind, list []*statepb.History) past {
	of := make(map[policy.Kind][]*statepb.History, len(p.of)+1)
	maps.Copy(of, p.of)
	of[kind] = list
	p.of = of
	return p
}

// closed is a revision that was the present one, with the document that it had.
func closed(r *statepb.Revision, doc []byte) *statepb.Revision {
	return &statepb.Revision{
		Revision: r.GetRevision(), Action: r.GetAction(), Doc: doc, AtUnixMs: r.GetAtUnixMs(),
		Actor: r.GetActor(), Role: r.GetRole(), Reason: r.GetReason(), RequestId: r.GetRequestId(),
		Manager: r.GetManager(), RollbackTo: r.GetRollbackTo(), CreatedUnixMs: r.GetCreatedUnixMs(),
		Proposal: r.GetProposal(), ApprovedBy: r.GetApprovedBy(), BreakGlass: r.GetBreakGlass(),
	}
}

// weigh is what a revision counts, in bytes: its texts, and about what the rest takes in memory.
func weigh(r *statepb.Revision) int {
	names := 0
	for _, name := range r.GetApprovedBy() {
		names += len(name)
	}
	return 128 + names + len(r.GetDoc()) + len(r.GetActor()) + len(r.GetRole()) + len(r.GetReason()) + len(r.GetRequestId()) + len(r.GetManager())
}

func isGone(h *statepb.History) bool {
	return h.GetRevisions()[len(h.GetRevisions())-1].GetAction() == ActionDelete
}

// within forgets what is beyond the bounds.
func (p past) within(maxGone, maxSize int) past {
	if p.gone > maxGone {
		var deleted []uint64
		p.each(func(h *statepb.History) {
			if isGone(h) {
				deleted = append(deleted, newest(h).GetRevision())
			}
		})
		slices.Sort(deleted)
		last := deleted[len(deleted)-maxGone-1]
		p = p.without(func(h *statepb.History) int {
			if !isGone(h) || newest(h).GetRevision() > last {
				return 0
			}
			return len(h.GetRevisions())
		})
	}
	if p.size > maxSize {
		last := p.oldest(p.size - maxSize/8*7)
		p = p.without(func(h *statepb.History) int {
			n := 0
			for _, r := range earlier(h) { // oldest first
				if r.GetRevision() > last {
					break
				}
				n++
			}
			return n
		})
	}
	return p
}

func newest(h *statepb.History) *statepb.Revision { return h.GetRevisions()[len(h.GetRevisions())-1] }

// each calls f for the history of every resource, always in the same order.
func (p past) each(f func(*statepb.History)) {
	for _, kind := range policy.Kinds() {
		for _, h := range p.of[kind] {
			f(h)
		}
	}
}

// earlier are the revisions of a resource that count for the bounds.
func earlier(h *statepb.History) []*statepb.Revision {
	if isGone(h) {
		return h.GetRevisions()
	}
	return h.GetRevisions()[:len(h.GetRevisions())-1]
}

// oldest is the newest of the oldest revisions that count at least so many bytes together, or of all.
// It narrows the range of numbers down instead of sorting, which would hold commands up.
func (p past) oldest(size int) uint64 {
	lo, hi := uint64(0), uint64(0) // the answer is between them
	p.each(func(h *statepb.History) {
		if all := earlier(h); len(all) > 0 {
			hi = max(hi, all[len(all)-1].GetRevision())
		}
	})
	for lo < hi {
		var weights [256]int
		width := (hi-lo)/uint64(len(weights)) + 1
		p.each(func(h *statepb.History) {
			for _, r := range earlier(h) {
				if n := r.GetRevision(); n >= lo && n <= hi {
					weights[(n-lo)/width] += weigh(r)
				}
			}
		})
		at := 0
		for ; at < len(weights)-1 && size > weights[at]; at++ {
			size -= weights[at]
		}
		lo += uint64(at) * width
		hi = min(hi, lo+width-1)
	}
	return hi
}

// without forgets the oldest revisions of each resource, as many as forget says.
func (p past) without(forget func(*statepb.History) int) past {
	out := past{of: make(map[policy.Kind][]*statepb.History, len(p.of)), size: p.size, gone: p.gone}
	for _, kind := range policy.Kinds() {
		if p.of[kind] == nil {
			continue
		}
		list := make([]*statepb.History, 0, len(p.of[kind]))
		for _, h := range p.of[kind] {
			n := forget(h)
			for _, r := range h.GetRevisions()[:n] {
				out.size -= weigh(r)
			}
			switch {
			case n == 0:
				list = append(list, h)
			case n == len(h.GetRevisions()):
				out.gone--
			default:
				list = append(list, &statepb.History{Kind: h.GetKind(), Name: h.GetName(), Revisions: slices.Clone(h.GetRevisions()[n:])})
			}
		}
		out.of[kind] = list
	}
	return out
}

// count finds size and gone anew.
func (p *past) count() {
	p.size, p.gone = 0, 0
	p.each(func(h *statepb.History) {
		if isGone(h) {
			p.gone++
		}
		for _, r := range earlier(h) {
			p.size += weigh(r)
		}
	})
}

// beginHistory makes what is there the first revisions known.
func (v *View) beginHistory() {
	of := make(map[policy.Kind][]*statepb.History)
	for _, kind := range policy.Kinds() {
		for _, r := range v.shelf(kind).items {
			m := r.Metadata
			of[kind] = append(of[kind], &statepb.History{Kind: string(kind), Name: m.Name, Revisions: []*statepb.Revision{{
				Revision: m.Revision, Action: ActionKnown, AtUnixMs: m.UpdatedAt.UnixMilli(), CreatedUnixMs: m.CreatedAt.UnixMilli(),
			}}})
		}
	}
	v.past = past{of: of}
}

// restoreHistory takes the history of a snapshot over, and checks that it belongs to the resources.
func (v *View) restoreHistory(stored []*statepb.History) error {
	v.past.of = make(map[policy.Kind][]*statepb.History)
	for _, h := range stored {
		kind := policy.Kind(h.GetKind())
		list := v.past.of[kind]
		_, there := v.Get(kind, h.GetName())
		switch {
		case policy.Plural(kind) == "":
			return fmt.Errorf("kind %q: %w", kind, ErrUnknown)
		case len(h.GetRevisions()) == 0 || isGone(h) == there:
			return fmt.Errorf("the history of %s %q does not end as the resource is", kind, h.GetName())
		case len(list) > 0 && list[len(list)-1].GetName() >= h.GetName():
			return fmt.Errorf("the history of %s %q is out of order", kind, h.GetName())
		}
		v.past.of[kind] = append(list, h)
	}
	for _, kind := range policy.Kinds() {
		for _, r := range v.shelf(kind).items {
			h := v.past.find(kind, r.Metadata.Name)
			if h == nil && v.FeatureLevel() >= 3 {
				return fmt.Errorf("%s %q has no history", kind, r.Metadata.Name)
			}
			if h != nil {
				r.Metadata.UpdatedBy = newest(h).GetActor()
			}
		}
	}
	v.past.count()
	return nil
}
