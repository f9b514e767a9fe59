package rest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/access"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// actionCreate is of the first revision of a resource, unless history began later.
const actionCreate = "create"

// Version is one revision of a resource: what it was, and who made it.
type Version struct {
	Revision uint64 `json:"revision"`
	// Action is create, update, rollback or delete; known is what was there when history began.
	Action    string    `json:"action"`
	At        time.Time `json:"at"`
	Author    string    `json:"author"` // empty: not known
	Role      string    `json:"role"`
	Manager   string    `json:"manager"` // human, or the automation that wrote
	Reason    string    `json:"reason"`
	RequestID string    `json:"requestId"`
	// RollbackTo is the revision whose content a rollback brought back.
	RollbackTo uint64 `json:"rollbackTo,omitempty"`
	// Proposal is the id of the one that it was, and ApprovedBy who has approved that.
	Proposal   string   `json:"proposal,omitempty"`
	ApprovedBy []string `json:"approvedBy,omitempty"`
	// BreakGlass: it did not wait for approval.
	BreakGlass bool `json:"breakGlass,omitempty"`
	// Diff is what it changed, if that was asked for and the revision before it is kept.
	Diff []policy.Change `json:"diff,omitempty"`
}

// ResourceDiff is what changed from one revision of a resource to another. A deletion is a revision
// without content.
type ResourceDiff struct {
	From uint64          `json:"from"`
	To   uint64          `json:"to"`
	Diff []policy.Change `json:"diff"`
}

// RollbackOrder says which revision's content is to be the present one again.
type RollbackOrder struct {
	Revision uint64 `json:"revision"`
}

// history lists the revisions kept of a resource, newest first, those of a deleted one too.
func (r resources) history(c echo.Context) error {
	limit, err := limitOf(c)
	if err != nil {
		return err
	}
	withDiff, err := flag(c, "diff")
	if err != nil {
		return err
	}
	from, err := cursorOf(c)
	if err != nil {
		return err
	}
	past, err := r.past(c)
	if err != nil {
		return err
	}
	page := List[Version]{Items: []Version{}}
	for i, rev := range past.revisions {
		if from.Before != 0 && rev.GetRevision() >= from.Before {
			continue
		}
		if len(page.Items) == limit {
			page.NextCursor = cursor{Before: page.Items[limit-1].Revision}.String()
			break
		}
		v := version(rev)
		if withDiff {
			v.Diff = past.change(i)
		}
		page.Items = append(page.Items, v)
	}
	return c.JSON(http.StatusOK, page)
}

func version(r *statepb.Revision) Version {
	manager := r.GetManager()
	if manager == "" {
		manager = policy.Human
	}
	proposal := ""
	if id := r.GetProposal(); id != 0 {
		proposal = strconv.FormatUint(id, 10)
	}
	return Version{
		Proposal: proposal, ApprovedBy: r.GetApprovedBy(), BreakGlass: r.GetBreakGlass(),
		Revision: r.GetRevision(), Action: r.GetAction(), At: time.UnixMilli(r.GetAtUnixMs()).UTC(), Author: r.GetActor(), Role: r.GetRole(),
		Manager: manager, Reason: r.GetReason(), RequestID: r.GetRequestId(), RollbackTo: r.GetRollbackTo(),
	}
}

// revision answers a resource as one of its revisions left it.
func (r resources) revision(c echo.Context) error {
	past, err := r.past(c)
	if err != nil {
		return err
	}
	revision, err := revisionOf("revision", c.Param("revision"))
	if err != nil {
		return err
	}
	was, err := past.was(revision)
	if err != nil {
		return err
	}
	c.Response().Header().Set("ETag", etag(revision))
	return c.JSON(http.StatusOK, was)
}

// diff tells what changed between two revisions; without "from" since the one before "to", without
// "to" up to the present.
func (r resources) diff(c echo.Context) error {
	past, err := r.past(c)
	if err != nil {
		return err
	}
	var to, from int
	if text := c.QueryParam("to"); text != "" && text != "current" {
		if to, err = past.index("to", text); err != nil {
			return err
		}
	}
	if text := c.QueryParam("from"); text != "" {
		if from, err = past.index("from", text); err != nil {
			return err
		}
	} else if from = to + 1; from == len(past.revisions) {
		return newProblem(codeNotFound, fmt.Sprintf("Revision %d is the oldest that is kept of %s %.128q.", past.revisions[to].GetRevision(), r.kind, past.name))
	}
	a, b := past.revisions[from], past.revisions[to]
	return c.JSON(http.StatusOK, ResourceDiff{From: a.GetRevision(), To: b.GetRevision(), Diff: policy.DiffCanonical(a.GetDoc(), b.GetDoc())})
}

// rollback makes the content of an earlier revision the present one, by a new revision that is judged
// as any other.
func (r resources) rollback(c echo.Context) error {
	var order RollbackOrder
	if err := strictJSON(c, &order); err != nil {
		return err
	}
	if order.Revision == 0 {
		return problemDocument([]policy.Problem{{Field: "revision", Reason: "is missing", Fix: "give a revision of the resource's history"}})
	}
	view, err := r.writable(c)
	if err != nil {
		return err
	}
	name := nameOf(c)
	old, _ := view.Get(r.kind, name)
	if err := r.inScope(c, name, old, nil); err != nil {
		return err
	}
	past, err := r.pastIn(c, view, name)
	if err != nil {
		return err
	}
	if h := c.Request().Header; past.gone() && h.Get("If-None-Match") == "" {
		return newProblem(codeRequired, "It is deleted. Send If-None-Match: * to bring it back.")
	}
	ch, err := r.about(c, view, true)
	if err != nil {
		return err
	}
	if ch.next, err = past.was(order.Revision); err != nil {
		return err
	}
	problems, err := r.judged(c, view, ch.old, ch.next, nil, ch.name)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return newProblem(codeInvalid, fmt.Sprintf("Revision %d is not valid any more: %s %s.", order.Revision, problems[0].Field, problems[0].Reason), problems...)
	}
	ch.rollbackTo = order.Revision
	return r.make(c, view, ch)
}

// past is the history of one resource, newest first, as far as the caller's scope shows it.
type past struct {
	kind      policy.Kind
	name      string
	view      *state.View
	revisions []*statepb.Revision
}

func (r resources) past(c echo.Context) (past, error) {
	view, err := r.view(c)
	if err != nil {
		return past{}, err
	}
	return r.pastIn(c, view, nameOf(c))
}

func (r resources) pastIn(c echo.Context, view *state.View, name string) (past, error) {
	p := past{r.kind, name, view, view.History(r.kind, name)}
	scope := identity(c).Scope
	if !scope.Everything() {
		p = p.seenBy(scope)
	}
	if len(p.revisions) > 0 {
		return p, nil
	}
	if now, there := view.Get(r.kind, name); there && scope.Sees(now) {
		return p, newProblem(codeNotFound, "The cluster is being upgraded; history begins when it is done.")
	}
	return p, newProblem(codeNotFound, fmt.Sprintf("There is no %s %.128q, and no history of one.", r.kind, name))
}

// seenBy leaves the revisions that a scope shows: a quota may have been another tenant's.
func (p past) seenBy(scope access.Scope) past {
	var seen []*statepb.Revision
	shown := false // a deletion is shown with what it deleted
	for _, rev := range slices.Backward(p.revisions) {
		if rev.GetAction() != state.ActionDelete {
			was, ok := p.view.Was(p.kind, p.name, rev.GetRevision())
			shown = ok && scope.Sees(was)
		}
		if shown {
			seen = append(seen, rev)
		}
	}
	slices.Reverse(seen)
	p.revisions = seen
	return p
}

func (p past) gone() bool { return p.revisions[0].GetAction() == state.ActionDelete }

// index finds a revision, which text is to be a number of.
func (p past) index(parameter, text string) (int, error) {
	revision, err := revisionOf(parameter, text)
	if err != nil {
		return 0, err
	}
	for i, r := range p.revisions {
		if r.GetRevision() == revision {
			return i, nil
		}
	}
	return 0, p.unknown(revision)
}

func (p past) unknown(revision uint64) *Problem {
	oldest := p.revisions[len(p.revisions)-1].GetRevision()
	return newProblem(codeNotFound, fmt.Sprintf("%s %.128q has no revision %d, or it is not kept any more; the oldest is %d.", p.kind, p.name, revision, oldest))
}

// was gives the resource as a revision left it.
func (p past) was(revision uint64) (*policy.Resource, error) {
	i := slices.IndexFunc(p.revisions, func(r *statepb.Revision) bool { return r.GetRevision() == revision })
	if i < 0 {
		return nil, p.unknown(revision)
	}
	if was, ok := p.view.Was(p.kind, p.name, revision); ok {
		return was, nil
	}
	if i+1 == len(p.revisions) {
		return nil, newProblem(codeNotFound, fmt.Sprintf("Revision %d deleted %s %.128q; none before it is kept.", revision, p.kind, p.name))
	}
	return nil, newProblem(codeNotFound, fmt.Sprintf("Revision %d deleted %s %.128q; the one before it is %d.", revision, p.kind, p.name, p.revisions[i+1].GetRevision()))
}

// change is what the i-th revision changed; nil: that is not known.
func (p past) change(i int) []policy.Change {
	now := p.revisions[i]
	switch {
	case i+1 < len(p.revisions):
		return policy.DiffCanonical(p.revisions[i+1].GetDoc(), now.GetDoc())
	case now.GetAction() == actionCreate:
		return policy.DiffCanonical(nil, now.GetDoc())
	}
	return nil
}

func revisionOf(parameter, text string) (uint64, error) {
	revision, err := strconv.ParseUint(text, 10, 64)
	if err != nil || revision == 0 {
		return 0, newProblem(codeInvalidRequest, fmt.Sprintf("%s is %.40q; give the number of a revision.", parameter, text))
	}
	return revision, nil
}
