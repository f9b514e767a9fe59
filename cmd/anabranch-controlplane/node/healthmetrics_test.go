package node

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

func TestHealthMetricsTellEachModel(t *testing.T) {
	view := state.Empty()
	apply := func(cmd *statepb.Command) {
		t.Helper()
		cmd.Format = 6
		next, out, err := state.Apply(view, view.Index()+1, cmd)
		if err != nil || out.GetCode() != "" {
			t.Fatalf("%v %v", out, err)
		}
		view = next
	}
	apply(&statepb.Command{Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c-1", Tokens: []*statepb.Token{{Name: "a", Role: "admin", Sha256: make([]byte, 32)}}}}})
	put := func(kind policy.Kind, name, spec string) {
		doc := []byte(`{"spec":` + spec + `}`)
		apply(&statepb.Command{Op: &statepb.Command_Put{Put: &statepb.Put{Kind: string(kind), Name: name, Doc: doc, AnyRevision: true}}})
	}
	put(policy.KindRegion, "us", "{}")
	put(policy.KindModel, "m0", "{}")
	put(policy.KindModel, "m1", "{}")
	put(policy.KindCluster, "a", `{"region":"us","models":["m0","m1"],"endpoints":[{"id":"p","url":"http://p","class":"x"}]}`)
	put(policy.KindCluster, "b", `{"region":"us","models":["m0"],"endpoints":[{"id":"p","url":"http://q","class":"x"}]}`)
	apply(&statepb.Command{Op: &statepb.Command_Publish{Publish: &statepb.Publish{
		Table:  &routerpb.Table{Regions: []*routerpb.Region{{Id: "us"}}, Clusters: []*routerpb.Cluster{{Id: "a", HealthCap: 1, ModelHealth: []*routerpb.ModelHealth{{Model: "m1", HealthCap: 0.25}}}}},
		Health: []*statepb.ClusterHealth{{Cluster: "a", State: "HEALTHY"}, {Cluster: "a", Model: "m1", State: "RAMPING"}},
	}}})
	const want = `
# HELP anabranch_controlplane_health_cap Share 0 to 1 of its weight that the health of a model on a cluster allows, by the table in force; without a model, of the cluster as a whole.
# TYPE anabranch_controlplane_health_cap gauge
anabranch_controlplane_health_cap{cluster="a",model=""} 1
anabranch_controlplane_health_cap{cluster="a",model="m0"} 1
anabranch_controlplane_health_cap{cluster="a",model="m1"} 0.25
`
	m := healthMetrics{func() *state.View { return view }, 3}
	if err := testutil.CollectAndCompare(m, strings.NewReader(want), "anabranch_controlplane_health_cap"); err != nil {
		t.Error(err)
	}
	if got := testutil.CollectAndCount(m, "anabranch_controlplane_health_state"); got != 5 { // a, its two, b, its one
		t.Errorf("%d series of states", got)
	}
	m.most = 2
	if got := testutil.CollectAndCount(m, "anabranch_controlplane_health_state"); got != 2 {
		t.Errorf("%d series of states where there are more models than are told apart, want one for each cluster", got)
	}
}
