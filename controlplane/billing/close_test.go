package billing

import (
	"testing"
	"time"

	"anabranch/controlplane/account"
	"anabranch/controlplane/state/statepb"
)

func closedAt(t *testing.T, end time.Time) account.Account {
	t.Helper()
	a, refused := account.Account{}.Close(&statepb.CloseMinutes{Minutes: []*statepb.MinuteBills{{MinuteUnixS: end.Add(-time.Minute).Unix()}}}, 1)
	if refused != nil {
		t.Fatal(refused)
	}
	return a
}

func TestWhichMinutesAreDue(t *testing.T) {
	docs := write(t, cluster("a", "us-east-1", ""), cluster("b", "us-east-1", ""))
	now := at(5*time.Hour + Grace)
	tests := map[string]struct {
		account account.Account
		now     time.Time
		first   time.Duration
		minutes int
	}{
		"the account begins with the last that is over": {account.Account{}, now, 5*time.Hour - time.Minute, 1},
		"within the grace":      {account.Account{}, now.Add(-time.Second), 5*time.Hour - 2*time.Minute, 1},
		"one":                   {closedAt(t, at(5*time.Hour-time.Minute)), now, 5*time.Hour - time.Minute, 1},
		"none yet":              {closedAt(t, at(5*time.Hour)), now, 0, 0},
		"the clock is behind":   {closedAt(t, at(7*time.Hour)), now, 0, 0},
		"some after an outage":  {closedAt(t, at(4*time.Hour+50*time.Minute)), now, 4*time.Hour + 50*time.Minute, 10},
		"many after an outage":  {closedAt(t, at(0)), now, 0, batchMinutes},
		"the longest outage":    {closedAt(t, at(5*time.Hour-MaxGap)), now, 5*time.Hour - MaxGap, batchMinutes},
		"longer than an outage": {closedAt(t, at(5*time.Hour-MaxGap-time.Minute)), now, 5*time.Hour - time.Minute, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := Close(Due{Account: tt.account, Held: docs.always, Capacity: never, Now: tt.now})
			if len(got.GetMinutes()) != tt.minutes {
				t.Fatalf("%d minutes", len(got.GetMinutes()))
			}
			for i, m := range got.GetMinutes() {
				if m.GetMinuteUnixS() != at(tt.first).Add(time.Duration(i)*time.Minute).Unix() || len(m.GetBills()) != 2 || m.GetBills()[0].GetCostMicros() == 0 {
					t.Errorf("minute %d is %v", i, m)
				}
			}
			if got == nil {
				return
			}
			if _, refused := tt.account.Close(got, 2); refused != nil {
				t.Errorf("refused: %+v", refused)
			}
		})
	}
}

// After an outage the account catches up, and each minute is billed once.
func TestAnOutageIsBilledAfterwards(t *testing.T) {
	docs := write(t, cluster("a", "us", ""), "RateCard r {gpus: [{class: h100, region: us, usdPerHour: 3}]}")
	a, commands := closedAt(t, at(0)), 0
	for {
		c := Close(Due{Account: a, Held: docs.always, Capacity: never, Now: at(7*time.Hour + Grace)})
		if c == nil {
			break
		}
		commands++
		next, refused := a.Close(c, uint64(commands+1))
		if refused != nil {
			t.Fatal(refused)
		}
		a = next
	}
	r, err := a.Ask(account.Query{From: at(0), Until: at(7 * time.Hour), Step: account.ByHour})
	if err != nil || !r.Complete || len(r.Rows) != 7 || commands != 21 {
		t.Fatalf("%d commands, %+v, %v", commands, r, err)
	}
	for _, row := range r.Rows {
		if row.Idle != 6_000_000 {
			t.Errorf("the hour at %s costs %s", row.Start, row.Idle)
		}
	}
}
