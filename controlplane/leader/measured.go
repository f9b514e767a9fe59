package leader

import (
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/account"
	"anabranch/costmodel"
)

// measured remembers what work was measured to cost: a day of the account takes too long to add up each second.
type measured struct {
	until time.Time // of the day measured
	costs map[fleet.ModelID]costmodel.Micros
}

// of an account.
func (m *measured) of(a account.Account) map[fleet.ModelID]costmodel.Micros {
	if until := a.Measured(); !until.Equal(m.until) {
		m.until, m.costs = until, a.PerWork()
	}
	return m.costs
}
