package forward

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"anabranch/controlplane/store"
)

// trailers is the server's end of a call that only keeps trailers.
type trailers struct{ md metadata.MD }

func (*trailers) Method() string               { return "/test" }
func (*trailers) SetHeader(metadata.MD) error  { return nil }
func (*trailers) SendHeader(metadata.MD) error { return nil }
func (s *trailers) SetTrailer(md metadata.MD) error {
	s.md = metadata.Join(s.md, md)
	return nil
}

func TestErrorsKeepTheirMeaningBetweenNodes(t *testing.T) {
	for _, e := range onTheWire {
		stream := &trailers{}
		ctx := grpc.NewContextWithServerTransportStream(t.Context(), stream)
		wire := toWire(ctx, fmt.Errorf("with some context: %w", e.err))
		if got := fromWire(wire, stream.md, true); !errors.Is(got, e.err) {
			t.Errorf("%v arrives as %v", e.err, got)
		}
	}
	stream := &trailers{}
	ctx := grpc.NewContextWithServerTransportStream(t.Context(), stream)
	want := store.ErrNotLeader{ID: "n2", Address: "a:1"}
	wire := toWire(ctx, fmt.Errorf("no: %w", want))
	var got store.ErrNotLeader
	if !errors.As(fromWire(wire, stream.md, true), &got) || got != want || status.Code(wire) != codes.FailedPrecondition {
		t.Errorf("%v arrives as %v", want, got)
	}
	if toWire(ctx, nil) != nil || fromWire(nil, nil, true) != nil {
		t.Error("success became an error")
	}
}

func TestAnErrorWithoutNameIsUnknownOnlyIfTheRequestHasLeft(t *testing.T) {
	lost := status.Error(codes.Unavailable, "connection reset")
	if err := fromWire(lost, nil, true); !errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("after sending: %v, want unknown", err)
	}
	nonsense := status.Error(codes.InvalidArgument, "command is missing")
	if err := fromWire(nonsense, nil, true); errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, ErrRefused) {
		t.Errorf("refused: %v, want refused", err)
	}
	if err := fromWire(lost, nil, false); errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, errUnreachable) {
		t.Errorf("before sending: %v, want unreachable", err)
	}
}

func TestTheCodeOfAnEndedCall(t *testing.T) {
	for err, want := range map[error]codes.Code{
		context.DeadlineExceeded: codes.DeadlineExceeded,
		context.Canceled:         codes.Canceled,
		errors.New("else"):       codes.Unknown,
	} {
		ctx := grpc.NewContextWithServerTransportStream(t.Context(), &trailers{})
		if got := status.Code(toWire(ctx, err)); got != want {
			t.Errorf("%v has code %v, want %v", err, got, want)
		}
	}
}
