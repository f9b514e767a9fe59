package rest

import (
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/audit"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// auditFilter says which entries of the audit trail are wanted: those for which all of it is true.
type auditFilter struct {
	texts           map[string]string // parameter to exact value
	name            pattern
	fromMs, toMs    int64 // toMs 0: no end
	since, sequence uint64
	oldestFirst     bool
	at              cursor // where the page goes on
}

// auditTexts are the parameters that are compared as they are.
var auditTexts = map[string]func(*statepb.AuditEntry) string{
	"actor":     (*statepb.AuditEntry).GetActor,
	"role":      (*statepb.AuditEntry).GetRole,
	"action":    (*statepb.AuditEntry).GetAction,
	"kind":      (*statepb.AuditEntry).GetKind,
	"code":      (*statepb.AuditEntry).GetCode,
	"requestId": (*statepb.AuditEntry).GetRequestId,
}

func auditFilterOf(c echo.Context) (auditFilter, error) {
	f := auditFilter{texts: map[string]string{}, name: pattern(c.QueryParam("name"))}
	for name := range auditTexts {
		if text := c.QueryParam(name); text != "" {
			f.texts[name] = text
		}
	}
	for _, n := range []struct {
		name string
		to   *uint64
	}{{"since", &f.since}, {"sequence", &f.sequence}} {
		text := c.QueryParam(n.name)
		if text == "" {
			continue
		}
		var err error
		if *n.to, err = strconv.ParseUint(text, 10, 64); err != nil {
			return f, newProblem(codeInvalidRequest, fmt.Sprintf("%s is %.40q; give a whole number.", n.name, text))
		}
	}
	for _, n := range []struct {
		name string
		to   *int64
	}{{"from", &f.fromMs}, {"to", &f.toMs}} {
		text := c.QueryParam(n.name)
		if text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return f, newProblem(codeInvalidRequest, fmt.Sprintf("%s is %.40q; give a time such as 2026-11-30T08:00:00Z.", n.name, text))
		}
		*n.to = at.UnixMilli()
	}
	switch text := c.QueryParam("order"); text {
	case "", "desc":
	case "asc":
		f.oldestFirst = true
	default:
		return f, newProblem(codeInvalidRequest, fmt.Sprintf("order is %.40q; use asc or desc.", text))
	}
	var err error
	f.at, err = sameList(c, "actor", "role", "action", "kind", "name", "code", "requestId", "from", "to", "since", "sequence", "order")
	return f, err
}

func (f auditFilter) fits(e *statepb.AuditEntry, sequence uint64) bool {
	for name, text := range f.texts {
		if auditTexts[name](e) != text {
			return false
		}
	}
	return f.name.fits(e.GetName()) && e.GetAtUnixMs() >= f.fromMs && (f.toMs == 0 || e.GetAtUnixMs() < f.toMs) &&
		e.GetIndex() > f.since && (f.sequence == 0 || f.sequence == sequence) &&
		(f.at.Before == 0 || e.GetIndex() < f.at.Before) && (f.at.Beyond == 0 || e.GetIndex() > f.at.Beyond)
}

// audit lists the trail, newest first unless asked otherwise. Entries of one command stay on one page.
func (s *Server) audit(c echo.Context) error {
	limit, err := limitOf(c)
	if err != nil {
		return err
	}
	f, err := auditFilterOf(c)
	if err != nil {
		return err
	}
	s.tellUnrecorded(c)
	view, err := s.view(c)
	if err != nil {
		return err
	}
	scope := identity(c).Scope
	page := List[audit.Entry]{Items: []audit.Entry{}}
	for sequence, e := range entries(view, f.oldestFirst) {
		if !f.fits(e, sequence) || !seesEntry(scope, view, e) {
			continue
		}
		if n := len(page.Items); n >= limit && page.Items[n-1].Index != e.GetIndex() {
			page.NextCursor = f.cursor(page.Items[n-1].Index)
			break
		}
		page.Items = append(page.Items, audit.Of(e, sequence))
	}
	return c.JSON(http.StatusOK, page)
}

// cursor goes on after the entries of a command.
func (f auditFilter) cursor(index uint64) string {
	if f.oldestFirst {
		return cursor{Of: f.at.Of, Beyond: index}.String()
	}
	return cursor{Of: f.at.Of, Before: index}.String()
}

// entries are those of the trail with their sequence numbers.
func entries(view *state.View, oldestFirst bool) iter.Seq2[uint64, *statepb.AuditEntry] {
	all, dropped := view.Audit(0, 0), view.AuditDropped()
	return func(yield func(uint64, *statepb.AuditEntry) bool) {
		for n := range all {
			i := n
			if !oldestFirst {
				i = len(all) - 1 - n
			}
			if !yield(dropped+uint64(i)+1, all[i]) {
				return
			}
		}
	}
}
