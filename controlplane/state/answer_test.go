package state

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// keyed gives a command a key; what is asked stands for its hash.
func keyed(cmd *statepb.Command, key, asked string, at time.Duration) *statepb.Command {
	cmd = proto.CloneOf(cmd)
	sum := sha256.Sum256([]byte(asked))
	cmd.Once = &statepb.Once{Key: key, RequestSha256: sum[:]}
	cmd.AtUnixMs = at.Milliseconds()
	return cmd
}

func TestACommandWithAKeyIsDoneOnce(t *testing.T) {
	h := start(t)
	first := keyed(region("us", `{}`, 0), "k", "create us", time.Second)
	if out := h.do(first); out.GetCode() != "" || out.GetAnswer() != nil {
		t.Fatalf("first: %v", out)
	}
	us, _ := h.Get(policy.KindRegion, "us")
	h.do(region("us", `{"zone":"z"}`, us.Metadata.Revision)) // somebody else goes on
	before := len(h.Audit(0, 0))
	out := h.do(keyed(region("us", `{}`, 0), "k", "create us", time.Hour))
	a := out.GetAnswer()
	if out.GetCode() != "" || a == nil || out.GetRevision() != h.Index() {
		t.Fatalf("again: %v", out)
	}
	if a.GetKind() != "Region" || a.GetName() != "us" || a.GetRevision() != 2 || a.GetIndex() != 2 || !a.GetCreated() ||
		string(a.GetDoc()) != `{"spec":{}}` || a.GetCreatedUnixMs() != 1000 || a.GetUpdatedUnixMs() != 1000 {
		t.Errorf("the first answer is %v", a)
	}
	if now, _ := h.Get(policy.KindRegion, "us"); now.Metadata.Revision != 3 || len(h.Audit(0, 0)) != before {
		t.Errorf("it was done twice: revision %d", now.Metadata.Revision)
	}
}

func TestAKeyStandsForOneRequestOfOneActor(t *testing.T) {
	h := start(t)
	h.do(keyed(region("us", `{}`, 0), "k", "create us", 0))
	if out := h.do(keyed(region("eu", `{}`, 0), "k", "create eu", 0)); out.GetCode() != CodeKeyReused || out.GetMessage() == "" {
		t.Errorf("another request: %v", out)
	}
	if _, ok := h.Get(policy.KindRegion, "eu"); ok {
		t.Error("it was done all the same")
	}
	bob := keyed(region("eu", `{}`, 0), "k", "create eu", 0)
	bob.Actor = &statepb.Actor{Name: "bob"}
	if out := h.do(bob); out.GetCode() != "" || out.GetAnswer() != nil {
		t.Errorf("another actor: %v", out)
	}
	if h.AnswerTo("bob", "k", time.UnixMilli(0)).GetName() != "eu" || h.AnswerTo("ann", "k", time.UnixMilli(0)).GetName() != "us" || h.AnswerTo("eve", "k", time.UnixMilli(0)) != nil {
		t.Error("answers are mixed up")
	}
}

func TestWhatWasRefusedIsJudgedAnew(t *testing.T) {
	h := start(t)
	again := keyed(region("us", `{"zone":"z"}`, 2), "k", "change us", 0)
	if out := h.do(again); out.GetCode() != CodeNotFound {
		t.Fatalf("got %v", out)
	}
	if h.AnswerTo("ann", "k", time.UnixMilli(0)) != nil {
		t.Error("a refusal is remembered")
	}
	h.do(region("us", `{}`, 0))
	again.GetPut().IfRevision = h.Index()
	if out := h.do(again); out.GetCode() != "" || out.GetAnswer() != nil {
		t.Errorf("later: %v", out)
	}
}

func TestAnswersExpireByTheProposersClock(t *testing.T) {
	for _, step := range []struct {
		after time.Duration
		kept  bool
	}{{0, true}, {AnswersFor - time.Millisecond, true}, {AnswersFor, false}, {48 * time.Hour, false}, {-time.Hour, true}} {
		h := start(t)
		h.do(keyed(region("us", `{}`, 0), "k", "create us", time.Hour))
		out := h.do(keyed(region("us", `{}`, 0), "k", "create us", time.Hour+step.after))
		if kept := out.GetAnswer() != nil; kept != step.kept || !kept && out.GetCode() != CodeExists {
			t.Errorf("after %s: %v", step.after, out)
		}
	}
}

func TestADeletionIsAnsweredAgain(t *testing.T) {
	h := start(t)
	h.do(region("us", `{}`, 0))
	remove := keyed(command(&statepb.Delete{Kind: "Region", Name: "us"}), "k", "delete us", 0)
	for i := range 2 {
		out := h.do(remove)
		if out.GetCode() != "" || (out.GetAnswer() != nil) != (i == 1) || out.GetAnswer().GetKind() != "" {
			t.Errorf("time %d: %v", i+1, out)
		}
	}
}

func TestKeysAreChecked(t *testing.T) {
	h := start(t)
	for name, once := range map[string]*statepb.Once{
		"no key": {RequestSha256: make([]byte, 32)}, "long": {Key: strings.Repeat("k", MaxKey+1), RequestSha256: make([]byte, 32)},
		"no hash": {Key: "k"}, "short hash": {Key: "k", RequestSha256: make([]byte, 31)},
	} {
		cmd := region("us", `{}`, 0)
		cmd.Once = once
		if out := h.do(cmd); out.GetCode() != CodeInvalid || !strings.HasPrefix(out.GetField(), "once.") {
			t.Errorf("%s: %v", name, out)
		}
	}
}

func TestAnswersAreBounded(t *testing.T) {
	list := func(n, size int) []*statepb.Answer {
		var out []*statepb.Answer
		for i := range n {
			out = append(out, &statepb.Answer{Key: fmt.Sprint(i), AtUnixMs: int64(i), Doc: make([]byte, size)})
		}
		return out
	}
	if got := bounds(list(MaxAnswers+3, 0), 0); len(got) != MaxAnswers || got[0].GetKey() != "3" {
		t.Errorf("kept %d from %s", len(got), got[0].GetKey())
	}
	if got := bounds(list(40, 1<<20), 0); len(got) != 16 || got[15].GetKey() != "39" {
		t.Errorf("kept %d of 1 MiB", len(got))
	}
	if got := bounds(list(10, 1), AnswersFor.Milliseconds()+4); len(got) != 5 || got[0].GetKey() != "5" {
		t.Errorf("kept %d after some have expired", len(got))
	}
}

func TestAnswersOutliveASnapshot(t *testing.T) {
	h := start(t)
	h.do(raise(2))
	h.do(keyed(region("us", `{"zone":"z"}`, 0), "k", "create us", 0))
	var b bytes.Buffer
	if err := Encode(h.View, &b); err != nil {
		t.Fatal(err)
	}
	v, err := Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if a := v.AnswerTo("ann", "k", time.UnixMilli(0)); !proto.Equal(a, h.AnswerTo("ann", "k", time.UnixMilli(0))) || a == nil {
		t.Errorf("restored %v", a)
	}
}

// Whatever is sent again, and however often, the state is that of each request done once, in the order
// in which they first came.
func TestRepeatsChangeNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		once, often := start(t), start(t)
		var sent []*statepb.Command
		for i := range rapid.IntRange(1, 20).Draw(rt, "requests") {
			name := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "name")
			cmd := command(&statepb.Put{Kind: "Region", Name: name, Doc: fmt.Appendf(nil, `{"spec":{"zone":"z%d"}}`, i), AnyRevision: true})
			if rapid.Bool().Draw(rt, "delete") {
				if _, ok := once.Get(policy.KindRegion, name); !ok {
					continue // it would be refused, and refusals are not remembered
				}
				cmd = command(&statepb.Delete{Kind: "Region", Name: name})
			}
			cmd = keyed(cmd, fmt.Sprint(i), fmt.Sprint(i), time.Duration(i)*time.Minute)
			sent = append(sent, cmd)
			once.do(cmd)
			for range rapid.IntRange(1, 3).Draw(rt, "times") {
				often.do(cmd)
				often.do(rapid.SampledFrom(sent).Draw(rt, "an older one"))
			}
		}
		docs := func(h *history) (out string) {
			for _, r := range h.List(policy.KindRegion) {
				out += r.Metadata.Name + string(policy.Canonical(r)) + "\n"
			}
			return fmt.Sprint(out, len(h.Audit(0, 0)), len(h.answers))
		}
		if docs(once) != docs(often) {
			rt.Fatalf("once:\n%s\noften:\n%s", docs(once), docs(often))
		}
	})
}
