package state

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

func (v *View) put(cmd *statepb.Command, p *statepb.Put, by licence) *statepb.Outcome {
	kind := policy.Kind(p.GetKind())
	s := v.shelf(kind)
	at, found := s.find(p.GetName())
	if !p.GetAnyRevision() {
		switch want := p.GetIfRevision(); {
		case want == 0 && found:
			return refuse(CodeExists, "metadata.name", fmt.Sprintf("%s %q exists at revision %d", kind, p.GetName(), s.items[at].Metadata.Revision))
		case want != 0 && !found:
			return refuse(CodeNotFound, "metadata.name", fmt.Sprintf("there is no %s %q", kind, p.GetName()))
		case want != 0 && s.items[at].Metadata.Revision != want:
			return stale(s.items[at], want)
		}
	}
	if out := v.tooLarge(p, s, at, found); out != nil {
		return out
	}
	r, err := policy.FromCanonical(kind, p.GetName(), p.GetDoc())
	if err != nil {
		return refuse(CodeInvalid, "", err.Error())
	}
	if problems := v.check(r); len(problems) > 0 {
		return refuse(CodeInvalid, problems[0].Field, problems[0].Reason)
	}
	if found && bytes.Equal(s.docs[at], p.GetDoc()) {
		return &statepb.Outcome{} // as it stands already: no new revision, nothing to audit
	}
	now := time.UnixMilli(cmd.GetAtUnixMs()).UTC()
	r.Metadata.Revision, r.Metadata.CreatedAt, r.Metadata.UpdatedAt = v.index, now, now
	e := entry{action: "create", kind: p.GetKind(), name: p.GetName(), reason: remark(p, by), after: p.GetDoc()}
	var old *policy.Resource
	if found {
		old, e.action, e.before = s.items[at], "update", s.docs[at]
		r.Metadata.CreatedAt = old.Metadata.CreatedAt
	}
	if out := v.own(cmd, old, r, write{p.GetManager(), p.GetForce()}); out != nil {
		return out
	}
	if !found && len(s.items) >= MaxResources {
		return refuse(CodeInvalid, "", fmt.Sprintf("there are %d of kind %s, which is the limit", len(s.items), kind))
	}
	rev := v.written(cmd, e.action, p, r, by)
	if out := v.refer(cmd, old, r, p.GetBreakGlass(), by, func() *statepb.Proposal { return proposedPut(p, rev, old) }); out != nil {
		return out
	}
	if found {
		v.setShelf(kind, s.replaced(at, r, p.GetDoc()))
	} else {
		v.setShelf(kind, s.inserted(at, r, p.GetDoc()))
	}
	v.chronicle(kind, p.GetName(), rev, e.before)
	v.record(cmd, e)
	v.outdate(cmd, kind, p.GetName())
	return &statepb.Outcome{}
}

// check says what is wrong between a resource and the others, as far as every replica looks for it.
func (v *View) check(r *policy.Resource) []policy.Problem {
	problems := policy.Check(r, v)
	if len(problems) == 0 && v.FeatureLevel() >= 4 {
		problems = policy.CheckQuotas(r, v)
	}
	return problems
}

// tooLarge judges the size of a document, and of all of them; nil: it fits. What is over a limit already
// may shrink.
func (v *View) tooLarge(p *statepb.Put, s *shelf, at int, found bool) *statepb.Outcome {
	if v.FeatureLevel() < 2 {
		return nil
	}
	size, was := len(p.GetDoc()), 0
	if found {
		was = len(s.docs[at])
	}
	if size <= was {
		return nil
	}
	if size > MaxDoc {
		return refuse(CodeInvalid, "spec", fmt.Sprintf("the document has %d bytes, the limit is %d", size, MaxDoc))
	}
	total := size - was
	for _, kind := range policy.Kinds() {
		for _, doc := range v.shelf(kind).docs {
			total += len(doc)
		}
	}
	if total > MaxDocs {
		return refuse(CodeInvalid, "spec", fmt.Sprintf("all documents together would have %d bytes, the limit is %d", total, MaxDocs))
	}
	return nil
}

func stale(r *policy.Resource, want uint64) *statepb.Outcome {
	return refuse(CodePrecondition, "metadata.revision", fmt.Sprintf("%s %q is at revision %d, not %d", r.Kind, r.Metadata.Name, r.Metadata.Revision, want))
}

// delete without a revision (0) has no precondition but that it is there.
func (v *View) delete(cmd *statepb.Command, d *statepb.Delete, by licence) *statepb.Outcome {
	kind := policy.Kind(d.GetKind())
	s := v.shelf(kind)
	at, found := s.find(d.GetName())
	switch want := d.GetIfRevision(); {
	case !found:
		return refuse(CodeNotFound, "metadata.name", fmt.Sprintf("there is no %s %q", kind, d.GetName()))
	case want != 0 && s.items[at].Metadata.Revision != want:
		return stale(s.items[at], want)
	}
	if problems := policy.CheckDelete(kind, d.GetName(), v); len(problems) > 0 {
		return refuse(CodeInUse, problems[0].Field, problems[0].Reason)
	}
	if out := v.own(cmd, s.items[at], nil, write{d.GetManager(), d.GetForce()}); out != nil {
		return out
	}
	if out := v.refer(cmd, s.items[at], nil, d.GetBreakGlass(), by, func() *statepb.Proposal { return proposedDelete(d, s.items[at]) }); out != nil {
		return out
	}
	v.setShelf(kind, s.removed(at))
	rev := v.revision(cmd, ActionDelete)
	rev.Manager = d.GetManager()
	licensed(rev, d.GetBreakGlass(), by)
	v.chronicle(kind, d.GetName(), rev, s.docs[at])
	v.record(cmd, entry{action: "delete", kind: d.GetKind(), name: d.GetName(), before: s.docs[at], reason: consent(by)})
	v.outdate(cmd, kind, d.GetName())
	return &statepb.Outcome{}
}

func (v *View) setShelf(kind policy.Kind, s *shelf) {
	v.holdBack(kind)
	s.revision = v.index
	v.resources = v.index
	shelves := make(map[policy.Kind]*shelf, len(v.shelves)+1)
	maps.Copy(shelves, v.shelves)
	shelves[kind] = s
	v.shelves = shelves
}

func (s *shelf) replaced(at int, r *policy.Resource, doc []byte) *shelf {
	items, docs := slices.Clone(s.items), slices.Clone(s.docs)
	items[at], docs[at] = r, bytes.Clone(doc)
	return &shelf{items: items, docs: docs}
}

func (s *shelf) inserted(at int, r *policy.Resource, doc []byte) *shelf {
	return &shelf{
		items: slices.Insert(slices.Clone(s.items), at, r),
		docs:  slices.Insert(slices.Clone(s.docs), at, bytes.Clone(doc)),
	}
}

func (s *shelf) removed(at int) *shelf {
	return &shelf{
		items: slices.Delete(slices.Clone(s.items), at, at+1),
		docs:  slices.Delete(slices.Clone(s.docs), at, at+1),
	}
}
