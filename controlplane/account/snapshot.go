package account

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"anabranch/controlplane/state/statepb"
)

// Proto is what a snapshot holds of the account; nil: it has not begun.
func (a Account) Proto() *statepb.Account {
	if a.begun == 0 {
		return nil
	}
	return &statepb.Account{
		BegunUnixS: a.begun, ClosedUnixS: a.closed, Minutes: a.minutes, Hours: a.hours, Days: a.days,
		Gaps: a.gaps, Runs: a.runs, Lost: a.lost,
	}
}

// FromProto is the inverse of Proto. It fails on what no account holds.
func FromProto(p *statepb.Account) (Account, error) {
	if p == nil {
		return Account{}, nil
	}
	a := Account{
		begun: p.GetBegunUnixS(), closed: p.GetClosedUnixS(), minutes: p.GetMinutes(), hours: p.GetHours(), days: p.GetDays(),
		gaps: p.GetGaps(), runs: p.GetRuns(), lost: p.GetLost(),
	}
	if a.begun <= 0 || a.closed < a.begun || a.closed > maxTime+minute {
		return Account{}, errors.New("read the account: it was closed before it began")
	}
	for i, list := range [][]*statepb.AccountSpan{a.minutes, a.hours, a.days} {
		length := [...]int64{minute, hour, day}[i]
		for j, s := range list {
			if s.GetStartUnixS()%length != 0 || j > 0 && s.GetStartUnixS() <= list[j-1].GetStartUnixS() {
				return Account{}, fmt.Errorf("read the account: the interval at %d is none, or out of order", s.GetStartUnixS())
			}
			b, err := decode(s.GetBody())
			if err != nil {
				return Account{}, fmt.Errorf("read the account at %d: %w", s.GetStartUnixS(), err)
			}
			if !bytes.Equal(b.encode(), s.GetBody()) {
				return Account{}, fmt.Errorf("read the account at %d: it is not as it is written", s.GetStartUnixS())
			}
		}
	}
	if !slices.IsSortedFunc(a.runs, func(x, y *statepb.UsageRun) int { return bytes.Compare([]byte(x.GetRun()), []byte(y.GetRun())) }) {
		return Account{}, errors.New("read the account: its runs are out of order")
	}
	return a, nil
}
