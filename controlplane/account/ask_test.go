package account

import (
	"errors"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

// told is an account of ten minutes, in which two tenants use two clusters that are half idle.
func told(t *testing.T) *books {
	b := newBooks(t)
	for i := range 10 {
		start := at(time.Duration(i) * time.Minute)
		b.shut(start, bill("us", 1000, 10_000), bill("eu", 500, 10_000))
		far := used("globex", "us", 1000)
		far.Source, far.Bytes, far.EgressMicros, far.Model = "eu", 50, 7, "n"
		b.tell(start.Add(time.Minute), start, used("acme", "us", 4000), far, used("acme", "eu", 5000))
	}
	return b
}

func TestAReportTellsApartWhatItIsAskedFor(t *testing.T) {
	b := told(t)
	all := Query{From: at(0), Until: at(10 * time.Minute)}
	type figures struct {
		key                costmodel.Key
		cost, idle, egress costmodel.Micros
	}
	for name, tt := range map[string]struct {
		change func(*Query)
		want   []figures
	}{
		"nothing": {func(*Query) {}, []figures{{costmodel.Key{}, 7500, 7500, 70}}},
		"tenants": {func(q *Query) { q.By = costmodel.ByTenant }, []figures{
			{costmodel.Key{}, 0, 7500, 0}, {costmodel.Key{Tenant: "acme"}, 6500, 0, 0}, {costmodel.Key{Tenant: "globex"}, 1000, 0, 70},
		}},
		"idle time spread": {func(q *Query) { q.By, q.SpreadIdle = costmodel.ByTenant, true }, []figures{
			{costmodel.Key{Tenant: "acme"}, 13_000, 0, 0}, {costmodel.Key{Tenant: "globex"}, 2000, 0, 70},
		}},
		"a tenant, idle time spread": {func(q *Query) { q.Tenants, q.SpreadIdle = []fleet.TenantID{"globex"}, true }, []figures{{costmodel.Key{}, 2000, 0, 70}}},
		"a tenant":                   {func(q *Query) { q.Tenants = []fleet.TenantID{"globex"} }, []figures{{costmodel.Key{}, 1000, 0, 70}}},
		"a region":                   {func(q *Query) { q.Regions = []fleet.RegionID{"eu"} }, []figures{{costmodel.Key{}, 2500, 2500, 0}}},
		"a cluster, by region": {func(q *Query) { q.Clusters, q.By = []fleet.ClusterID{"us"}, costmodel.ByRegion }, []figures{
			{costmodel.Key{Region: "us"}, 5000, 5000, 70},
		}},
		"lanes": {func(q *Query) {
			q.By, q.Tenants = costmodel.ByRegion|costmodel.BySource, []fleet.TenantID{"globex", "acme"}
		}, []figures{
			{costmodel.Key{Region: "eu", Source: "eu"}, 2500, 0, 0}, {costmodel.Key{Region: "us", Source: "eu"}, 1000, 0, 70}, {costmodel.Key{Region: "us", Source: "us"}, 4000, 0, 0},
		}},
		"a source":   {func(q *Query) { q.Sources = []fleet.RegionID{"us"} }, []figures{{costmodel.Key{}, 4000, 0, 0}}},
		"a model":    {func(q *Query) { q.Models, q.By = []fleet.ModelID{"n"}, costmodel.ByModel }, []figures{{costmodel.Key{Model: "n"}, 1000, 0, 70}}},
		"a class":    {func(q *Query) { q.Classes = []fleet.ClassID{"chat"} }, []figures{{costmodel.Key{}, 7500, 0, 70}}},
		"no such":    {func(q *Query) { q.Classes = []fleet.ClassID{"other"} }, nil},
		"one minute": {func(q *Query) { q.From = at(9 * time.Minute) }, []figures{{costmodel.Key{}, 750, 750, 7}}},
	} {
		t.Run(name, func(t *testing.T) {
			q := all
			tt.change(&q)
			r := b.ask(q)
			var got []figures
			for _, row := range r.Rows {
				got = append(got, figures{row.Key, row.Cost, row.Idle, row.Egress})
			}
			if len(got) != len(tt.want) {
				t.Fatalf("got %+v", got)
			}
			for i := range got {
				if got[i] != tt.want[i] {
					t.Errorf("got %+v, want %+v", got[i], tt.want[i])
				}
			}
			if !r.Complete {
				t.Error("not complete")
			}
		})
	}
}

func TestWhatAReportCovers(t *testing.T) {
	b := told(t)
	b.closeUntil(at(30*time.Minute+24*time.Hour), bill("us", 1, 0))
	end := 30*time.Minute + 24*time.Hour // minutes are kept from 22:30
	m := time.Minute
	for name, tt := range map[string]struct {
		from, until time.Duration
		step        Step
		start, end  time.Duration
		complete    bool
		rows        int
	}{
		"minutes":                       {end - 5*m, end, ByMinute, end - 5*m, end, true, 5},
		"parts of minutes":              {end - 5*m + time.Second, end - time.Second, ByMinute, end - 5*m, end, true, 5},
		"a time that is not over":       {end - 5*m, end + m, ByMinute, end - 5*m, end, false, 5},
		"one that is yet to come":       {end + 5*m, end + 6*m, ByMinute, end, end, false, 0},
		"before the account began":      {-5 * m, 60 * m, ByHour, 0, 60 * m, false, 1},
		"hours":                         {0, 3 * time.Hour, ByHour, 0, 3 * time.Hour, true, 3},
		"parts of hours that have gone": {30 * m, 150 * m, Whole, 0, 3 * time.Hour, true, 1},
		"parts of hours in minutes":     {end - 65*m, end - 3*m, Whole, end - 65*m, end - 3*m, true, 1},
		"hours of minutes":              {end - 65*m, end, ByHour, 23 * time.Hour, end, true, 2},
		"days":                          {5 * time.Hour, end, ByDay, 0, end, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.ask(Query{From: at(tt.from), Until: at(tt.until), Step: tt.step})
			if !r.From.Equal(at(tt.start)) || !r.Until.Equal(at(tt.end)) || r.Complete != tt.complete || !r.Closed.Equal(at(end)) {
				t.Errorf("from %s to %s, complete %v, closed %s", r.From, r.Until, r.Complete, r.Closed)
			}
			starts := map[time.Time]bool{}
			for _, row := range r.Rows {
				starts[row.Start] = true
				if row.Start.Before(r.From) || r.Until.Before(row.Until) || !row.Start.Before(row.Until) {
					t.Errorf("a row from %s to %s", row.Start, row.Until)
				}
			}
			if len(starts) != tt.rows {
				t.Errorf("%d rows, want %d", len(starts), tt.rows)
			}
		})
	}
	for name, tt := range map[string]struct {
		q    Query
		want error
	}{
		"nothing":      {Query{From: at(0), Until: at(0)}, ErrTime},
		"backwards":    {Query{From: at(m), Until: at(0)}, ErrTime},
		"old minutes":  {Query{From: at(0), Until: at(m), Step: ByMinute}, ErrStep},
		"no time said": {Query{}, ErrTime},
	} {
		if _, err := b.Ask(tt.q); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnAccountThatHasNotBegunKnowsNothing(t *testing.T) {
	r, err := Account{}.Ask(Query{From: at(0), Until: at(time.Hour), Step: ByHour})
	if err != nil || r.Complete || len(r.Rows) != 0 || !r.Closed.IsZero() {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestEstimatesAndMissingPricesAreTold(t *testing.T) {
	b := newBooks(t)
	guess, none := bill("us", 100, 2000), bill("eu", 0, 2000)
	guess.Estimate, none.Unpriced = true, true
	b.shut(at(0), guess, none)
	provider := used("acme", "api", 1000)
	provider.CostMicros = 30
	b.tell(at(time.Minute), at(0), used("acme", "us", 1000), used("acme", "eu", 1000), provider)
	for _, row := range b.ask(Query{From: at(0), Until: at(time.Minute), By: costmodel.ByCluster | costmodel.ByTenant}).Rows {
		if row.Estimate != (row.Key.Cluster == "us") || row.Unpriced != (row.Key.Cluster == "eu") {
			t.Errorf("%+v", row)
		}
	}
	if s := b.ask(Query{From: at(0), Until: at(time.Minute)}).total(); !s.Estimate || !s.Unpriced || s.Paid() != 130 {
		t.Errorf("%+v", s)
	}
}

func TestStepsHaveNames(t *testing.T) {
	for step, want := range map[Step]string{Whole: "none", ByMinute: "minute", ByHour: "hour", ByDay: "day"} {
		if step.String() != want {
			t.Errorf("%d is %s", step, step)
		}
	}
}

func TestAReportIsBounded(t *testing.T) {
	b := newBooks(t)
	b.shut(at(0))
	var lines []*statepb.CountedLine
	for i := range 1000 {
		lines = append(lines, used("t"+time.Duration(i).String(), "us", 1000))
	}
	b.tell(at(0), at(0), lines...)
	b.closeUntil(at(110 * time.Minute))
	for _, s := range b.minutes {
		s.Body = b.minutes[0].GetBody()
	}
	if _, err := b.Ask(Query{From: at(0), Until: b.Closed(), Step: ByMinute, By: costmodel.ByTenant}); !errors.Is(err, ErrRows) {
		t.Errorf("%v", err)
	}
}

// A day may be part days, part hours and part minutes: it is one step all the same, and steps come in order.
func TestEachStepIsToldOnce(t *testing.T) {
	b := newBooks(t)
	b.shut(at(0), bill("us", 100, 4000))
	b.skip(at((HoursKept+30)*time.Hour), bill("us", 100, 4000), bill("eu", 50, 0))
	for start := b.Closed().Add(-40 * 24 * time.Hour); start.Before(b.Closed()); start = start.Add(37 * time.Minute) {
		b.tell(b.Closed(), start, used("a", "us", 1000), used("b", "eu", 3000))
	}
	for _, q := range []Query{{Step: Whole}, {Step: ByDay}, {Step: ByDay, SpreadIdle: true}, {Step: ByHour}, {Step: ByHour, SpreadIdle: true}} {
		q.From, q.Until, q.By = at(0), b.Closed(), costmodel.ByTenant|costmodel.ByCluster
		if q.Step == ByHour {
			q.From = b.Closed().Add(-HoursKept * time.Hour)
		}
		r := b.ask(q)
		one := q
		one.Step, one.From, one.Until = Whole, r.From, r.Until
		if got, want := r.total(), b.ask(one).total(); got.Paid() != want.Paid() || got.Usage != want.Usage || got.Paid() == 0 || got.Succeeded == 0 {
			t.Errorf("%s, spread %v: %+v, want %+v", q.Step, q.SpreadIdle, got, want)
		}
		for i, row := range r.Rows[1:] {
			before := r.Rows[i]
			if c := before.Start.Compare(row.Start); c > 0 || c == 0 && before.Key.Compare(row.Key) >= 0 || c < 0 && before.Until.After(row.Start) {
				t.Fatalf("%s, spread %v: %+v comes before %+v", q.Step, q.SpreadIdle, before, row)
			}
		}
	}
}
