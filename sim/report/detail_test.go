package report

import (
	"bytes"
	"strings"
	"testing"

	"anabranch/sim/report/stat"
)

// texts of a grid's rows.
func texts(g grid) []string {
	var out []string
	for _, row := range g.Rows {
		var fields []string
		for _, c := range row {
			fields = append(fields, c.Text)
		}
		out = append(out, strings.Join(fields, " | "))
	}
	return out
}

func TestClustersAreTold(t *testing.T) {
	run := func(policy string, seed uint64, a, b stat.Number) Figures {
		return Figures{Policy: policy, Seed: seed, Clusters: []Cluster{{Name: "us", Share: a}, {Name: "eu", Share: b}}}
	}
	r := New("", []Figures{run("rr", 1, 0.5, 0.5), run("rr", 2, 0.5, 0.5), run("ours", 1, 0.8, 0.2), run("ours", 2, 0.6, 0.4)})
	g := r.clusters()
	if got := strings.Join(g.Head, " "); got != "cluster rr ours" {
		t.Errorf("head %q", got)
	}
	// 0.8 and 0.6: the deviation is 0.1·√2, its error 0.1, and t of one degree of freedom 12.706.
	want := []string{"us | 50.0 ±0 | 70.0 ±127.1", "eu | 50.0 ±0 | 30.0 ±127.1"}
	if got := texts(g); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q, want %q", got, want)
	}
	// One that only some runs know is told of those.
	r.Runs[0].Clusters = append(r.Runs[0].Clusters, Cluster{Name: "ap", Share: 0.25})
	if got := texts(r.clusters()); len(got) != 3 || got[2] != "ap | 25.0 | –" {
		t.Errorf("%q", got)
	}
}

func TestOneClusterNeedsNoTable(t *testing.T) {
	r := New("", []Figures{{Policy: "rr", Clusters: []Cluster{{Name: "us", Share: 1}}}})
	if g := r.clusters(); len(g.Rows) != 0 {
		t.Errorf("%q", texts(g))
	}
}

func TestTenantsAreToldByTheirQuota(t *testing.T) {
	run := func(policy string, admitted, exact int64) Figures {
		return Figures{Policy: policy, Tenants: []Tenant{{Name: "acme", PerMinute: 600, Admitted: admitted, Exact: exact}}}
	}
	r := New("", []Figures{run("rr", 150, 100), run("ours", 98, 100), run("idle", 0, 0)})
	want := "acme | 150.0 | 98.0 | –"
	if got := texts(r.tenants()); len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
	if g := golden().tenants(); len(g.Rows) != 0 {
		t.Error("a table of quotas that there are not")
	}
}

// Whoever chooses columns gets these and no other tables.
func TestDetailsAreLeftOutWhereColumnsAreChosen(t *testing.T) {
	var all, chosen bytes.Buffer
	if err := golden().Text(&all, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := golden().Text(&chosen, Options{Columns: []string{"ttftMs.p50"}}); err != nil {
		t.Fatal(err)
	}
	const title = "Share of requests by cluster"
	if !strings.Contains(all.String(), title) || strings.Contains(chosen.String(), title) {
		t.Errorf("all: %v, chosen: %v", strings.Contains(all.String(), title), strings.Contains(chosen.String(), title))
	}
}
