package state

import (
	"bytes"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/controlplane/account"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

// shut closes a minute in which a cluster cost so much.
func shut(minute, cost int64) *statepb.Command {
	return &statepb.Command{Format: 5, AtUnixMs: 1000 * minute, Op: &statepb.Command_CloseMinutes{CloseMinutes: &statepb.CloseMinutes{
		Minutes: []*statepb.MinuteBills{{MinuteUnixS: minute, Bills: []*statepb.ClusterBill{{Cluster: "c", Region: "us", CostMicros: cost, Capacity: 10}}}},
	}}}
}

// use counts what a tenant used in a minute.
func use(run string, sequence uint64, minute int64, tenant string) *statepb.Command {
	return &statepb.Command{Format: 5, AtUnixMs: 1000 * (minute + 61), Op: &statepb.Command_CountUsage{CountUsage: &statepb.CountUsage{
		Runs: []*statepb.UsageRun{{Run: run, Sequence: sequence}},
		Minutes: []*statepb.CountedMinute{{MinuteUnixS: minute, Lines: []*statepb.CountedLine{
			{Tenant: tenant, Model: "m", Class: "chat", Cluster: "c", Region: "us", Source: "us", Input: 5, Work: 5, Succeeded: 1},
		}}},
	}}}
}

func TestTheAccountNeedsFormat5(t *testing.T) {
	for _, cmd := range []*statepb.Command{shut(60, 1), use("r", 1, 60, "a")} {
		if got := FormatOf(cmd); got != 5 {
			t.Errorf("%v needs %d", cmd, got)
		}
	}
}

func TestCommandsOfTheAccountAreAnswered(t *testing.T) {
	h := start(t)
	h.do(raise(5))
	audit := len(h.Audit(0, 0))
	for _, step := range []struct {
		name string
		cmd  *statepb.Command
		code string
	}{
		{"usage before the account has begun", use("r", 1, 60, "a"), CodePrecondition},
		{"a minute", shut(60, 100), ""},
		{"again", shut(60, 100), CodePrecondition},
		{"no minute", shut(61, 100), CodeInvalid},
		{"usage", use("r", 1, 60, "a"), ""},
		{"again", use("r", 1, 60, "a"), CodePrecondition},
		{"of no run", use("", 1, 60, "a"), CodeInvalid},
	} {
		if out := h.do(step.cmd); out.GetCode() != step.code || step.code != "" && out.GetField() == "" {
			t.Errorf("%s: %v", step.name, out)
		}
	}
	r, err := h.Account().Ask(account.Query{From: time.Unix(60, 0), Until: time.Unix(120, 0)})
	if err != nil || len(r.Rows) != 1 || r.Rows[0].Paid() != 100 || r.Rows[0].Cost != 50 {
		t.Errorf("%+v, %v", r, err)
	}
	if len(h.Audit(0, 0)) != audit {
		t.Error("the trail tells of minutes")
	}
	if h.Account().Counted("r") != 1 {
		t.Errorf("counted up to %d", h.Account().Counted("r"))
	}
}

// A node that restores a snapshot holds the same account, and goes on in the same way.
func TestAnAccountOutlivesRestarts(t *testing.T) {
	h := start(t)
	if h.account.Proto() != nil {
		t.Fatal("there is an account")
	}
	h.do(raise(5))
	for i := range int64(300) {
		h.do(shut(60*(i+1), 1_000_000+i))
		h.do(use("r", uint64(i+1), 60*max(i-3, 1), "a"))
	}
	var b bytes.Buffer
	if err := Encode(h.View, &b); err != nil {
		t.Fatal(err)
	}
	restored, err := Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if !Equal(restored, h.View) || len(Differing(Sums(restored), Sums(h.View))) > 0 {
			t.Fatalf("after %d commands the states differ", i)
		}
		cmd := shut(60*400, 7)
		h.do(cmd)
		if restored, _, err = Apply(restored, restored.Index()+1, cmd); err != nil {
			t.Fatal(err)
		}
	}
	broken := &statepb.Snapshot{Format: 5, Account: h.account.Proto()}
	broken = proto.CloneOf(broken)
	broken.Account.Minutes[0].Body = []byte("nonsense")
	if _, err := fromSnapshot(broken); err == nil {
		t.Error("a broken account is restored")
	}
}

func TestSumsTellAccountsApart(t *testing.T) {
	h := start(t)
	h.do(raise(5))
	for i := range int64(200) {
		h.do(shut(60*(i+1), 100))
	}
	base := h.View
	for name, cmd := range map[string]*statepb.Command{
		"a minute":      shut(60*201, 1),
		"a late line":   use("r", 1, 60*100, "a"),
		"one much more": use("r", 1, 60*20, "a"),
	} {
		next, out, err := Apply(base, base.Index()+1, cmd)
		if err != nil || out.GetCode() != "" {
			t.Fatal(out, err)
		}
		if got := Differing(Sums(base), Sums(next)); len(got) != 1 || got[0] != "account" {
			t.Errorf("%s: parts %q differ", name, got)
		}
	}
}

// Nodes that count the same messages in the same order agree, whichever names and numbers they hold.
func TestNodesAgreeOnTheAccount(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		nodes := []*View{start(t).View, start(t).View}
		for i := range rapid.IntRange(1, 40).Draw(rt, "commands") {
			minute := 60 * rapid.Int64Range(1, 500).Draw(rt, "minute")
			cmd := shut(minute, rapid.Int64().Draw(rt, "cost"))
			if rapid.Bool().Draw(rt, "use") {
				cmd = use(rapid.SampledFrom([]string{"", "r", "s"}).Draw(rt, "run"), uint64(i), minute, rapid.SampledFrom([]string{"a", "b", costmodel.Other}).Draw(rt, "tenant"))
				cmd.GetCountUsage().Minutes[0].Lines[0].Work = rapid.Int64().Draw(rt, "work")
			}
			wire := must(proto.Marshal(cmd))
			for n := range nodes {
				var read statepb.Command
				if err := proto.Unmarshal(wire, &read); err != nil {
					rt.Fatal(err)
				}
				next, _, err := Apply(nodes[n], nodes[n].Index()+1, &read)
				if err != nil {
					rt.Fatal(err)
				}
				nodes[n] = next
			}
			if rapid.IntRange(0, 9).Draw(rt, "restart") == 0 {
				var b bytes.Buffer
				if err := Encode(nodes[0], &b); err != nil {
					rt.Fatal(err)
				}
				nodes[0] = must(Decode(&b))
			}
			if !Equal(nodes[0], nodes[1]) {
				rt.Fatalf("after %v the accounts differ", cmd)
			}
		}
	})
}
