package leader

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/controlplane/account"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// books is a state whose account is shown.
type books struct {
	t        *testing.T
	view     *state.View
	at       time.Time // the next minute to be closed
	sequence uint64
	registry *prometheus.Registry
}

func newBooks(t *testing.T) *books {
	t.Helper()
	b := &books{t: t, view: state.Empty(), at: time.Unix(1_800_000_000, 0).Truncate(time.Minute), registry: prometheus.NewRegistry()}
	b.apply(&statepb.Command{Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c-1"}}})
	b.apply(&statepb.Command{Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: state.Format}}})
	if err := b.registry.Register(newShownCosts(func() *state.View { return b.view })); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *books) apply(cmd *statepb.Command) {
	b.t.Helper()
	cmd.Format, cmd.AtUnixMs, cmd.Actor = state.FormatOf(cmd), b.at.UnixMilli(), &statepb.Actor{Name: "test", Role: "admin"}
	next, out, err := state.Apply(b.view, b.view.Index()+1, cmd)
	if err != nil || out.GetCode() != "" {
		b.t.Fatalf("%v %v", out, err)
	}
	b.view = next
}

// minutes closes so many, each of which costs a dollar for a cluster in us of which a fourth is used, and nothing
// is known of one in eu.
func (b *books) minutes(n int) {
	b.t.Helper()
	for range n {
		b.apply(&statepb.Command{Op: &statepb.Command_CloseMinutes{CloseMinutes: &statepb.CloseMinutes{Minutes: []*statepb.MinuteBills{{
			MinuteUnixS: b.at.Unix(), Bills: []*statepb.ClusterBill{
				{Cluster: "us-a", Region: "us", CostMicros: 1_000_000, Capacity: 4000}, {Cluster: "eu-a", Region: "eu", Capacity: 4000, Unpriced: true},
			},
		}}}}})
		b.sequence++
		b.apply(&statepb.Command{Op: &statepb.Command_CountUsage{CountUsage: &statepb.CountUsage{
			Runs: []*statepb.UsageRun{{Run: "r/1", Sequence: b.sequence}},
			Minutes: []*statepb.CountedMinute{{MinuteUnixS: b.at.Unix(), Lines: []*statepb.CountedLine{
				{Tenant: "acme", Model: "m", Class: "c", Cluster: "us-a", Region: "us", Source: "eu", Input: 900, Output: 100, Work: 1000, Bytes: 1000, EgressMicros: 50_000, Succeeded: 1},
			}}},
		}}})
		b.at = b.at.Add(time.Minute)
	}
}

func (b *books) shows(want string, names ...string) {
	b.t.Helper()
	var bare []string // without help
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "" {
			bare = append(bare, line)
		}
	}
	families, err := b.registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	var text []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			for _, name := range names {
				if f.GetName() == name {
					text = append(text, strings.TrimSpace(strings.Join(labels, " ")+" "+number(m.GetCounter().GetValue()+m.GetGauge().GetValue())))
				}
			}
		}
	}
	if got := strings.Join(text, "\n"); got != strings.Join(bare, "\n") {
		b.t.Errorf("%v:\n%s\nwant\n%s", names, got, strings.Join(bare, "\n"))
	}
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func TestCostsAreCountedAsMinutesAreClosed(t *testing.T) {
	b := newBooks(t)
	b.minutes(3)
	zero := `
		eu-a egress eu 0
		eu-a idle eu 0
		eu-a work eu 0
		us-a egress us 0
		us-a idle us 0
		us-a work us 0`
	b.shows(zero, "anabranch_cost_dollars_total") // what was before is not counted
	b.shows(zero, "anabranch_cost_dollars_total")
	b.minutes(4)
	b.shows(`
		eu-a egress eu 0
		eu-a idle eu 0
		eu-a work eu 0
		us-a egress us 0.2
		us-a idle us 3
		us-a work us 1`, "anabranch_cost_dollars_total")
	b.minutes(2 * account.MinutesKept) // nobody looked for so long that some are no minutes any more
	b.shows(`
		eu-a egress eu 0
		eu-a idle eu 0
		eu-a work eu 0
		us-a egress us 6.2
		us-a idle us 93
		us-a work us 31`, "anabranch_cost_dollars_total")
}

func TestAnAccountThatBeginsIsCountedFromItsBeginning(t *testing.T) {
	b := newBooks(t)
	b.shows("0", "anabranch_account_closed_timestamp_seconds")
	b.shows("", "anabranch_cost_dollars_total", "anabranch_cost_unpriced_clusters")
	b.minutes(3)
	b.shows(`
		eu-a egress eu 0
		eu-a idle eu 0
		eu-a work eu 0
		us-a egress us 0.15
		us-a idle us 2.25
		us-a work us 0.75`, "anabranch_cost_dollars_total")
}

func TestWhatCostsAreShownOfTheLastHour(t *testing.T) {
	b := newBooks(t)
	b.minutes(61)
	b.shows("us-a us 300", "anabranch_cost_per_million_tokens_dollars")
	b.shows("1", "anabranch_cost_unpriced_clusters")
	b.shows(number(float64(b.at.Unix())), "anabranch_account_closed_timestamp_seconds")
	if problems, err := testutil.GatherAndLint(b.registry); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	b.at = b.at.Add(2 * time.Hour) // no leader for that long: a gap, and one minute
	b.apply(&statepb.Command{Op: &statepb.Command_CloseMinutes{CloseMinutes: &statepb.CloseMinutes{Minutes: []*statepb.MinuteBills{{MinuteUnixS: b.at.Unix()}}}}})
	b.shows("", "anabranch_cost_per_million_tokens_dollars")
	b.shows("0", "anabranch_cost_unpriced_clusters")
}
