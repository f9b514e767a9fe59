package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/api/fleet"
	"anabranch/controlplane/forward"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/store"
)

// Member is one node of the control plane.
type Member struct {
	ID      fleet.NodeID `json:"id"`
	Address string       `json:"address"`
	Voter   bool         `json:"voter"`
	Leader  bool         `json:"leader"`
	// Healthy: it was heard of lately.
	Healthy bool `json:"healthy"`
	// AppliedIndex is how far its state is, as far as this node knows.
	AppliedIndex uint64 `json:"appliedIndex"`
	// Behind is how many entries of the log others have applied and this one has not.
	Behind uint64 `json:"behind"`
	// LastContactMs is the time since this node heard of it; 0 for itself, -1: never.
	LastContactMs int64 `json:"lastContactMs"`
	// Version of its build, as it told when it came; empty: it has not.
	Version string `json:"version"`
	// FeatureLevel is the newest format of commands that its build applies; 0: not known.
	FeatureLevel uint32 `json:"featureLevel"`
}

// Membership changes who is a member and who leads, through whichever node leads. Its errors are
// those of packages forward and store.
type Membership interface {
	// Add makes a node a member, or tells a member's new address.
	Add(ctx context.Context, id fleet.NodeID, address string) error
	// Remove removes a member; with force fewer than three voters may be left.
	Remove(ctx context.Context, id fleet.NodeID, force bool) error
	// Transfer hands leadership to a voter, empty: any, and returns who leads then.
	Transfer(ctx context.Context, to fleet.NodeID) (fleet.NodeID, error)
}

// MaxAddress bounds the address of a member in bytes.
const MaxAddress = 260

// NewMember names a node that is to become a member.
type NewMember struct {
	ID      fleet.NodeID `json:"id"`
	Address string       `json:"address"`
}

// TransferOrder says who is to lead; To is empty for whoever is furthest.
type TransferOrder struct {
	To fleet.NodeID `json:"to"`
}

// Transferred says who leads after a transfer.
type Transferred struct {
	Leader fleet.NodeID `json:"leader"`
}

func (s *Server) members(c echo.Context) error {
	return c.JSON(http.StatusOK, List[Member]{Items: s.memberList()})
}

// addMember adds a node that waits to be added, or notes that a member has moved. It begins as a
// non-voter.
func (s *Server) addMember(c echo.Context) error {
	var in NewMember
	if err := strictJSON(c, &in); err != nil {
		return err
	}
	var problems []policy.Problem
	if err := fleet.CheckName(string(in.ID)); err != nil {
		problems = append(problems, policy.Problem{Field: "id", Reason: err.Error(), Fix: "send the id that the node was started with"})
	}
	if _, port, ok := cutPort(in.Address); !ok || port == "" || len(in.Address) > MaxAddress {
		problems = append(problems, policy.Problem{Field: "address", Reason: "is not host:port", Fix: "send the address of the node's Raft port as the other nodes reach it"})
	}
	if len(problems) > 0 {
		return problemDocument(problems)
	}
	if err := s.noteChange(c, actionAdd, in.ID, "at "+in.Address); err != nil {
		return err
	}
	if err := s.o.Membership.Add(c.Request().Context(), in.ID, in.Address); err != nil {
		return err
	}
	for _, m := range s.memberList() {
		if m.ID == in.ID && m.Address == in.Address {
			return c.JSON(http.StatusOK, m)
		}
	}
	// The leader has it, and this node will hear of it.
	return c.JSON(http.StatusOK, Member{ID: in.ID, Address: in.Address, LastContactMs: -1})
}

// cutPort splits host:port; ok is false without a host.
func cutPort(address string) (host, port string, ok bool) {
	at := strings.LastIndexByte(address, ':')
	if at <= 0 {
		return "", "", false
	}
	return address[:at], address[at+1:], true
}

func (s *Server) removeMember(c echo.Context) error {
	force, err := flag(c, "force")
	if err != nil {
		return err
	}
	id := fleet.NodeID(nameOf(c))
	how := ""
	if force {
		how = "by force"
	}
	if err := s.noteChange(c, actionRemove, id, how); err != nil {
		return err
	}
	if err := s.o.Membership.Remove(c.Request().Context(), id, force); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

func (s *Server) transfer(c echo.Context) error {
	var in TransferOrder
	if err := strictJSON(c, &in); err != nil {
		return err
	}
	if err := s.noteChange(c, actionTransfer, in.To, ""); err != nil {
		return err
	}
	leader, err := s.o.Membership.Transfer(c.Request().Context(), in.To)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, Transferred{leader})
}

// noteChange records who asks for what, before it is done: afterwards this node may be no member, or
// another may lead. A refusal is recorded beside it.
func (s *Server) noteChange(c echo.Context, what string, node fleet.NodeID, how string) error {
	a := actor(c)
	s.o.Logger.Info("change of the membership requested", slog.String("change", what), slog.String("node", string(node)),
		slog.String("actor", a.GetName()), slog.String("reason", a.GetReason()), slog.String("request_id", a.GetRequestId()))
	return s.intend(c, what, kindMember, string(node), how)
}

// strictJSON reads the body into v; no body leaves v as it is.
func strictJSON(c echo.Context, v any) error {
	body, err := bodyOf(c, echo.MIMEApplicationJSON)
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return newProblem(codeMalformed, fmt.Sprintf("The body is not the JSON object that is wanted here: %v.", err))
	}
	if dec.More() {
		return newProblem(codeMalformed, "The body holds more than one JSON document.")
	}
	return nil
}

// problemOfMembership is what an error of a [Membership] means to the caller; nil: it is none of those.
func problemOfMembership(err error) *Problem {
	for _, known := range []struct {
		err          error
		code, detail string
		after        time.Duration
	}{
		{store.ErrNotMember, codeNotFound, "No member has this id; GET /v1/controlplane/members lists them.", 0},
		{store.ErrTooFewVoters, codeTooFewVoters, fmt.Sprintf("Fewer than %d voters would be left. Add another node first and wait until it votes; ?force=true is for a dead node whose address its successor needs, and never removes the last.", store.MinVoters), 0},
		{forward.ErrQuorumAtRisk, codeQuorumAtRisk, "Of the voters that would be left too few are alive for a majority. Remove dead members first, or bring them back.", 0},
		{store.ErrAddressTaken, codeAddressTaken, "Another member has this address. Remove that one first, or give the node another.", 0},
		{forward.ErrNotThere, codeNodeNotThere, "The leader called the address, and this node did not answer there. Is it running, and can the leader reach it?", 0},
		{store.ErrForeignCluster, codeForeignCluster, "The node's data folder belongs to another cluster. Give the node an empty folder.", 0},
		{store.ErrNotVoter, codeNotVoter, "Only a voter can lead. The node becomes one when it has caught up.", 0},
		{store.ErrNoSuccessor, codeNoSuccessor, "The leader leads still.", time.Second},
	} {
		if errors.Is(err, known.err) {
			return newProblem(known.code, known.detail).after(known.after)
		}
	}
	return nil
}
