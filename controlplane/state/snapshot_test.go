package state

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

func encoded(t testing.TB, v *View) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Encode(v, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func again(t testing.TB, v *View) *View {
	t.Helper()
	back, err := Decode(bytes.NewReader(encoded(t, v)))
	if err != nil {
		t.Fatal(err)
	}
	return back
}

func full(t *testing.T) *View {
	h := start(t)
	h.do(region("us", `{"zone":"z"}`, 0))
	h.do(region("eu", `{}`, 0))
	h.do(command(&statepb.Delete{Kind: "Region", Name: "eu"}))
	h.do(command(&statepb.Put{Kind: "Tenant", Name: "gone", Doc: []byte(`{"spec":{"later":1}}`)}))
	h.do(command(&statepb.PutNode{Id: "n1", HttpAddress: "a:1"}))
	h.do(command(&statepb.Publish{Table: table(0.5), Health: []*statepb.ClusterHealth{{Cluster: "a", State: "HEALTHY"}}, Reasons: []*statepb.WeightReason{{Model: "m"}}}))
	return h.View
}

func TestASnapshotRestoresEverything(t *testing.T) {
	v := full(t)
	back := again(t, v)
	if !Equal(v, back) {
		t.Error("differs")
	}
	if back.Revision(policy.KindRegion) != 4 || back.ResourcesRevision() != 5 {
		t.Errorf("revisions %d, %d", back.Revision(policy.KindRegion), back.ResourcesRevision())
	}
	if r, ok := back.Get(policy.KindRegion, "us"); !ok || r.Metadata.Revision != 2 || r.Metadata.CreatedAt.UnixMilli() != 1000 {
		t.Errorf("us: %+v", r)
	}
	if len(back.Audit(0, 0)) != len(v.Audit(0, 0)) || back.Table().GetRef().GetRevision() != 7 || len(back.Nodes()) != 1 || len(back.Reasons()) != 1 || len(back.Health()) != 1 {
		t.Error("something is missing")
	}
	if !Equal(Empty(), again(t, Empty())) {
		t.Error("the empty state differs")
	}
	if Equal(v, Empty()) {
		t.Error("all states are equal")
	}
}

func TestADamagedSnapshotIsRefused(t *testing.T) {
	whole := encoded(t, full(t))
	change := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(whole)) }
	tests := []struct {
		name string
		doc  []byte
		want string
	}{
		{"empty", nil, "header"},
		{"another file", bytes.Repeat([]byte("x"), 100), "not a snapshot"},
		{"cut", whole[:len(whole)-1], "EOF"},
		{"a flipped bit", change(func(b []byte) []byte { b[len(b)/2] ^= 1; return b }), "checksum"},
		{"a newer format", change(func(b []byte) []byte { b[len(magic)+3] = Format + 1; return b }), "upgrade this node"},
		{"a length that lies", change(func(b []byte) []byte {
			binary.BigEndian.PutUint64(b[len(magic)+4:], 1<<29)
			return b
		}), "EOF"},
		{"a length without bound", change(func(b []byte) []byte {
			binary.BigEndian.PutUint64(b[len(magic)+4:], 1<<60)
			return b
		}), "the limit is"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Decode(bytes.NewReader(tt.doc)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestASnapshotThatContradictsItselfIsRefused(t *testing.T) {
	for name, s := range map[string]*statepb.Snapshot{
		"a resource without its kind's revision": {Resources: []*statepb.Resource{{Kind: "Region", Name: "us", Doc: []byte(`{}`)}}},
		"a kind of a newer build":                {KindRevisions: []*statepb.KindRevision{{Kind: "Planet", Revision: 1}}},
		"an unreadable document": {
			KindRevisions: []*statepb.KindRevision{{Kind: "Region", Revision: 1}},
			Resources:     []*statepb.Resource{{Kind: "Region", Name: "us", Doc: []byte(`{`)}},
		},
		"resources out of order": {
			KindRevisions: []*statepb.KindRevision{{Kind: "Region", Revision: 1}},
			Resources:     []*statepb.Resource{{Kind: "Region", Name: "us", Doc: []byte(`{}`)}, {Kind: "Region", Name: "eu", Doc: []byte(`{}`)}},
		},
		"a broken audit chain": {Audit: []*statepb.AuditEntry{{Index: 1, Sha256: []byte("no")}}},
	} {
		if _, err := fromSnapshot(s); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// anyCommand draws from few names and revisions, so that commands meet.
func anyCommand(t *rapid.T, index uint64) *statepb.Command {
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
	revision := rapid.Uint64Range(0, index).Draw(t, "revision")
	docs := map[string][]string{
		"Region":  {`{"spec":{}}`, `{"spec":{"zone":"z"},"labels":{"x":"y"}}`, `{"spec":{"zone":7}}`},
		"Model":   {`{"spec":{}}`, `{"spec":{"adapters":["c"]}}`},
		"Cluster": {`{"spec":{"region":"a","models":["b"],"endpoints":[{"id":"p","url":"http://p","class":"x"}]}}`},
		"Tenant":  {`{"spec":{}}`, `{"spec":{"residency":["z"]}}`},
		"Quota":   {`{"spec":{"tenant":"a","limits":[{"kind":"requests","perMinute":1}]}}`},
	}
	kind := rapid.SampledFrom([]string{"Region", "Model", "Cluster", "Tenant", "Quota"}).Draw(t, "kind")
	var cmd *statepb.Command
	switch rapid.IntRange(0, 9).Draw(t, "operation") {
	case 0, 1, 2, 3:
		cmd = command(&statepb.Put{Kind: kind, Name: name, Doc: []byte(rapid.SampledFrom(docs[kind]).Draw(t, "doc")), IfRevision: revision, AnyRevision: rapid.Bool().Draw(t, "any")})
	case 4:
		cmd = command(&statepb.Delete{Kind: kind, Name: name})
	case 5, 6:
		p := &statepb.Publish{Health: []*statepb.ClusterHealth{{Cluster: name, State: rapid.SampledFrom([]string{"HEALTHY", "SUSPECT"}).Draw(t, "state")}}}
		if rapid.Bool().Draw(t, "with a table") {
			p.Table = table(rapid.SampledFrom([]float64{0.25, 0.5}).Draw(t, "weight"))
		}
		cmd = command(p)
	case 7:
		cmd = command(&statepb.BumpEpoch{AtLeast: rapid.Uint64Range(0, 4).Draw(t, "epoch")})
	case 8:
		cmd = command(&statepb.PutNode{Id: name, Version: kind})
	default:
		cmd = &statepb.Command{Format: 1, Ignorable: true}
	}
	cmd.AtUnixMs = int64(index)
	return cmd
}

// Two replicas that apply the same commands agree at every step, whether or not one of them is
// restored from a snapshot anywhere between; and no view changes after it was made.
func TestReplicasAgree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		commands := []*statepb.Command{initCommand()}
		for i := range rapid.IntRange(1, 40).Draw(rt, "commands") {
			commands = append(commands, anyCommand(rt, uint64(i+2)))
		}
		restoreAt := rapid.IntRange(0, len(commands)-1).Draw(rt, "restore after")
		one, two := Empty(), Empty()
		views, hashes := []*View{one}, [][32]byte{Hash(one)}
		for i, cmd := range commands {
			var (
				outcomes [2]*statepb.Outcome
				errs     [2]error
			)
			one, outcomes[0], errs[0] = Apply(one, uint64(i+1), cmd)
			two, outcomes[1], errs[1] = Apply(two, uint64(i+1), cmd)
			if errs[0] != nil || errs[1] != nil {
				rt.Fatalf("halt at %d: %v, %v", i+1, errs[0], errs[1])
			}
			if i == restoreAt {
				two = again(t, two)
			}
			if Hash(one) != Hash(two) || fmt.Sprint(outcomes[0]) != fmt.Sprint(outcomes[1]) {
				rt.Fatalf("replicas differ at %d: %v, %v", i+1, outcomes[0], outcomes[1])
			}
			if err := VerifyAudit(one.Audit(0, 0)); err != nil {
				rt.Fatal(err)
			}
			views, hashes = append(views, one), append(hashes, Hash(one))
		}
		for i, v := range views {
			if Hash(v) != hashes[i] {
				rt.Fatalf("the view at %d changed later", i)
			}
			for _, kind := range policy.Kinds() {
				checkReferences(rt, v, kind)
			}
		}
	})
}

// checkReferences: no sequence of commands leaves a dangling reference.
func checkReferences(t *rapid.T, v *View, kind policy.Kind) {
	for _, r := range v.List(kind) {
		if problems := policy.Check(r, v); len(problems) > 0 {
			t.Fatalf("%s %s: %v", kind, r.Metadata.Name, problems)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add(encoded(f, Empty()))
	v, _, err := Apply(Empty(), 1, initCommand())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(encoded(f, v))
	f.Fuzz(func(t *testing.T, doc []byte) {
		v, err := Decode(bytes.NewReader(doc))
		if err != nil {
			return
		}
		if !Equal(v, again(t, v)) {
			t.Fatal("does not come back the same")
		}
	})
}
