package rest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// commandFormat is the format of the commands that this package makes.
const commandFormat = 1

// maxReason bounds X-Anabranch-Reason in bytes.
const maxReason = 512

// change is a write that has been read and understood.
type change struct {
	name string
	when condition
	old  *policy.Resource // nil: there is none
	next *policy.Resource // nil: delete
	by   writer
	// rollbackTo is the earlier revision that next is the content of; 0: none.
	rollbackTo uint64
}

func (r resources) create(c echo.Context) error {
	body, err := bodyOf(c, "application/json", "application/yaml", "application/x-yaml", "text/yaml")
	if err != nil {
		return err
	}
	next, problems := policy.Parse(body)
	view, err := r.writable(c)
	if err != nil {
		return err
	}
	if problems, err = r.judged(c, view, nil, next, problems, ""); err != nil {
		return err
	}
	if len(problems) > 0 {
		return problemDocument(problems)
	}
	ch := change{name: next.Metadata.Name, when: condition{create: true}, next: next}
	if old, ok := view.Get(r.kind, ch.name); ok {
		if err := r.notHidden(c, ch.name, old); err != nil {
			return err
		}
		return problemOfOutcome(&statepb.Outcome{Code: state.CodeExists, Field: "metadata.name", Message: fmt.Sprintf("%s %q exists at revision %d", r.kind, ch.name, old.Metadata.Revision)})
	}
	return r.make(c, view, ch)
}

func (r resources) replace(c echo.Context) error {
	body, err := bodyOf(c, "application/json", "application/yaml", "application/x-yaml", "text/yaml")
	if err != nil {
		return err
	}
	view, err := r.writable(c)
	if err != nil {
		return err
	}
	ch, err := r.about(c, view, true)
	if err != nil {
		return err
	}
	next, problems := policy.Parse(body)
	if problems, err = r.judged(c, view, ch.old, next, problems, ch.name); err != nil {
		return err
	}
	if len(problems) > 0 {
		return problemDocument(problems)
	}
	ch.next = next
	return r.make(c, view, ch)
}

func (r resources) patch(c echo.Context) error {
	body, err := bodyOf(c, "application/merge-patch+json", "application/json", "application/yaml", "application/x-yaml", "text/yaml")
	if err != nil {
		return err
	}
	view, err := r.writable(c)
	if err != nil {
		return err
	}
	ch, err := r.about(c, view, false)
	if err != nil {
		return err
	}
	next, problems := policy.Merge(ch.old, body)
	if problems, err = r.judged(c, view, ch.old, next, problems, ch.name); err != nil {
		return err
	}
	if len(problems) > 0 {
		return problemDocument(problems)
	}
	// The patch was merged into this revision, so it is this one that must still be there.
	ch.next, ch.when = next, condition{revision: ch.old.Metadata.Revision}
	return r.make(c, view, ch)
}

func (r resources) remove(c echo.Context) error {
	view, err := r.writable(c)
	if err != nil {
		return err
	}
	ch, err := r.about(c, view, false)
	if err != nil {
		return err
	}
	if problems := tellable(c, view, policy.CheckDelete(r.kind, ch.name, view)); len(problems) > 0 {
		return newProblem(codeInUse, problems[0].Reason, problems...)
	}
	return r.make(c, view, ch)
}

// writable gives the state to judge a write against: as new as what was committed before, so that a
// resource just made through another node can be referred to through this one.
func (r resources) writable(c echo.Context) (*state.View, error) {
	if reason := c.Request().Header.Get(headerReason); len(reason) > maxReason {
		return nil, newProblem(codeInvalidRequest, fmt.Sprintf("%s is %d bytes long, the limit is %d.", headerReason, len(reason), maxReason))
	}
	if scope := identity(c).Scope; !scope.Covers(r.kind) {
		r.recordDenied(c, codeOutOfScope)
		return nil, problemUnscoped(scope)
	}
	if err := r.barrier(c.Request().Context()); err != nil {
		return nil, err
	}
	return r.o.View(), nil
}

// about reads the name and the precondition of a write and judges them.
func (r resources) about(c echo.Context, view *state.View, createToo bool) (change, error) {
	ch := change{name: nameOf(c)}
	var revision uint64
	if old, ok := view.Get(r.kind, ch.name); ok {
		ch.old, revision = old, old.Metadata.Revision
	}
	if err := r.inScope(c, ch.name, ch.old, nil); err != nil {
		return ch, err
	}
	when, err := conditionOf(c.Request().Header, revision, createToo)
	if err != nil {
		return ch, err
	}
	if p := when.check(r.kind, ch.name, ch.old); p != nil {
		return ch, p
	}
	if when.any {
		when.revision = revision
	}
	ch.when = when
	return ch, nil
}

// inScope refuses a change that is not within the caller's scope.
func (r resources) inScope(c echo.Context, name string, old, next *policy.Resource) error {
	scope := identity(c).Scope
	problems := scope.Names(r.kind, name)
	if len(problems) == 0 {
		if err := r.notHidden(c, name, old); err != nil {
			return err
		}
	}
	if len(problems) == 0 {
		problems = scope.Within(old, next)
	}
	if len(problems) == 0 && next != nil {
		view := r.o.View()
		problems = append(scope.Shares(next, view.List(policy.KindTrafficPolicy)), scope.Claims(old, next, view.List(policy.KindTenant))...)
	}
	if len(problems) == 0 {
		return nil
	}
	r.recordDenied(c, codeOutOfScope)
	return newProblem(codeOutOfScope, problems[0].Field+" "+problems[0].Reason, problems...)
}

// judged says what is wrong with a document, or that it is out of scope. Before it is known to be in
// scope nothing is looked up for it: what is wrong would tell what there is.
func (r resources) judged(c echo.Context, view *state.View, old, next *policy.Resource, problems []policy.Problem, name string) ([]policy.Problem, error) {
	if len(problems) > 0 && !identity(c).Scope.Everything() {
		return problems, nil
	}
	if next != nil && next.Kind == r.kind {
		if err := r.inScope(c, next.Metadata.Name, old, next); err != nil {
			return nil, err
		}
	}
	return tellable(c, view, r.vet(next, problems, view, name)), nil
}

// vet judges a document for this kind and, if given, name.
func (r resources) vet(next *policy.Resource, problems []policy.Problem, view *state.View, name string) []policy.Problem {
	if next == nil {
		return problems
	}
	if next.Kind != r.kind {
		return append(problems, policy.Problem{
			Field: "kind", Reason: fmt.Sprintf("is %s, and this path is for %s", next.Kind, r.kind),
			Fix: fmt.Sprintf("send it to /v1/%s, or write kind: %s", policy.Plural(next.Kind), r.kind),
		})
	}
	if name != "" && next.Metadata.Name != name {
		problems = append(problems, policy.Problem{
			Field: "metadata.name", Reason: fmt.Sprintf("%.128q is not the name in the path, %.128q", next.Metadata.Name, name),
			Fix: "make them the same",
		})
	}
	return policy.Vet(next, problems, view)
}

// make does what was understood, or tells what it would do.
func (r resources) make(c echo.Context, view *state.View, ch change) error {
	dry, err := flag(c, "dry_run")
	if err != nil {
		return err
	}
	if ch.by, err = writerOf(c); err != nil {
		return err
	}
	if err := owned(view, ch); err != nil {
		return err
	}
	why, err := glassOf(c)
	if err != nil {
		return err
	}
	cmd := r.command(c, ch)
	if why != "" && cmd.GetActor().GetReason() == "" {
		cmd.Actor.Reason = why
	}
	if err := r.fits(view, cmd); err != nil {
		return err
	}
	level := view.FeatureLevel() >= 3 // below there are neither proposals nor glass
	large, err := r.moderate(c, view, cmd, level && why != "")
	if err != nil {
		return err
	}
	var asked policy.Approval
	if level {
		asked = policy.ApprovalOf(view, r.kind, ch.name, ch.old, ch.next)
	}
	broken := why != "" && (large || asked.Needed > 0)
	if broken {
		breaking(cmd, why)
		asked.Needed = 0
	}
	if dry {
		return r.pretend(c, view, ch, asked.Needed)
	}
	out, err := r.o.Propose(c.Request().Context(), cmd)
	if err != nil {
		return fmt.Errorf("change %s %q: %w", r.kind, ch.name, err)
	}
	if a := out.GetAnswer(); a != nil { // the first one came through while this one was on its way
		return r.answerAgain(c, a)
	}
	if p := problemOfOutcome(out); p != nil {
		if p.Code == codeExists && c.Request().Method == http.MethodPut {
			p = newProblem(codePrecondition, p.Detail)
		}
		return p
	}
	if id := out.GetProposal(); id != 0 {
		r.o.Logger.Info("change proposed", slog.Uint64("proposal", id), slog.String("kind", string(r.kind)), slog.String("name", ch.name),
			slog.String("actor", actor(c).GetName()), slog.String("request_id", requestID(c)))
		return r.proposed(c, id)
	}
	if broken {
		r.toldGlass(c, ch, why, out.GetRevision())
	}
	r.o.Logger.Info("resource changed", slog.String("method", c.Request().Method), slog.String("kind", string(r.kind)), slog.String("name", ch.name),
		slog.String("actor", actor(c).GetName()), slog.Uint64("revision", out.GetRevision()), slog.String("request_id", requestID(c)))
	if ch.next == nil {
		return c.NoContent(http.StatusNoContent)
	}
	made := r.made(ch, out.GetRevision())
	h := c.Response().Header()
	h.Set("ETag", etag(made.Metadata.Revision))
	if !ch.when.create {
		return c.JSON(http.StatusOK, made)
	}
	h.Set("Location", "/v1/"+policy.Plural(r.kind)+"/"+url.PathEscape(ch.name))
	return c.JSON(http.StatusCreated, made)
}

func (r resources) command(c echo.Context, ch change) *statepb.Command {
	cmd := &statepb.Command{Format: commandFormat, AtUnixMs: r.o.Now().UnixMilli(), Actor: actor(c), Once: once(c)}
	if ch.next == nil {
		cmd.Op = &statepb.Command_Delete{Delete: &statepb.Delete{
			Kind: string(r.kind), Name: ch.name, IfRevision: ch.when.revision, Manager: ch.by.manager, Force: ch.by.force,
		}}
		return cmd
	}
	cmd.Op = &statepb.Command_Put{Put: &statepb.Put{
		Kind: string(r.kind), Name: ch.name, Doc: policy.Canonical(ch.next), IfRevision: ch.when.revision,
		RollbackTo: ch.rollbackTo, Manager: ch.by.manager, Force: ch.by.force,
	}}
	return cmd
}

// made is the resource as this write left it, even if a later one has changed it again. A write of
// what was there already leaves its revision.
func (r resources) made(ch change, revision uint64) *policy.Resource {
	view := r.o.View()
	if now, ok := view.Get(r.kind, ch.name); ok && (now.Metadata.Revision == revision || same(now, ch.next)) {
		return r.dresser(view)(now)
	}
	made := *ch.next
	made.Metadata.Revision = revision
	return &made
}

func same(a, b *policy.Resource) bool { return bytes.Equal(policy.Canonical(a), policy.Canonical(b)) }

// bodyOf reads the body, which may have one of the types; none given is one of them.
func bodyOf(c echo.Context, types ...string) ([]byte, error) {
	if given := c.Request().Header.Get(echo.HeaderContentType); given != "" {
		media, _, err := mime.ParseMediaType(given)
		ok := false
		for _, t := range types {
			ok = ok || t == media
		}
		if err != nil || !ok {
			return nil, newProblem(codeMediaType, fmt.Sprintf("Content-Type is %.80q; use %s.", given, strings.Join(types, ", ")))
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.Response(), c.Request().Body, MaxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, err
	case err != nil:
		return nil, newProblem(codeInvalidRequest, "The body could not be read to its end.")
	}
	return body, nil
}
