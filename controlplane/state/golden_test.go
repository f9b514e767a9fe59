package state

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protodelim"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// The files testdata/formatN.* were written by the first build of format N and are never written
// again: a log of commands, each after its length, at the indexes 1, 3, 5 and so on; what became of
// them; and the snapshot at the end. Whatever changes later, this is what a cluster of that format
// holds on disk.

func goldenLog(t *testing.T, format int) []*statepb.Command {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("testdata/format%d.log", format))
	if err != nil {
		t.Fatal(err)
	}
	var cmds []*statepb.Command
	for r := bufio.NewReader(bytes.NewReader(data)); ; {
		var cmd statepb.Command
		err := protodelim.UnmarshalFrom(r, &cmd)
		if errors.Is(err, io.EOF) {
			return cmds
		}
		if err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, &cmd)
	}
}

// replay applies a log from the start and writes down the outcomes.
func replay(t *testing.T, cmds []*statepb.Command) (*View, string) {
	t.Helper()
	v, told := Empty(), ""
	for i, cmd := range cmds {
		next, out, err := Apply(v, uint64(2*i+1), cmd)
		if err != nil {
			t.Fatal(err)
		}
		code := out.GetCode()
		if code == "" {
			code = "done"
		}
		v, told = next, told+fmt.Sprintf("%d %T %s %s\n", out.GetRevision(), cmd.GetOp(), code, out.GetField())
	}
	return v, told
}

func TestTheLogOfAnEarlierFormatGivesTheSameStateAndOutcomes(t *testing.T) {
	for format := 1; format <= Format; format++ {
		t.Run(fmt.Sprint(format), func(t *testing.T) {
			v, told := replay(t, goldenLog(t, format))
			want, err := os.ReadFile(fmt.Sprintf("testdata/format%d.outcomes", format))
			if err != nil {
				t.Fatal(err)
			}
			if told != string(want) {
				t.Errorf("outcomes:\n%s\nwant:\n%s", told, want)
			}
			snapshot, err := os.ReadFile(fmt.Sprintf("testdata/format%d.snapshot", format))
			if err != nil {
				t.Fatal(err)
			}
			restored, err := Decode(bytes.NewReader(snapshot))
			if err != nil {
				t.Fatal(err)
			}
			if !Equal(restored, v) {
				t.Error("the log and the snapshot give different states")
			}
			// The older nodes of a cluster that is being upgraded are sent snapshots by newer ones.
			var written bytes.Buffer
			if err := Encode(v, &written); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(written.Bytes(), snapshot) {
				t.Errorf("the snapshot of a state of format %d is not what format %d writes", format, format)
			}
		})
	}
}

func TestTheGoldenLogMeetsEveryCommandOfItsFormat(t *testing.T) {
	second := []string{"SetFeatureLevel", "Checkpoint"}
	third := []string{
		"PutToken", "RevokeToken", "Note", "ArchiveAudit", "StartRollout", "SteerChange", "DecideProposal", "ExpireProposals",
	}
	ops := []string{"Noop", "Init", "Put", "Delete", "Publish", "PutNode", "BumpEpoch", "Denied"}
	third = append(third, second...)
	fourth := append([]string{"CountSpending", "WarnBudget"}, third...)
	fifth := append([]string{"CountUsage", "CloseMinutes", "PutPrices", "PutBilled"}, fourth...)
	sixth := append([]string{"CreateDrill", "DecideDrill", "SteerDrill", "RenewDrill", "PutOrder", "EndOrder"}, fifth...)
	for format, more := range map[int][]string{1: nil, 2: second, 3: third, 4: fourth, 5: fifth, 6: sixth} {
		cmds := goldenLog(t, format)
		if len(cmds) < 35 {
			t.Errorf("the log of format %d has %d commands", format, len(cmds))
		}
		met := map[string]bool{}
		for _, cmd := range cmds {
			met[strings.TrimPrefix(fmt.Sprintf("%T", cmd.GetOp()), "*statepb.Command_")] = true
		}
		for _, op := range append(more, ops...) {
			if !met[op] {
				t.Errorf("no %s in the log of format %d", op, format)
			}
		}
		v, _ := replay(t, cmds)
		for _, kind := range policy.Kinds() {
			if kindFormat(kind) <= uint32(format) && len(v.List(kind)) == 0 {
				t.Errorf("no %s in the state of format %d", kind, format)
			}
		}
		if level := v.FeatureLevel(); level != uint32(format) {
			t.Errorf("the log of format %d ends at level %d", format, level)
		}
	}
}

// The log of format 6 holds what drills and orders leave behind: each way in which a drill ends or stands, orders of both
// doors, residency that was tightened under one, and health by model.
func TestTheGoldenLogOfDrillsAndOrders(t *testing.T) {
	cmds := goldenLog(t, 6)
	tightened, byModel := 0, 0
	for _, cmd := range cmds {
		if cmd.GetPublish().GetTighten() {
			tightened++
		}
		for _, h := range cmd.GetPublish().GetHealth() {
			if h.GetModel() != "" {
				byModel++
			}
		}
	}
	v, _ := replay(t, cmds)
	drills := map[string]int{}
	for _, d := range v.Drills() {
		drills[d.GetState()+" "+d.GetOutcome()]++
	}
	want := map[string]int{"DONE INTERRUPTED": 1, "DONE CAPACITY_CHECK_FAILED": 1, "SCHEDULED ": 1, "PRECHECK ": 1}
	if !maps.Equal(drills, want) || v.ActiveDrill().GetBroken() == nil || len(v.LastReport()) == 0 || len(v.SeriesApprovals()) != 1 {
		t.Errorf("drills are %v, want %v", drills, want)
	}
	if tightened < 4 || byModel == 0 || len(v.emergency.orders) < 2 || !v.OrderEntered("k1", 7) || !v.OrderEntered("k1", 8) {
		t.Errorf("%d commands tighten, %d healths are by model, and of orders there are %v", tightened, byModel, v.emergency.orders)
	}
}

func TestAStateOfAnEarlierFormatGoesOn(t *testing.T) {
	v, _ := replay(t, goldenLog(t, 1))
	next, out, err := Apply(v, v.Index()+1, command(&statepb.Put{Kind: "Tenant", Name: "after", Doc: []byte(`{"spec":{}}`)}))
	if err != nil || out.GetCode() != "" {
		t.Fatalf("put: %v, %v", out, err)
	}
	if _, ok := next.Get(policy.KindTenant, "acme"); !ok {
		t.Error("what was there is gone")
	}
	if err := VerifyAudit(next.Audit(0, 0)); err != nil {
		t.Errorf("the audit trail breaks where the formats meet: %v", err)
	}
}
