package dataplane

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
)

// seriesOf lists the series that a registry has, each by the name of its metric and its labels.
func seriesOf(t *testing.T, g prometheus.Gatherer) []string {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			text := f.GetName()
			for _, l := range m.GetLabel() {
				text += " " + l.GetName() + "=" + l.GetValue()
			}
			all = append(all, text)
		}
	}
	return all
}

// passing is a table whose names are of the i-th change: a cluster, a model, a tenant and a policy
// with a split and copies.
func passing(w *world, i int) *routerpb.Table {
	pb := w.describe()
	name := func(what string) string { return fmt.Sprintf("%s-%d", what, i) }
	key := sha256.Sum256([]byte("passing-key"))
	pb.Ref.Revision = uint64(i + 10)
	pb.Models = append(pb.Models, &routerpb.Model{Id: name("model"), Aliases: []string{"passing"}, OutputWeight: 6, InputMicrosPerMtok: 1_000_000})
	pb.Tenants = append(pb.Tenants, &routerpb.Tenant{Id: name("tenant"), Tier: "top", Priority: 100, KeySha256: [][]byte{key[:]}})
	pb.Clusters[0].Id, pb.Clusters[0].Models = name("cluster"), []string{name("model")}
	pb.Weights = nil
	pb.Rules = []*routerpb.Rule{{
		Id: name("policy"), Class: "interactive", Shadow: &routerpb.Shadow{Share: 1}, Arms: []*routerpb.Arm{{Id: name("arm"), Weight: 1}},
	}}
	return pb
}

// What operators make and delete for as long as a router runs leaves nothing behind.
func TestSeriesLeaveWithTheirNames(t *testing.T) {
	t.Parallel()
	s := newStub(t, answers)
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{s}}}, nil)
	n := w.routers[us]
	stop := w.run()
	had := 0
	const changes = 1000
	for i := range changes {
		w.table = passing(w, i)
		w.apply()
		body := askWhole
		if i%2 == 0 {
			body = askStream
		}
		if r := w.ask(us, "passing", strings.Replace(body, "llama", "passing", 1)); r.status != http.StatusOK {
			t.Fatalf("change %d: %d %s", i, r.status, r.body)
		}
		if i == 1 {
			w.eventually("the copies are counted", func() bool { return n.shadows.underWay() == 0 && n.Open() == 0 })
			had = len(seriesOf(t, n.registry))
		}
	}
	w.eventually("all have ended", func() bool { return n.shadows.underWay() == 0 && n.Open() == 0 })
	stop() // no more scrapes, and all is settled
	n.series.again()
	all := seriesOf(t, n.registry)
	last := fmt.Sprint("-", changes-1)
	kept := map[string]bool{}
	for _, text := range all {
		for _, what := range []string{"model", "tenant", "cluster", "policy", "arm"} {
			for word := range strings.SplitSeq(text, " ") {
				_, value, _ := strings.Cut(word, "=")
				if !strings.HasPrefix(value, what+"-") {
					continue
				}
				kept[what] = true
				if value != what+last {
					t.Errorf("left behind: %s", text)
				}
			}
		}
	}
	if len(kept) != 5 {
		t.Errorf("of the newest table only %v are counted", kept)
	}
	if len(all) > had+20 {
		t.Errorf("%d series after %d changes, %d after the second", len(all), changes, had)
	}
}

func TestARequestOfATableThatIsGoneIsForgottenLater(t *testing.T) {
	w, _ := one(t)
	n := w.routers[us]
	for _, cluster := range []string{"us-a", "us-z", none, ""} {
		n.metrics.refused.WithLabelValues(cluster).Inc()
	}
	n.metrics.arms.WithLabelValues("p", "a", "ok").Inc()
	n.metrics.firstToken.WithLabelValues("llama", "us-a").Observe(1)
	n.metrics.firstToken.WithLabelValues("best", "us-a").Observe(1) // an alias is no name of a model
	n.series.again()
	var left []string
	for _, text := range seriesOf(t, n.registry) {
		for _, name := range []string{"anabranch_router_retries_refused_total", "anabranch_router_arm_requests_total", "gen_ai_server_time_to_first_token_seconds"} {
			if labels, ok := strings.CutPrefix(text, name+" "); ok {
				left = append(left, labels)
			}
		}
	}
	slices.Sort(left)
	if got := strings.Join(left, "|"); got != "cluster=|cluster=none|cluster=us-a|cluster=us-a gen_ai_request_model=llama" {
		t.Errorf("left: %s", got)
	}
}

func TestATableThatHasLostANameIsNoticed(t *testing.T) {
	build := func(clusters, models, tenants, arms []string) *table.Table {
		t.Helper()
		pb := &routerpb.Table{Ref: &routerpb.TableRef{ClusterId: "c", Epoch: 1, Revision: 1}, Regions: []*routerpb.Region{{Id: us}}, Classes: (&world{}).describe().GetClasses()}
		for _, id := range clusters {
			pb.Clusters = append(pb.Clusters, &routerpb.Cluster{
				Id: id, Region: us, Kind: "endpoints", Models: models, HealthCap: 1, Endpoints: []*routerpb.Endpoint{{Id: "e", Url: "http://127.0.0.1:1"}},
			})
		}
		for _, id := range models {
			pb.Models = append(pb.Models, &routerpb.Model{Id: id, OutputWeight: 1})
		}
		for _, id := range tenants {
			pb.Tenants = append(pb.Tenants, &routerpb.Tenant{Id: id, Tier: "top"})
		}
		if len(arms) > 0 {
			rule := &routerpb.Rule{Id: "p", Class: "interactive"}
			for _, id := range arms {
				rule.Arms = append(rule.Arms, &routerpb.Arm{Id: id, Weight: 1})
			}
			pb.Rules = []*routerpb.Rule{rule}
		}
		built, err := table.Build(pb)
		if err != nil {
			t.Fatal(err)
		}
		return built
	}
	two := []string{"a", "b"}
	full := build(two, two, two, two)
	for name, c := range map[string]struct {
		t    *table.Table
		want bool
	}{
		"nothing":  {build(two, two, two, two), false},
		"more":     {build([]string{"a", "b", "c"}, two, []string{"a", "b", "c"}, two), false},
		"cluster":  {build([]string{"a"}, two, two, two), true},
		"model":    {build(two, []string{"a"}, two, two), true},
		"tenant":   {build(two, two, []string{"b"}, two), true},
		"an arm":   {build(two, two, two, []string{"b"}), true},
		"a policy": {build(two, two, two, nil), true},
	} {
		if got := lost(full, c.t); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
