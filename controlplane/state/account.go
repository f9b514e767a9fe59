package state

import (
	"hash"

	"anabranch/controlplane/account"
	"anabranch/controlplane/state/statepb"
)

// Account is what requests used and what they and idle clusters cost.
func (v *View) Account() account.Account { return v.account }

// keepAccount takes an account that a command has changed. A command that another one was before answers
// "precondition". It is no entry of the audit trail, as spending is none: it would flood it.
func (v *View) keepAccount(a account.Account, refused *account.Refusal) *statepb.Outcome {
	switch {
	case refused == nil:
		v.account = a
		return &statepb.Outcome{}
	case refused.Stale:
		return refuse(CodePrecondition, refused.Field, refused.Message)
	}
	return refuse(CodeInvalid, refused.Field, refused.Message)
}

// wholeSpans is how many of the newest intervals of a size are hashed whole.
const wholeSpans = 3

// sumAccount hashes the newest intervals whole, and of the others when they begin, how large they are and which
// command changed them last: they were compared when they were newer.
func (v *View) sumAccount(h hash.Hash) {
	p := v.account.Proto()
	number(h, uint64(p.GetBegunUnixS()))
	number(h, uint64(p.GetClosedUnixS()))
	number(h, uint64(p.GetLost()))
	for _, list := range [][]*statepb.AccountSpan{p.GetMinutes(), p.GetHours(), p.GetDays()} {
		number(h, uint64(len(list)))
		for i, s := range list {
			number(h, uint64(s.GetStartUnixS()))
			number(h, s.GetRevision())
			number(h, uint64(len(s.GetBody())))
			if i >= len(list)-wholeSpans {
				text(h, string(s.GetBody()))
			}
		}
	}
	messages(h, p.GetGaps())
	messages(h, p.GetRuns())
}
