package rest

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/access"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// headerGlass is why a change is not to wait for approval; the parameter break_glass takes the reason of the
// change instead.
const headerGlass = "X-Anabranch-Break-Glass"

// BrokenGlass is a write that did not wait for the approval that it needed, or moved more at once than the
// safety rules allow.
type BrokenGlass struct {
	At       time.Time   `json:"at"`
	Actor    string      `json:"actor"`
	Role     string      `json:"role"`
	Kind     policy.Kind `json:"kind"`
	Name     string      `json:"name"`
	Reason   string      `json:"reason"`
	Revision uint64      `json:"revision"`
}

// glassOf is why the caller would break the glass; empty: they would not. Whoever would has to say why.
func glassOf(c echo.Context) (string, error) {
	asked, err := flag(c, "break_glass")
	if err != nil {
		return "", err
	}
	h := c.Request().Header
	why := h.Get(headerGlass)
	if len(why) > maxReason {
		return "", newProblem(codeInvalidRequest, fmt.Sprintf("%s is %d bytes long, the limit is %d.", headerGlass, len(why), maxReason))
	}
	if _, sent := h[headerGlass]; !sent && !asked {
		return "", nil
	}
	if strings.TrimSpace(why) == "" && asked {
		why = h.Get(headerReason)
	}
	if strings.TrimSpace(why) == "" {
		return "", newProblem(codeInvalidRequest, "Who breaks the glass says why: send it as "+headerGlass+", or with break_glass=true as "+headerReason+".")
	}
	return printable(why, maxReason), nil
}

// breaking marks a write as one that does not wait.
func breaking(cmd *statepb.Command, why string) {
	if d := cmd.GetDelete(); d != nil {
		d.BreakGlass = why
	} else if p := cmd.GetPut(); p != nil {
		p.BreakGlass = why
	}
	cmd.Format = state.FormatOf(cmd)
}

// toldGlass tells of a write that did not wait, where people and alerts look.
func (r resources) toldGlass(c echo.Context, ch change, why string, revision uint64) {
	r.metrics.brokeGlass()
	r.o.Logger.Error("the glass was broken: a change did not wait for approval", slog.String("kind", string(r.kind)), slog.String("name", ch.name),
		slog.String("actor", actor(c).GetName()), slog.String("reason", why), slog.Uint64("revision", revision), slog.String("request_id", requestID(c)))
}

// brokenGlass lists the writes of the last day that did not wait, as far as a scope shows them.
func (s *Server) brokenGlass(scope access.Scope, view *state.View) []BrokenGlass {
	out := []BrokenGlass{}
	for _, g := range view.BrokenGlass(s.o.Now()) {
		if !seesEntry(scope, view, &statepb.AuditEntry{Kind: g.GetKind(), Name: g.GetName()}) {
			continue
		}
		out = append(out, BrokenGlass{
			At: time.UnixMilli(g.GetAtUnixMs()).UTC(), Actor: g.GetActor().GetName(), Role: g.GetActor().GetRole(),
			Kind: policy.Kind(g.GetKind()), Name: g.GetName(), Reason: g.GetWhy(), Revision: g.GetRevision(),
		})
	}
	return out
}

// pendingProposals counts those that wait, as far as a scope shows them.
func (s *Server) pendingProposals(scope access.Scope, view *state.View) int {
	n := 0
	for _, p := range view.Proposals() {
		if state.ProposalState(p, s.o.Now()) == state.ProposalPending && seesProposal(scope, view, p) {
			n++
		}
	}
	return n
}
