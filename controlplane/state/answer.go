package state

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"time"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// Bounds of the answers that are kept by idempotency key. Beyond them the oldest go first.
const (
	// AnswersFor is how long an answer is kept, by the proposers' clocks.
	AnswersFor = 24 * time.Hour
	// MaxAnswers is how many are kept.
	MaxAnswers = 10_000
	// MaxAnswerBytes bounds the documents in them, in bytes.
	MaxAnswerBytes = 16 << 20
	// MaxKey bounds an idempotency key, in bytes.
	MaxKey = 255
)

// AnswerTo finds what was answered to an actor's command with a key, as of a time; nil: nothing, or
// it has expired.
func (v *View) AnswerTo(actor, key string, at time.Time) *statepb.Answer {
	for _, a := range slices.Backward(v.answers) {
		if a.GetKey() == key && a.GetActor() == actor {
			if expired(a, at.UnixMilli()) {
				return nil
			}
			return a
		}
	}
	return nil
}

func expired(a *statepb.Answer, atUnixMs int64) bool {
	return a.GetAtUnixMs()+AnswersFor.Milliseconds() <= atUnixMs
}

// repeated is the outcome of a command that was met before, or whose key can't be used; nil: it is to
// be applied.
func (v *View) repeated(cmd *statepb.Command) *statepb.Outcome {
	once := cmd.GetOnce()
	switch {
	case once == nil:
		return nil
	case once.GetKey() == "" || len(once.GetKey()) > MaxKey:
		return refuse(CodeInvalid, "once.key", fmt.Sprintf("is empty or longer than %d bytes", MaxKey))
	case len(once.GetRequestSha256()) != sha256.Size:
		return refuse(CodeInvalid, "once.request_sha256", fmt.Sprintf("is not %d bytes long", sha256.Size))
	}
	a := v.AnswerTo(cmd.GetActor().GetName(), once.GetKey(), time.UnixMilli(cmd.GetAtUnixMs()))
	switch {
	case a == nil:
		return nil
	case !bytes.Equal(a.GetRequestSha256(), once.GetRequestSha256()):
		return refuse(CodeKeyReused, "once.key", "the key was used for another request")
	}
	return &statepb.Outcome{Answer: a}
}

// remember keeps the answer to a command with a key that was done.
func (v *View) remember(before *View, cmd *statepb.Command, out *statepb.Outcome) {
	once := cmd.GetOnce()
	if once == nil || out.GetCode() != "" {
		return
	}
	a := &statepb.Answer{
		Actor: cmd.GetActor().GetName(), Key: once.GetKey(), RequestSha256: once.GetRequestSha256(),
		AtUnixMs: cmd.GetAtUnixMs(), Index: v.index,
	}
	if put := cmd.GetPut(); put != nil && out.GetProposal() == 0 {
		kind := policy.Kind(put.GetKind())
		_, was := before.Get(kind, put.GetName())
		s := v.shelf(kind)
		if at, ok := s.find(put.GetName()); ok {
			r := s.items[at]
			a.Kind, a.Name, a.Doc, a.Created = put.GetKind(), put.GetName(), s.docs[at], !was
			a.Revision, a.CreatedUnixMs, a.UpdatedUnixMs = r.Metadata.Revision, r.Metadata.CreatedAt.UnixMilli(), r.Metadata.UpdatedAt.UnixMilli()
			a.UpdatedBy, a.Managers = r.Metadata.UpdatedBy, managersOf(r)
		}
	}
	if p := cmd.GetPutToken(); p != nil {
		a.Kind, a.Name, a.Doc, a.Created, a.Revision = KindToken, p.GetToken().GetName(), p.GetAnswer(), !p.GetRotate(), v.index
	}
	if cmd.GetPutOrder() != nil {
		a.Kind, a.Name, a.Created, a.Revision = KindOrder, strconv.FormatUint(v.index, 10), true, v.index
	}
	if id := out.GetProposal(); id != 0 {
		// What becomes of it is looked up; a decision is no creation.
		a.Kind, a.Name, a.Created, a.Revision = KindProposal, strconv.FormatUint(id, 10), id == v.index, v.index
	}
	switch op := cmd.GetOp().(type) {
	case *statepb.Command_CreateDrill:
		a.Kind, a.Name, a.Created, a.Revision = KindDrill, strconv.FormatUint(v.index, 10), true, v.index
	case *statepb.Command_DecideDrill:
		a.Kind, a.Name, a.Revision = KindDrill, strconv.FormatUint(op.DecideDrill.GetId(), 10), v.index
	}
	v.answers = bounds(append(slices.Clone(v.answers), a), cmd.GetAtUnixMs())
}

// bounds drops what has expired, and the oldest beyond the limits.
func bounds(answers []*statepb.Answer, atUnixMs int64) []*statepb.Answer {
	answers = slices.DeleteFunc(answers, func(a *statepb.Answer) bool { return expired(a, atUnixMs) })
	first, size := max(0, len(answers)-MaxAnswers), 0
	for i := len(answers) - 1; i >= first; i-- {
		if size += len(answers[i].GetDoc()); size > MaxAnswerBytes {
			first = i + 1
		}
	}
	return answers[first:]
}
