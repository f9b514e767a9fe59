package forward

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"anabranch/api/fleet"
	"anabranch/controlplane/inquiry"
	"anabranch/controlplane/store"
)

var (
	// ErrNoLeader says that no leader was found before the time was over. The command was not
	// proposed.
	ErrNoLeader = errors.New("no leader")
	// ErrUnknownOutcome is the store's: the command may or may not be committed.
	ErrUnknownOutcome = store.ErrUnknownOutcome
	// ErrRefused says that the other node refuses the call for good: it makes no sense to it.
	ErrRefused = errors.New("refused by the other node")
)

// Trailers that carry what a status code cannot.
const (
	errorTrailer         = "anabranch-error"
	leaderTrailer        = "anabranch-leader"
	leaderAddressTrailer = "anabranch-leader-address"
)

// onTheWire names the errors that travel between nodes.
var onTheWire = []struct {
	err  error
	name string
	code codes.Code
}{
	{store.ErrUnknownOutcome, "unknown_outcome", codes.Unknown},
	{store.ErrReadOnly, "read_only", codes.ResourceExhausted},
	{store.ErrTooLarge, "too_large", codes.InvalidArgument},
	{store.ErrTooNew, "too_new", codes.FailedPrecondition},
	{store.ErrBusy, "busy", codes.ResourceExhausted},
	{store.ErrClosed, "closed", codes.Unavailable},
	{store.ErrForeignCluster, "foreign_cluster", codes.PermissionDenied},
	{store.ErrTooFewVoters, "too_few_voters", codes.FailedPrecondition},
	{store.ErrNotMember, "not_member", codes.NotFound},
	{store.ErrNotVoter, "not_voter", codes.FailedPrecondition},
	{store.ErrAddressTaken, "address_taken", codes.AlreadyExists},
	{store.ErrNoSuccessor, "no_successor", codes.Unavailable},
	{inquiry.ErrNotConnected, "router_not_connected", codes.NotFound},
	{inquiry.ErrTooOld, "router_too_old", codes.FailedPrecondition},
	{inquiry.ErrBusy, "router_busy", codes.ResourceExhausted},
	{ErrQuorumAtRisk, "quorum_at_risk", codes.FailedPrecondition},
	{ErrNotThere, "not_there", codes.FailedPrecondition},
}

// wireError is an error of another node: its own words, and what it stands for.
type wireError struct {
	message string
	err     error
}

func (e wireError) Error() string { return "leader: " + e.message }

// Unwrap gives what it stands for.
func (e wireError) Unwrap() error { return e.err }

const notLeaderName = "not_leader"

// toWire turns an error of the store into a status and trailers.
func toWire(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	name, code := "", codes.Unknown
	var elsewhere store.ErrNotLeader
	if errors.As(err, &elsewhere) {
		name, code = notLeaderName, codes.FailedPrecondition
	}
	for _, e := range onTheWire {
		if name == "" && errors.Is(err, e.err) {
			name, code = e.name, e.code
		}
	}
	switch {
	case name != "":
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	}
	trailer := metadata.Pairs(errorTrailer, name)
	if elsewhere.ID != "" {
		trailer.Set(leaderTrailer, string(elsewhere.ID))
		trailer.Set(leaderAddressTrailer, elsewhere.Address)
	}
	// It fails only outside of a call; the status goes out all the same.
	_ = grpc.SetTrailer(ctx, trailer)
	return status.Error(code, err.Error())
}

// fromWire turns the result of a call back. sent says whether the request has left: an error
// without a name is then an unknown outcome.
func fromWire(err error, trailer metadata.MD, sent bool) error {
	if err == nil {
		return nil
	}
	name := first(trailer, errorTrailer)
	if name == notLeaderName {
		return store.ErrNotLeader{
			ID:      fleet.NodeID(first(trailer, leaderTrailer)),
			Address: first(trailer, leaderAddressTrailer),
		}
	}
	for _, e := range onTheWire {
		if name == e.name {
			return wireError{status.Convert(err).Message(), e.err}
		}
	}
	message := status.Convert(err).Message()
	switch status.Code(err) {
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unimplemented:
		return fmt.Errorf("%w: %s", ErrRefused, message)
	}
	if !sent {
		return fmt.Errorf("%w: %s", errUnreachable, message)
	}
	return fmt.Errorf("%w: %s", ErrUnknownOutcome, message)
}

// errUnreachable says that the request has not left this node.
var errUnreachable = errors.New("node is not reachable")

func first(md metadata.MD, key string) string {
	if v := md.Get(key); len(v) > 0 {
		return v[0]
	}
	return ""
}
