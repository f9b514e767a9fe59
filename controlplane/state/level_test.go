package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

func raise(level uint32) *statepb.Command {
	return command(&statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: level}})
}

func TestTheFeatureLevelRisesAndNeverFalls(t *testing.T) {
	h := start(t)
	if h.FeatureLevel() != 1 {
		t.Errorf("a new cluster is at %d", h.FeatureLevel())
	}
	for _, step := range []struct{ level, want uint32 }{{0, 1}, {1, 1}, {2, 2}, {1, 2}, {2, 2}} {
		if out := h.do(raise(step.level)); out.GetCode() != "" || h.FeatureLevel() != step.want {
			t.Errorf("after %d: %v, level %d, want %d", step.level, out, h.FeatureLevel(), step.want)
		}
	}
	var told []string
	for _, e := range h.Audit(0, 0) {
		if e.GetKind() == "FeatureLevel" {
			told = append(told, e.GetName())
		}
	}
	if len(told) != 1 || told[0] != "2" {
		t.Errorf("audited as %q", told)
	}
}

func TestWhatIsNewerThanTheBuildStopsItReadably(t *testing.T) {
	newer := command(&statepb.Noop{})
	newer.Format = Format + 1
	unknown := command(&statepb.Noop{})
	unknown.Op = nil
	for name, cmd := range map[string]*statepb.Command{
		"format": newer, "operation": unknown, "level": raise(Format + 1),
		"kind": command(&statepb.Put{Kind: "Fancy", Name: "x"}), "kind deleted": command(&statepb.Delete{Kind: "Fancy", Name: "x"}),
	} {
		t.Run(name, func(t *testing.T) {
			v := start(t).View
			next, out, err := Apply(v, 2, cmd)
			if !errors.Is(err, ErrUnknown) || next != nil || out != nil {
				t.Fatalf("got %v, %v, %v", next, out, err)
			}
			for _, says := range []string{"entry 2", fmt.Sprintf("formats up to %d", Format), "upgrade this node"} {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%q does not say %q", err, says)
				}
			}
			cmd.Ignorable = true
			next, out, err = Apply(v, 2, cmd)
			if err != nil || out.GetCode() != CodeSkipped || next.Index() != 2 {
				t.Errorf("ignorable: %v, %v", out, err)
			}
			if len(next.Audit(1, 0)) != 0 || next.FeatureLevel() != 1 {
				t.Error("a skipped command left something behind")
			}
		})
	}
}

func TestACommandSaysWhichFormatItNeeds(t *testing.T) {
	for _, cmd := range goldenLog(t, 1) {
		want := uint32(1)
		if cmd.GetPut().GetKind() == "Fancy" {
			want = Format
		}
		if got := FormatOf(cmd); got != want {
			t.Errorf("%v needs %d, want %d", cmd, got, want)
		}
	}
	for _, kind := range firstKinds {
		if policy.Plural(kind) == "" {
			t.Errorf("kind %s is not known any more", kind)
		}
	}
	keyed := command(&statepb.Noop{})
	keyed.Once = &statepb.Once{Key: "k"}
	for _, cmd := range []*statepb.Command{raise(2), command(&statepb.Command_Checkpoint{Checkpoint: &statepb.Checkpoint{}}), keyed} {
		if got := FormatOf(cmd); got != 2 {
			t.Errorf("%v needs %d", cmd, got)
		}
	}
	glass := "fire"
	for _, cmd := range []*statepb.Command{
		decision(1, VerdictApprove, nil), expireAll(),
		command(&statepb.Put{Kind: "Region", BreakGlass: glass}), command(&statepb.Delete{Kind: "Region", BreakGlass: glass}),
		command(&statepb.Put{Kind: "SafetyRule"}), command(&statepb.Delete{Kind: "SafetyRule"}),
	} {
		if got := FormatOf(cmd); got != 3 {
			t.Errorf("%v needs %d", cmd, got)
		}
	}
}

func TestTheLedgerNeedsFormat4(t *testing.T) {
	for _, cmd := range []*statepb.Command{spending(1, "r"), warning("o", "l", 0, 1)} {
		if got := FormatOf(cmd); got != 4 {
			t.Errorf("%v needs %d", cmd, got)
		}
	}
}

func TestDrillsOrdersAndHealthByModelNeedFormat6(t *testing.T) {
	for _, cmd := range []*statepb.Command{
		command(&statepb.CreateDrill{}), command(&statepb.DecideDrill{}), command(&statepb.SteerDrill{}), command(&statepb.RenewDrill{}),
		{Op: &statepb.Command_PutOrder{}},
		{Op: &statepb.Command_EndOrder{}},
		command(&statepb.Publish{Health: []*statepb.ClusterHealth{{Cluster: "a"}, {Cluster: "a", Model: "m"}}}),
	} {
		if got := FormatOf(cmd); got != 6 {
			t.Errorf("%v needs %d", cmd, got)
		}
	}
	if got := FormatOf(command(&statepb.Publish{Health: []*statepb.ClusterHealth{{Cluster: "a"}}})); got != 1 {
		t.Errorf("health of clusters needs %d", got)
	}
}

func TestASnapshotHasTheFormatOfTheFeatureLevel(t *testing.T) {
	h := start(t)
	for _, want := range []uint32{1, 2} {
		h.do(raise(want))
		var b bytes.Buffer
		if err := Encode(h.View, &b); err != nil {
			t.Fatal(err)
		}
		if got := binary.BigEndian.Uint32(b.Bytes()[len(magic):]); got != want {
			t.Errorf("at level %d the format is %d", want, got)
		}
		v, err := Decode(&b)
		if err != nil || v.FeatureLevel() != want || !Equal(v, h.View) {
			t.Errorf("restored at level %d: %v", v.FeatureLevel(), err)
		}
	}
}
