package leader

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/controlplane/account"
	"anabranch/controlplane/billing"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/costmodel"
)

// wealthy is a leader of a cluster that costs six dollars an hour.
func wealthy(t *testing.T) *treasury {
	y := newTreasury(t)
	y.write(policy.KindRegion, "us", "{}")
	y.write(policy.KindModel, "m", "{}")
	y.write(policy.KindCluster, "c", "{region: us, models: [m], endpoints: [{id: e, url: 'http://c:1', class: h100}], gpus: [{class: h100, count: 2}]}")
	y.write(policy.KindRateCard, "r", "{gpus: [{class: h100, region: us, usdPerHour: 3}]}")
	return y
}

// bill lets a leader look each second for a time.
func (y *treasury) bill(d time.Duration) {
	y.t.Helper()
	for range int(d / time.Second) {
		<-time.After(time.Second)
		y.loop.closeMinutes(y.t.Context(), y.View(), signal.Snapshot{}, time.Now())
	}
}

func (y *treasury) paid() costmodel.Micros {
	y.t.Helper()
	a := y.View().Account()
	if a.Begun().IsZero() {
		return 0
	}
	r, err := a.Ask(account.Query{From: a.Begun(), Until: a.Closed()})
	if err != nil || len(r.Gaps) > 0 {
		y.t.Fatalf("%+v, %v", r, err)
	}
	var sum costmodel.Micros
	for _, row := range r.Rows {
		sum += row.Paid()
	}
	return sum
}

func TestALeaderHasMinutesBilledOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // on a midnight of UTC
		y := wealthy(t)
		<-time.After(time.Minute) // what was configured is billed from the next minute on
		y.renew()
		for _, step := range []struct {
			what  string
			first func()
			pass  time.Duration
			paid  costmodel.Micros
		}{
			{"a new leader waits for what routers tell", func() {}, billing.Grace - time.Second, 0},
			{"the account begins", func() {}, 2 * time.Second, 100_000},
			{"a minute is over, and may have usage yet", func() {}, 58 * time.Second, 100_000},
			{"it is closed", func() {}, 2 * time.Second, 200_000},
			{"an hour", func() {}, time.Hour, 6_200_000},
			{"nothing can be committed", func() { y.fail = errors.New("no quorum") }, 5 * time.Minute, 6_200_000},
			{"it is made up for", func() { y.fail = nil }, time.Second, 6_700_000},
			{"another leader waits", y.renew, billing.Grace - time.Second, 6_700_000},
			{"and goes on", func() {}, 2 * time.Minute, 6_900_000},
			{"nobody leads", func() { <-time.After(3 * time.Hour) }, time.Minute, 25_000_000},
		} {
			step.first()
			y.bill(step.pass)
			if got := y.paid(); got != step.paid {
				t.Errorf("%s: %s are paid at %s, want %s", step.what, got, time.Now().UTC(), step.paid)
			}
		}
		if log := y.logs.String(); strings.Contains(log, "ERROR") {
			t.Error(log)
		}
		if len(y.View().Audit(0, 0)) > 10 {
			t.Error("minutes are entries of the audit trail")
		}
	})
}

// A minute that is over when a price changes, a cluster goes or another leader comes, costs what it cost.
func TestAMinuteThatIsOverIsBilledAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := wealthy(t)
		<-time.After(time.Minute)
		y.renew()
		change := func(after time.Duration, kind policy.Kind, name, spec string, paid costmodel.Micros) {
			t.Helper()
			y.bill(after)
			if y.write(kind, name, spec); kind == policy.KindCluster {
				y.renew()
			}
			y.bill(time.Minute - after)
			if got := y.paid(); got != paid {
				t.Errorf("after %s was changed %s are paid, want %s", name, got, paid)
			}
		}
		y.bill(time.Minute) // the first is closed
		dear := "{gpus: [{class: h100, region: us, usdPerHour: 300}]}"
		change(10*time.Second, policy.KindRateCard, "r", dear, 200_000)                  // the last minute is over, and not closed
		change(10*time.Second, policy.KindRegion, "ap", "{}", 300_000)                   // that in which it changed began with the old price
		change(10*time.Second, policy.KindCluster, "d", clusterOf("d", 2), 10_300_000)   // it was not there
		change(10*time.Second, policy.KindCluster, "c", clusterOf("c", 200), 20_300_000) // nor were these
		change(10*time.Second, policy.KindRegion, "eu", "{}", 40_300_000)                // c as it was, and d
	})
}

// A clock that jumps and is set right again moves nothing; a time that has passed becomes a gap after a while.
func TestAClockThatJumpsMakesNoGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := wealthy(t)
		y.bill(2 * time.Minute)
		closed := y.View().Account().Closed()
		y.loop.closeMinutes(t.Context(), y.View(), signal.Snapshot{}, time.Now().AddDate(1, 0, 0))
		if got := y.View().Account().Closed(); !got.Equal(closed) || !strings.Contains(y.logs.String(), "unless the clock is wrong") {
			t.Fatalf("closed until %s after %s, logged %s", got, closed, y.logs)
		}
		y.bill(2 * time.Minute)
		if got := y.View().Account().Closed(); !got.Equal(closed.Add(2 * time.Minute)) {
			t.Errorf("with the right clock it is closed until %s", got)
		}
		<-time.After(billing.MaxGap + time.Hour)
		y.bill(gapAfter - time.Second)
		if got := len(y.View().Account().Gaps()); got != 0 {
			t.Errorf("%d gaps at once", got)
		}
		y.bill(2 * time.Second)
		if a := y.View().Account(); len(a.Gaps()) != 1 || time.Since(a.Closed()) > 2*time.Minute {
			t.Errorf("gaps %v, closed until %s", a.Gaps(), a.Closed())
		}
	})
}

func clusterOf(name string, gpus int) string {
	return fmt.Sprintf("{region: us, models: [m], endpoints: [{id: e, url: 'http://%s:1', class: h100}], gpus: [{class: h100, count: %d}]}", name, gpus)
}

func TestAnotherLeadersBillIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := wealthy(t)
		<-time.After(5 * time.Minute)
		before := y.View()
		for range 2 { // the second with a view from before the first
			y.loop.closeMinutes(t.Context(), before, signal.Snapshot{}, time.Now())
		}
		if got := y.paid(); got != 100_000 || testutil.ToFloat64(y.loop.metrics.unbilled) != 0 {
			t.Errorf("%s are paid, %v failures", got, testutil.ToFloat64(y.loop.metrics.unbilled))
		}
		y.fail = errors.New("no quorum")
		y.bill(61 * time.Second)
		if got := testutil.ToFloat64(y.loop.metrics.unbilled); got == 0 || !strings.Contains(y.logs.String(), "close minutes of the account") {
			t.Errorf("%v failures, logged %s", got, y.logs)
		}
	})
}
