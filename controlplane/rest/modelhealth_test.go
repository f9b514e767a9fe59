package rest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state/statepb"
)

// A cluster of three models, of which one is evacuated and one may be down: each answer tells them apart.
func TestHealthIsShownByModel(t *testing.T) {
	d := newDouble(t)
	d.seed(
		"Region us {}", "Model m {}", "Model n {}", "Model o {}",
		"Cluster a {region: us, models: [m, n, o], endpoints: [{id: p, url: 'http://p', class: x}]}",
		"Cluster b {region: us, models: [m], endpoints: [{id: p, url: 'http://q', class: x}]}",
	)
	out := d.apply(&statepb.Command{Format: 6, AtUnixMs: epoch.UnixMilli(), Op: &statepb.Command_Publish{Publish: &statepb.Publish{
		Table: &routerpb.Table{Regions: []*routerpb.Region{{Id: "us"}}, Clusters: []*routerpb.Cluster{{Id: "a", Region: "us", HealthCap: 1, ModelHealth: []*routerpb.ModelHealth{{Model: "n", Health: "EVACUATED"}}}}},
		Health: []*statepb.ClusterHealth{
			{Cluster: "a", State: "HEALTHY"},
			{Cluster: "a", Model: "n", State: "EVACUATED", SinceUnixMs: epoch.UnixMilli(), Reason: "2 of 2 routers of its region: it does not have the model"},
			{Cluster: "a", Model: "o", State: "SUSPECT", Reason: "one router ejects it"},
			{Cluster: "b", State: "HEALTHY"},
		},
	}}})
	if out.GetCode() != "" {
		t.Fatal(out)
	}
	for i := range 25 {
		d.signals.Put(signal.Observation{
			Node: "n3", Connected: true, Received: epoch,
			Hello: &routerpb.Hello{RouterId: fmt.Sprintf("r-%02d", i), Region: "us"},
			Report: &routerpb.Report{AtUnixMs: epoch.UnixMilli(), WindowMs: 1000, Clusters: []*routerpb.ClusterSignal{
				{Cluster: "a", Model: "m", Scraped: true, EndpointsTotal: 1, EndpointsReady: 1},
				{Cluster: "a", Model: "n", Scraped: true, EndpointsTotal: 1, Ejected: true, EjectReason: "it does not have the model"},
				{Cluster: "a", Model: "o", Scraped: true, EndpointsTotal: 1, EndpointsReady: 1, Ejected: i == 0},
			}},
		})
	}

	var cluster struct{ Status ClusterStatus }
	d.do("viewer", "GET", "/v1/clusters/a", "").want(200, "").into(&cluster)
	st := cluster.Status
	if st.Health != "HEALTHY" || st.Worst != "EVACUATED" || len(st.Models) != 3 {
		t.Fatalf("%s, at worst %s, of %d models", st.Health, st.Worst, len(st.Models))
	}
	n := st.Models[1]
	if n.Model != "n" || n.Health != "EVACUATED" || n.Cap != 0 || !n.Since.Equal(epoch) || n.Reason == "" || n.Endpoints != (Endpoints{1, 0}) {
		t.Errorf("n: %+v", n)
	}
	if n.Votes != (Votes{0, 25}) || len(n.Ejecting) != mostEjecting || n.Ejecting[0].Reason == "" {
		t.Errorf("n: votes %+v, %d named", n.Votes, len(n.Ejecting))
	}
	if m := st.Models[0]; m.Health != "HEALTHY" || m.Cap != 1 || m.Votes != (Votes{25, 0}) || len(m.Ejecting) != 0 {
		t.Errorf("m: %+v", m)
	}
	if o := st.Models[2]; o.Health != "SUSPECT" || o.Votes != (Votes{24, 1}) {
		t.Errorf("o: %+v", o)
	}

	var region struct{ Status RegionStatus }
	d.do("viewer", "GET", "/v1/regions/us", "").want(200, "").into(&region)
	if region.Status.Health != "EVACUATED" || len(region.Status.Clusters) != 2 {
		t.Fatalf("the region: %+v", region.Status)
	}
	a, b := region.Status.Clusters[0], region.Status.Clusters[1]
	if a.Health != "HEALTHY" || a.Worst != "EVACUATED" || !slices.Equal(a.Models, []ModelState{{"n", "EVACUATED"}, {"o", "SUSPECT"}}) || b.Worst != "HEALTHY" || len(b.Models) != 0 {
		t.Errorf("the region's clusters: %+v", region.Status.Clusters)
	}

	var status Status
	d.do("viewer", "GET", "/v1/status", "").want(200, "").into(&status)
	if u := status.Unwell; len(u) != 2 || u[0].Cluster != "a" || u[0].Model != "n" || u[0].Health != "EVACUATED" || !u[0].Since.Equal(epoch) || u[1].Model != "o" || !u[1].Since.Equal(time.Time{}) {
		t.Errorf("unwell: %+v", u)
	}
}

// A thousand clusters are down: the status names a hundred of them.
func TestTheStatusNamesABoundedNumberOfWhatIsUnwell(t *testing.T) {
	d := newDouble(t)
	var all []*statepb.ClusterHealth
	for i := range 1000 {
		all = append(all, &statepb.ClusterHealth{Cluster: fmt.Sprintf("c%04d", i), State: []string{"SUSPECT", "EVACUATED"}[i%2]})
	}
	d.apply(&statepb.Command{Format: 1, Op: &statepb.Command_Publish{Publish: &statepb.Publish{Health: all}}})
	var status Status
	d.do("viewer", "GET", "/v1/status", "").want(200, "").into(&status)
	if len(status.Unwell) != mostUnwell || status.Unwell[99].Health != "EVACUATED" {
		t.Errorf("%d named, the last %+v", len(status.Unwell), status.Unwell[len(status.Unwell)-1])
	}
}
