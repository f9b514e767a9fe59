package state

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// history applies commands one after another, and checks that no command touches an older view.
type history struct {
	t *testing.T
	*View
}

func start(t *testing.T) *history {
	h := &history{t: t, View: Empty()}
	if out := h.do(initCommand()); out.GetCode() != "" {
		t.Fatalf("init: %v", out)
	}
	return h
}

func initCommand() *statepb.Command {
	return command(&statepb.Command_Init{Init: &statepb.Init{
		ClusterId: "c-1", Tokens: []*statepb.Token{{Name: "ann", Role: "admin", Sha256: make([]byte, 32)}},
	}})
}

func (h *history) do(cmd *statepb.Command) *statepb.Outcome {
	h.t.Helper()
	before := Hash(h.View)
	index := h.Index() + 1
	next, out, err := Apply(h.View, index, cmd)
	if err != nil {
		h.t.Fatal(err)
	}
	if Hash(h.View) != before {
		h.t.Fatalf("command %v changed the view before it", cmd)
	}
	if next.Index() != index || out.GetRevision() != index {
		h.t.Fatalf("index %d, revision %d, want %d", next.Index(), out.GetRevision(), index)
	}
	h.View = next
	return out
}

// command wraps an operation, by ann at second 1.
func command(op any) *statepb.Command {
	c := &statepb.Command{Format: 1, AtUnixMs: 1000, Actor: &statepb.Actor{Name: "ann", Role: "admin", Reason: "because", RequestId: "r-1"}}
	switch op := op.(type) {
	case *statepb.Command_Init:
		c.Op = op
	case *statepb.Command_SetFeatureLevel:
		c.Op = op
	case *statepb.Command_Checkpoint:
		c.Op = op
	case *statepb.Put:
		c.Op = &statepb.Command_Put{Put: op}
	case *statepb.Delete:
		c.Op = &statepb.Command_Delete{Delete: op}
	case *statepb.Publish:
		c.Op = &statepb.Command_Publish{Publish: op}
	case *statepb.PutNode:
		c.Op = &statepb.Command_PutNode{PutNode: op}
	case *statepb.BumpEpoch:
		c.Op = &statepb.Command_BumpEpoch{BumpEpoch: op}
	case *statepb.Denied:
		c.Op = &statepb.Command_Denied{Denied: op}
	case *statepb.PutToken:
		c.Op = &statepb.Command_PutToken{PutToken: op}
	case *statepb.RevokeToken:
		c.Op = &statepb.Command_RevokeToken{RevokeToken: op}
	case *statepb.Note:
		c.Op = &statepb.Command_Note{Note: op}
	case *statepb.ArchiveAudit:
		c.Op = &statepb.Command_ArchiveAudit{ArchiveAudit: op}
	case *statepb.StartRollout:
		c.Op = &statepb.Command_StartRollout{StartRollout: op}
	case *statepb.SteerChange:
		c.Op = &statepb.Command_SteerChange{SteerChange: op}
	case *statepb.CreateDrill:
		c.Op = &statepb.Command_CreateDrill{CreateDrill: op}
	case *statepb.DecideDrill:
		c.Op = &statepb.Command_DecideDrill{DecideDrill: op}
	case *statepb.SteerDrill:
		c.Op = &statepb.Command_SteerDrill{SteerDrill: op}
	case *statepb.RenewDrill:
		c.Op = &statepb.Command_RenewDrill{RenewDrill: op}
	case *statepb.Noop:
		c.Op = &statepb.Command_Noop{Noop: op}
	default:
		panic(fmt.Sprintf("unknown operation %T", op))
	}
	return c
}

func region(name, spec string, ifRevision uint64) *statepb.Command {
	return command(&statepb.Put{Kind: "Region", Name: name, Doc: []byte(`{"spec":` + spec + `}`), IfRevision: ifRevision})
}

func TestPreconditionsAreJudgedInside(t *testing.T) {
	h := start(t) // index 1
	steps := []struct {
		name string
		cmd  *statepb.Command
		code string
	}{
		{"2 create", region("us", `{"zone":"a"}`, 0), ""},
		{"3 create again", region("us", `{"zone":"b"}`, 0), CodeExists},
		{"4 change with an old revision", region("us", `{"zone":"b"}`, 1), CodePrecondition},
		{"5 change with the index of a refused command", region("us", `{"zone":"b"}`, 3), CodePrecondition},
		{"6 change", region("us", `{"zone":"b"}`, 2), ""},
		{"7 change what is not there", region("eu", `{}`, 2), CodeNotFound},
		{"8 delete with an old revision", command(&statepb.Delete{Kind: "Region", Name: "us", IfRevision: 2}), CodePrecondition},
		{"9 seed without precondition", command(&statepb.Put{Kind: "Region", Name: "us", Doc: []byte(`{"spec":{"zone":"c"}}`), AnyRevision: true}), ""},
		{"10 the same again", command(&statepb.Put{Kind: "Region", Name: "us", Doc: []byte(`{"spec":{"zone":"c"}}`), AnyRevision: true}), ""},
		{"11 unreadable", region("us", `{"zone":5}`, 9), CodeInvalid},
		{"12 delete", command(&statepb.Delete{Kind: "Region", Name: "us", IfRevision: 9}), ""},
		{"13 delete again", command(&statepb.Delete{Kind: "Region", Name: "us"}), CodeNotFound},
	}
	for _, s := range steps {
		revision, resources := h.Revision(policy.KindRegion), len(h.List(policy.KindRegion))
		out := h.do(s.cmd)
		if out.GetCode() != s.code {
			t.Fatalf("%s: code %q (%s), want %q", s.name, out.GetCode(), out.GetMessage(), s.code)
		}
		if s.code != "" && (h.Revision(policy.KindRegion) != revision || len(h.List(policy.KindRegion)) != resources || out.GetMessage() == "") {
			t.Errorf("%s: a refused command changed something, or says nothing", s.name)
		}
	}
	if h.Index() != 13 || h.Revision(policy.KindRegion) != 12 || h.ResourcesRevision() != 12 {
		t.Errorf("index %d, revision %d, resources %d", h.Index(), h.Revision(policy.KindRegion), h.ResourcesRevision())
	}
	var trail []string
	for _, e := range h.Audit(0, 0) {
		trail = append(trail, fmt.Sprintf("%d %s %s", e.GetIndex(), e.GetAction(), e.GetName()))
	}
	if got, want := strings.Join(trail, ", "), "1 init c-1, 2 create us, 6 update us, 9 update us, 12 delete us"; got != want {
		t.Errorf("audit: %s, want %s", got, want)
	}
}

func TestMetadataOfAResource(t *testing.T) {
	h := start(t)
	h.do(region("us", `{}`, 0))
	later := region("us", `{"zone":"b"}`, 2)
	later.AtUnixMs = 5000
	h.do(later)
	r, ok := h.Get(policy.KindRegion, "us")
	if !ok || r.Metadata.Revision != 3 || r.Metadata.CreatedAt.UnixMilli() != 1000 || r.Metadata.UpdatedAt.UnixMilli() != 5000 {
		t.Errorf("got %+v", r.Metadata)
	}
	if zone := r.Spec.(*policy.RegionSpec).Zone; zone != "b" {
		t.Errorf("zone %q", zone)
	}
	if _, ok := h.Get(policy.KindRegion, "eu"); ok {
		t.Error("found what is not there")
	}
}

func TestReferencesAreJudgedInside(t *testing.T) {
	h := start(t)
	model := command(&statepb.Put{Kind: "Model", Name: "m", Doc: []byte(`{"spec":{}}`)})
	cluster := command(&statepb.Put{Kind: "Cluster", Name: "c", Doc: []byte(`{"spec":{"region":"us","models":["m"],"endpoints":[{"id":"a","url":"http://a","class":"x"}]}}`)})
	if out := h.do(cluster); out.GetCode() != CodeInvalid || out.GetField() != "spec.region" {
		t.Fatalf("cluster in no region: %v", out)
	}
	h.do(region("us", `{}`, 0))
	h.do(model)
	if out := h.do(cluster); out.GetCode() != "" {
		t.Fatalf("cluster: %v", out)
	}
	if out := h.do(command(&statepb.Delete{Kind: "Region", Name: "us"})); out.GetCode() != CodeInUse || !strings.Contains(out.GetMessage(), `Cluster "c"`) {
		t.Errorf("deleting a region in use: %v", out)
	}
}

func TestListsAreSortedByName(t *testing.T) {
	h := start(t)
	for _, name := range []string{"m", "b", "z", "a"} {
		h.do(region(name, `{}`, 0))
	}
	var names []string
	for _, r := range h.List(policy.KindRegion) {
		names = append(names, r.Metadata.Name)
	}
	if got := strings.Join(names, ""); got != "abmz" {
		t.Errorf("got %s", got)
	}
}

func TestBeforeInitNothingElseWorks(t *testing.T) {
	h := &history{t: t, View: Empty()}
	for _, op := range []any{&statepb.Put{Kind: "Region", Name: "us"}, &statepb.Publish{}, &statepb.PutNode{Id: "n"}, &statepb.BumpEpoch{}, &statepb.Denied{}} {
		if out := h.do(command(op)); out.GetCode() != CodeNotInitialised {
			t.Errorf("%T: %v", op, out)
		}
	}
	if out := h.do(command(&statepb.Noop{})); out.GetCode() != "" {
		t.Errorf("noop: %v", out)
	}
	if len(h.Audit(0, 0)) != 0 || h.Epoch() != 0 {
		t.Error("something was written")
	}
}

func TestASecondInitChangesNothing(t *testing.T) {
	h := start(t)
	other := initCommand()
	other.GetInit().ClusterId = "c-2"
	if out := h.do(other); out.GetCode() != CodeExists {
		t.Errorf("got %v", out)
	}
	if h.ClusterID() != "c-1" || h.Epoch() != 1 || len(h.Tokens()) != 1 || len(h.Audit(0, 0)) != 1 {
		t.Errorf("changed: %s %d %v", h.ClusterID(), h.Epoch(), h.Tokens())
	}
}

func TestInitIsChecked(t *testing.T) {
	token := func(name, role string, size int) *statepb.Token {
		return &statepb.Token{Name: name, Role: role, Sha256: make([]byte, size)}
	}
	tests := []struct {
		name string
		in   *statepb.Init
		want string
	}{
		{"no id", &statepb.Init{}, "cluster_id"},
		{"unknown role", &statepb.Init{ClusterId: "c", Tokens: []*statepb.Token{token("a", "root", 32)}}, "tokens[0].role"},
		{"no name", &statepb.Init{ClusterId: "c", Tokens: []*statepb.Token{token("", "admin", 32)}}, "tokens[0].name"},
		{"a name twice", &statepb.Init{ClusterId: "c", Tokens: []*statepb.Token{token("a", "admin", 32), token("a", "viewer", 32)}}, "tokens[1].name"},
		{"token in clear", &statepb.Init{ClusterId: "c", Tokens: []*statepb.Token{token("a", "admin", 9)}}, "tokens[0].sha256"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := &history{t: t, View: Empty()}
			if out := h.do(command(&statepb.Command_Init{Init: tt.in})); out.GetCode() != CodeInvalid || out.GetField() != tt.want {
				t.Errorf("got %v", out)
			}
		})
	}
}

func TestUnknownCommands(t *testing.T) {
	future := command(&statepb.Noop{})
	future.Format = Format + 1
	tests := []struct {
		name string
		cmd  *statepb.Command
	}{
		{"no operation that this build knows", &statepb.Command{Format: 1}},
		{"a newer format", future},
		{"put of a newer kind", command(&statepb.Put{Kind: "Planet", Name: "d"})},
		{"delete of a newer kind", command(&statepb.Delete{Kind: "Planet", Name: "d"})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := start(t).View
			next, out, err := Apply(v, 2, tt.cmd)
			if !errors.Is(err, ErrUnknown) || next != nil || out != nil {
				t.Errorf("not ignorable: %v, %v", out, err)
			}
			tt.cmd.Ignorable = true
			next, out, err = Apply(v, 2, tt.cmd)
			if err != nil || out.GetCode() != CodeSkipped || next.Index() != 2 || len(next.Audit(0, 0)) != 1 {
				t.Errorf("ignorable: %v, %v", out, err)
			}
		})
	}
}

func TestAnIndexIsAppliedOnce(t *testing.T) {
	v := start(t).View
	if _, _, err := Apply(v, 1, command(&statepb.Noop{})); err == nil || errors.Is(err, ErrUnknown) {
		t.Errorf("got %v", err)
	}
	if next, _, err := Apply(v, 9, command(&statepb.Noop{})); err != nil || next.Index() != 9 {
		t.Errorf("a gap (entries of the log that are not commands): %v", err)
	}
}

func TestNodes(t *testing.T) {
	h := start(t)
	h.do(command(&statepb.PutNode{Id: "n2", HttpAddress: "a:1"}))
	h.do(command(&statepb.PutNode{Id: "n1", HttpAddress: "b:1"}))
	h.do(command(&statepb.PutNode{Id: "n2", HttpAddress: "a:2"}))
	entries := len(h.Audit(0, 0))
	h.do(command(&statepb.PutNode{Id: "n2", HttpAddress: "a:2"}))
	if len(h.Audit(0, 0)) != entries {
		t.Error("an unchanged node is audited")
	}
	if n, ok := h.Node("n2"); !ok || n.GetHttpAddress() != "a:2" || len(h.Nodes()) != 2 || h.Nodes()[0].GetId() != "n1" {
		t.Errorf("got %v", h.Nodes())
	}
	if out := h.do(command(&statepb.PutNode{})); out.GetCode() != CodeInvalid {
		t.Errorf("no id: %v", out)
	}
	for i := range MaxNodes {
		h.do(command(&statepb.PutNode{Id: fmt.Sprintf("x%d", i)}))
	}
	if len(h.Nodes()) != MaxNodes {
		t.Errorf("%d nodes", len(h.Nodes()))
	}
}

func TestEpochOnlyRises(t *testing.T) {
	h := start(t)
	for _, step := range []struct{ atLeast, want uint64 }{{0, 2}, {7, 7}, {7, 7}, {3, 7}, {0, 8}} {
		h.do(command(&statepb.BumpEpoch{AtLeast: step.atLeast}))
		if h.Epoch() != step.want {
			t.Fatalf("at least %d: epoch %d, want %d", step.atLeast, h.Epoch(), step.want)
		}
	}
	h.do(command(&statepb.Publish{Table: table(0.5)}))
	if ref := h.Table().GetRef(); ref.GetEpoch() != 8 || ref.GetClusterId() != "c-1" || ref.GetRevision() != h.Index() {
		t.Errorf("table stamped %v", ref)
	}
}

// table gives us a share of the traffic, eu the rest.
func table(us float64) *routerpb.Table {
	return &routerpb.Table{
		CreatedUnixMs: 77,
		Regions:       []*routerpb.Region{{Id: "us", RttMs: map[string]float64{"eu": 70, "ap": 150}}},
		Clusters:      []*routerpb.Cluster{{Id: "a", Region: "us"}},
		Weights: []*routerpb.Weights{{Model: "m", Clusters: []*routerpb.ClusterWeight{
			{Cluster: "a", Weight: us}, {Cluster: "b", Weight: 1 - us},
		}}},
	}
}
