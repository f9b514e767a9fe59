package backup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

var origin = Origin{At: time.Unix(1_700_000_000, 123_456_789), Node: "n2", Version: "test"}

// view is a state with n regions and a table in it.
func view(t testing.TB, n int) *state.View {
	t.Helper()
	v := state.Empty()
	do := func(c *statepb.Command) {
		c.Format, c.AtUnixMs, c.Actor = state.Format, 1000, &statepb.Actor{Name: "ann", Role: "admin"}
		next, out, err := state.Apply(v, v.Index()+1, c)
		if err != nil || out.GetCode() != "" {
			t.Fatalf("%v: %v %v", c, err, out)
		}
		v = next
	}
	do(&statepb.Command{Op: &statepb.Command_Init{Init: &statepb.Init{
		ClusterId: "c-1", Tokens: []*statepb.Token{{Name: "admin", Role: "admin", Sha256: bytes.Repeat([]byte{7}, 32)}},
	}}})
	for i := range n {
		do(&statepb.Command{Op: &statepb.Command_Put{Put: &statepb.Put{Kind: "Region", Name: fmt.Sprintf("r%d", i), Doc: []byte(`{"spec":{"zone":"z"}}`)}}})
	}
	do(&statepb.Command{Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: &routerpb.Table{
		Regions: []*routerpb.Region{{Id: "r0"}}, Clusters: []*routerpb.Cluster{{Id: "a"}},
	}}}})
	return v
}

func archive(t testing.TB, v *state.View) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := Write(&b, v, origin); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestAnArchiveHoldsTheState(t *testing.T) {
	v := view(t, 3)
	var b bytes.Buffer
	wrote, err := Write(&b, v, origin)
	if err != nil {
		t.Fatal(err)
	}
	read, back, err := Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	if !state.Equal(v, back) {
		t.Error("the state differs")
	}
	if read != wrote || read.ClusterID != "c-1" || read.Epoch != 1 || read.Revision != v.Index() || read.Node != "n2" ||
		read.At.UnixMilli() != origin.At.UnixMilli() || len(read.StateSHA256) != 64 {
		t.Errorf("meta data %+v, written %+v", read, wrote)
	}
}

func TestTheSameStateMakesTheSameArchive(t *testing.T) {
	if !bytes.Equal(archive(t, view(t, 5)), archive(t, view(t, 5))) {
		t.Error("two archives of one state differ")
	}
}

func TestNothingIsKeptOfAClusterWithoutAnIdentity(t *testing.T) {
	var b bytes.Buffer
	if _, err := Write(&b, state.Empty(), origin); err == nil || b.Len() > 0 {
		t.Errorf("%d bytes, %v", b.Len(), err)
	}
}

func TestEveryBitCounts(t *testing.T) {
	good := archive(t, view(t, 2))
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		if _, _, err := Read(bytes.NewReader(bad)); err == nil {
			t.Fatalf("byte %d of %d altered, and nobody noticed", i, len(good))
		}
	}
	for n := range good {
		if _, _, err := Read(bytes.NewReader(good[:n])); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(good), err)
		}
	}
	if _, _, err := Read(bytes.NewReader(append(bytes.Clone(good), 0))); !errors.Is(err, ErrDamaged) {
		t.Errorf("one byte more: %v", err)
	}
}

func TestWhatIsNoArchiveIsNamed(t *testing.T) {
	good := archive(t, view(t, 1))
	newer := bytes.Clone(good)
	binary.BigEndian.PutUint32(newer[len(magic):], Format+1)
	huge := bytes.Clone(good)
	binary.BigEndian.PutUint32(huge[len(magic)+4:], maxMeta+1)
	for _, c := range []struct {
		name, want string
		in         []byte
	}{
		{"a text", "no archive of the control plane", []byte(strings.Repeat("lorem ipsum ", 10))},
		{"nothing", "no header", nil},
		{"a newer format", "format 2 is not known", newer},
		{"endless meta data", "the limit is", huge},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, _, err := Read(bytes.NewReader(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

// The checksum is right, but the parts are of two archives.
func TestAnArchiveThatContradictsItselfIsRefused(t *testing.T) {
	v, other := view(t, 2), view(t, 3)
	claims, err := describe(v, origin)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := Write(&b, other, origin); err != nil {
		t.Fatal(err)
	}
	_, _, err = Read(bytes.NewReader(reseal(t, b.Bytes(), claims)))
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "claims revision") {
		t.Errorf("got %v", err)
	}
	claims.Revision = other.Index() // of that revision, but another state
	_, _, err = Read(bytes.NewReader(reseal(t, b.Bytes(), claims)))
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "not the one") {
		t.Errorf("got %v", err)
	}
}

// A backup that cannot be read years later is none: whoever changes what a state is must read this.
func TestABackupOfFormat1IsRead(t *testing.T) {
	m, v, err := Load(filepath.Join("testdata", "format1.backup"))
	if err != nil {
		t.Fatal(err)
	}
	want := Meta{
		Format: 1, ClusterID: "c-1", Epoch: 1, Revision: 4, Origin: Origin{At: m.At, Node: "n2", Version: "test"},
		StateSHA256: m.StateSHA256,
	}
	if m != want || m.At.UnixMilli() != origin.At.UnixMilli() {
		t.Errorf("meta data %+v", m)
	}
	if len(v.List(policy.KindRegion)) != 2 || v.Table().GetRef().GetRevision() != 4 || len(v.Tokens()) != 1 || len(v.Audit(0, 0)) != 4 {
		t.Errorf("%d regions, table %v, %d tokens, %d audit entries", len(v.List(policy.KindRegion)), v.Table().GetRef(), len(v.Tokens()), len(v.Audit(0, 0)))
	}
}

func TestASavedFileIsWholeOrNotThere(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.backup")
	v := view(t, 2)
	write := func(w io.Writer) error { _, err := Write(w, v, origin); return err }
	m, err := Save(path, write)
	if err != nil || m.Revision != v.Index() {
		t.Fatalf("%+v, %v", m, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v: others may read hashes of tokens", info.Mode(), err)
	}
	broken := errors.New("line cut")
	for name, c := range map[string]struct {
		write func(io.Writer) error
		want  error
	}{
		"a writer that fails": {func(w io.Writer) error { _, _ = w.Write([]byte("half")); return broken }, broken},
		"a writer that stops early": {func(w io.Writer) error {
			_, err := w.Write(archive(t, v)[:100])
			return err
		}, ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Save(path, c.write); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if _, back, err := Load(path); err != nil || !state.Equal(back, v) {
				t.Errorf("the file of before is lost: %v", err)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "*"+partSuffix)); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
	if _, err := Save(filepath.Join(dir, "missing", "a.backup"), write); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	if _, _, err := Load(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(archive(f, view(f, 1)))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, in []byte) {
		m, v, err := Read(bytes.NewReader(in))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if _, err := Write(&again, v, m.Origin); err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		if _, back, err := Read(&again); err != nil || !state.Equal(v, back) {
			t.Fatalf("what was written can't be read: %v", err)
		}
	})
}
