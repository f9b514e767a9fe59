package leader

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/routerpb"
	"anabranch/controlplane/ledger"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
	"anabranch/ratelimit"
)

// maxWarnings bounds the warnings of one look: each is a proposal, and tables wait meanwhile.
const maxWarnings = 10

// kindMoney is the kind of limits that are budgets.
const kindMoney = "money"

// budget is how a budget of the table in force stands in the window that is open.
type budget struct {
	*routerpb.Quota
	window *statepb.BudgetWindow // nil: nothing is spent
}

// percent of the budget that is spent, rounded down.
func (b budget) percent() uint32 { return uint32(min(b.ratio(), 1e6) * 100) }

// ratio is what is spent over what may be; of a budget of nothing 1.
func (b budget) ratio() float64 {
	if b.GetLimit() <= 0 {
		return 1
	}
	return float64(max(b.window.GetMicros(), 0)) / float64(b.GetLimit())
}

// due is the highest warning that holds and has not been given; 0: none.
func (b budget) due() uint32 {
	for _, warn := range slices.Backward(b.GetWarnPercent()) { // upwards, says the table
		if warn <= b.percent() {
			if b.window != nil && warn > b.window.GetWarnedPercent() {
				return warn
			}
			return 0
		}
	}
	return 0
}

// calendars find the windows of budgets, and remember them: it takes long to find one. The zero calendars
// are ready for use.
type calendars struct {
	windows map[[2]string]ratelimit.Window // by calendar and time zone
	places  map[string]*time.Location      // nil: this machine does not know it
}

// open is the window of a budget that now is in; false: it can't be found.
func (c *calendars) open(q *routerpb.Quota, now time.Time) (ratelimit.Window, bool) {
	key := [2]string{q.GetCalendar(), q.GetTimeZone()}
	if w, ok := c.windows[key]; ok && w.FromUs <= now.UnixMicro() && now.UnixMicro() < w.NextUs {
		return w, true
	}
	if c.windows == nil {
		c.windows, c.places = map[[2]string]ratelimit.Window{}, map[string]*time.Location{}
	}
	place, known := c.places[q.GetTimeZone()]
	if !known {
		place, _ = time.LoadLocation(q.GetTimeZone()) // "" is UTC
		c.places[q.GetTimeZone()] = place
	}
	if place == nil {
		return ratelimit.Window{}, false
	}
	w, err := ratelimit.Calendar(q.GetCalendar()).Window(now, place)
	if err != nil {
		return ratelimit.Window{}, false
	}
	c.windows[key] = w
	return w, true
}

// budgets are those of the table in force.
func (c *calendars) budgets(view *state.View, now time.Time) []budget {
	var out []budget
	for _, q := range view.Table().GetQuotas() {
		if q.GetKind() != kindMoney || q.GetOrganisation() == "" {
			continue
		}
		if w, ok := c.open(q, now); ok {
			out = append(out, budget{q, state.SpentIn(view.Budget(q.GetOrganisation(), q.GetId()), w.FromUs)})
		}
	}
	return out
}

// warn says, once in each window, that a budget is spent up to one of its percentages.
func (l *loop) warn(ctx context.Context, view *state.View, now time.Time) {
	if view.FeatureLevel() < ledger.FirstLevel || view.EpochDue() {
		return
	}
	if l.judged.revision == view.LedgerRevision() && l.judged.table == view.Table() {
		return
	}
	given := 0
	for _, b := range l.calendars.budgets(view, now) {
		due := b.due()
		if due == 0 {
			continue
		}
		if given++; given > maxWarnings {
			return // the next look goes on
		}
		out := l.propose(ctx, &statepb.Command{
			Actor: &statepb.Actor{Name: actor, Role: "admin"},
			Op: &statepb.Command_WarnBudget{WarnBudget: &statepb.WarnBudget{
				Organisation: b.GetOrganisation(), Limit: b.GetId(), WindowUnixUs: b.window.GetStartUnixUs(), Percent: due,
				Detail: fmt.Sprintf("%s of %s are spent of the %s that began at %s: more than %d %%", costmodel.Micros(b.window.GetMicros()),
					costmodel.Micros(b.GetLimit()), b.GetCalendar(), time.UnixMicro(b.window.GetStartUnixUs()).UTC().Format(time.RFC3339), due),
			}},
		})
		if out == nil {
			return // the next look tries again
		}
		l.metrics.warnings.Inc()
		l.logger.Warn("a budget is nearly spent", "organisation", b.GetOrganisation(), "limit", b.GetId(), "percent", b.percent(),
			"warning_at", due, "spent_micros", b.window.GetMicros(), "budget_micros", b.GetLimit())
	}
	l.judged = judged{view.LedgerRevision(), view.Table()}
}

// judged is as of what all warnings that are due have been given.
type judged struct {
	revision uint64 // of the ledger
	table    *routerpb.Table
}

// maxShown bounds the budgets whose state is shown as a metric: those of which the greatest part is spent.
const maxShown = 1000

// shownBudgets show how much of budgets is spent. All nodes do, from their own state.
type shownBudgets struct {
	view func() *state.View
	now  func() time.Time
	desc *prometheus.Desc

	mu        sync.Mutex // guards calendars
	calendars calendars
}

func newShownBudgets(view func() *state.View, now func() time.Time) *shownBudgets {
	return &shownBudgets{view: view, now: now, desc: prometheus.NewDesc("anabranch_budget_spent_ratio",
		"Part of a budget of money that the ledger knows to be spent in the window that is open, 1 being all; of the 1,000 budgets of which it is most.",
		[]string{"organisation", "limit"}, nil)}
}

// Describe implements [prometheus.Collector].
func (s *shownBudgets) Describe(to chan<- *prometheus.Desc) { to <- s.desc }

// Collect implements [prometheus.Collector].
func (s *shownBudgets) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	all := s.calendars.budgets(s.view(), s.now())
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b budget) int {
		return cmp.Or(cmp.Compare(b.ratio(), a.ratio()), cmp.Compare(a.GetOrganisation(), b.GetOrganisation()), cmp.Compare(a.GetId(), b.GetId()))
	})
	for _, b := range all[:min(len(all), maxShown)] {
		to <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, b.ratio(), b.GetOrganisation(), b.GetId())
	}
}
