package state

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
	"anabranch/controlplane/state/statepb"
)

func TestPublishStampsAndLeavesTheCommandAlone(t *testing.T) {
	h := start(t)
	cmd := command(&statepb.Publish{Table: table(0.5), Reasons: []*statepb.WeightReason{{Model: "m", Text: "even"}}})
	before := proto.CloneOf(cmd)
	h.do(cmd)
	if !proto.Equal(cmd, before) {
		t.Error("the command was changed")
	}
	if !proto.Equal(h.Table().GetRef(), &routerpb.TableRef{ClusterId: "c-1", Epoch: 1, Revision: 2}) || h.Table().GetCreatedUnixMs() != 77 {
		t.Errorf("got %v", h.Table())
	}
	if len(h.Reasons()) != 1 || h.Reasons()[0].GetText() != "even" {
		t.Errorf("reasons %v", h.Reasons())
	}
}

func TestWhatIsUnchangedIsNeitherKeptNorAudited(t *testing.T) {
	h := start(t)
	publish := func(us float64, state string) {
		next := table(us)
		next.CreatedUnixMs = int64(h.Index()) // a new time alone is no change
		out := h.do(command(&statepb.Publish{Table: next, Health: []*statepb.ClusterHealth{{Cluster: "a", State: state, Reason: "r"}}}))
		if out.GetCode() != "" {
			t.Fatal(out)
		}
	}
	publish(0.5, "HEALTHY")
	entries, revision := len(h.Audit(0, 0)), h.Table().GetRef().GetRevision()
	for range 10 {
		publish(0.5, "HEALTHY")
	}
	if len(h.Audit(0, 0)) != entries || len(h.Tables()) != 1 || h.Table().GetRef().GetRevision() != revision {
		t.Fatalf("%d entries and %d tables after repeating one", len(h.Audit(0, 0)), len(h.Tables()))
	}
	publish(0.5, "SUSPECT")
	publish(0.4, "SUSPECT")
	var got []string
	for _, e := range h.Audit(0, 0)[entries:] {
		got = append(got, fmt.Sprintf("%s %s %s %s", e.GetAction(), e.GetKind(), e.GetName(), e.GetReason()))
	}
	want := "update ClusterHealth a because; HEALTHY → SUSPECT: r\npublish Table 14 because"
	if strings.Join(got, "\n") != want {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), want)
	}
	h.do(command(&statepb.BumpEpoch{}))
	publish(0.4, "SUSPECT")
	if h.Table().GetRef().GetEpoch() != 2 || len(h.Tables()) != 3 {
		t.Error("the same table in a new epoch is not published anew")
	}
}

func TestAPublisherThatIsLateIsRefused(t *testing.T) {
	h := start(t)
	h.do(command(&statepb.Publish{Table: table(0.5)}))
	first := h.Table().GetRef()
	h.do(command(&statepb.Publish{Table: table(0.6)}))
	late := table(0.7)
	late.Ref = first
	out := h.do(command(&statepb.Publish{Table: late, Health: []*statepb.ClusterHealth{{Cluster: "a", State: "X"}}}))
	if out.GetCode() != CodePrecondition || out.GetField() != "table.ref" {
		t.Errorf("got %v", out)
	}
	if h.Table().GetWeights()[0].GetClusters()[0].GetWeight() != 0.6 || len(h.Health()) != 0 {
		t.Error("a refused publish left something behind")
	}
	late.Ref = h.Table().GetRef()
	if out := h.do(command(&statepb.Publish{Table: late})); out.GetCode() != "" {
		t.Errorf("from the current table: %v", out)
	}
}

func TestAnEmptyTableIsRefused(t *testing.T) {
	h := start(t)
	for _, empty := range []*routerpb.Table{{}, {Regions: table(1).GetRegions()}, {Clusters: table(1).GetClusters()}} {
		if out := h.do(command(&statepb.Publish{Table: empty})); out.GetCode() != CodeInvalid {
			t.Errorf("got %v", out)
		}
	}
	if h.Table() != nil || len(h.Tables()) != 0 {
		t.Error("published")
	}
}

func TestFiftyTablesBeforeTheCurrentAreKept(t *testing.T) {
	h := start(t)
	for i := range 60 {
		h.do(command(&statepb.Publish{Table: table(float64(i) / 100)}))
	}
	tables := h.Tables()
	if len(tables) != MaxTables || tables[0].GetRef().GetRevision() != 11 || tables[50] != h.Table() || h.Table().GetRef().GetRevision() != 61 {
		t.Errorf("%d tables from %v to %v", len(tables), tables[0].GetRef(), h.Table().GetRef())
	}
}

func TestHealthIsReplacedWholeAndSorted(t *testing.T) {
	h := start(t)
	set := func(pairs ...string) {
		var health []*statepb.ClusterHealth
		for i := 0; i < len(pairs); i += 2 {
			health = append(health, &statepb.ClusterHealth{Cluster: pairs[i], State: pairs[i+1]})
		}
		h.do(command(&statepb.Publish{Health: health}))
	}
	set("b", "HEALTHY", "a", "SUSPECT", "a", "HEALTHY")
	if len(h.Health()) != 2 || h.Health()[0].GetCluster() != "a" {
		t.Errorf("got %v", h.Health())
	}
	set("c", "DRAINED")
	if got, ok := h.HealthOf("c", ""); !ok || got.GetState() != "DRAINED" {
		t.Errorf("c is %v", got)
	}
	if _, ok := h.HealthOf("a", ""); ok || len(h.Audit(0, 0)) != 1 {
		t.Error("a is still there, or a first state was audited")
	}
}

func TestHealthIsKeptByModel(t *testing.T) {
	h := start(t)
	h.do(raise(6))
	h.must(&statepb.Publish{Health: []*statepb.ClusterHealth{{Cluster: "b", State: "HEALTHY"}, {Cluster: "a", Model: "n", State: "HEALTHY"}, {Cluster: "a", Model: "m", State: "HEALTHY"}}})
	before := h.Index()
	h.must(&statepb.Publish{Health: []*statepb.ClusterHealth{{Cluster: "a", Model: "m", State: "HEALTHY"}, {Cluster: "a", Model: "n", State: "SUSPECT", Reason: "slow"}, {Cluster: "b", State: "HEALTHY"}}})
	told := ""
	for _, one := range h.Health() {
		told += one.GetCluster() + "/" + one.GetModel() + " " + one.GetState() + ", "
	}
	if told != "a/m HEALTHY, a/n SUSPECT, b/ HEALTHY, " {
		t.Errorf("kept %s", told)
	}
	if trail := h.Audit(before, 0); len(trail) != 1 || trail[0].GetName() != "a/n" || trail[0].GetReason() != "because; HEALTHY → SUSPECT: slow" {
		t.Errorf("audited as %v", trail)
	}
}
