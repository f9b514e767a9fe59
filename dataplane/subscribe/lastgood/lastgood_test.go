package lastgood

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
)

func numbered(epoch, revision uint64) *routerpb.Table {
	return &routerpb.Table{
		Ref:     &routerpb.TableRef{ClusterId: "c-1", Epoch: epoch, Revision: revision},
		Regions: []*routerpb.Region{{Id: "eu-west-1", Zone: "eu"}},
	}
}

func open(t *testing.T) (*Dir, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tables")
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return d, path
}

func save(t *testing.T, d *Dir, tables ...*routerpb.Table) {
	t.Helper()
	for _, table := range tables {
		if err := d.Save(table, time.UnixMilli(1_700_000_000_123)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatIsSavedIsLoaded(t *testing.T) {
	d, path := open(t)
	want := numbered(2, 41)
	save(t, d, numbered(2, 40), want)
	again, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := again.Load(nil)
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got.Table, want) {
		t.Errorf("loaded %v, want %v", got.Table, want)
	}
	if !got.At.Equal(time.UnixMilli(1_700_000_000_123)) {
		t.Errorf("saved at %v", got.At)
	}
	if len(got.Skipped) != 0 {
		t.Errorf("skipped %v", got.Skipped)
	}
}

func TestAnEpochOutranksARevision(t *testing.T) {
	d, _ := open(t)
	save(t, d, numbered(3, 7), numbered(2, 900))
	got, err := d.Load(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Table.GetRef().GetEpoch() != 3 {
		t.Errorf("loaded %v, want epoch 3", got.Table.GetRef())
	}
}

func TestTenAreKept(t *testing.T) {
	d, path := open(t)
	for i := range uint64(14) {
		save(t, d, numbered(1, i+1))
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != Keep {
		t.Errorf("%d files, want %d", len(entries), Keep)
	}
	refuseAbove := func(limit uint64) func(*routerpb.Table) error {
		return func(t *routerpb.Table) error {
			if t.GetRef().GetRevision() > limit {
				return errors.New("too new")
			}
			return nil
		}
	}
	if got, err := d.Load(refuseAbove(5)); err != nil || got.Table.GetRef().GetRevision() != 5 {
		t.Errorf("oldest kept: %v, %v, want revision 5", got.Table.GetRef(), err)
	}
	if _, err := d.Load(refuseAbove(4)); !errors.Is(err, ErrNone) {
		t.Errorf("older than the oldest: %v, want ErrNone", err)
	}
}

func TestADamagedFileFallsBackToTheOneBefore(t *testing.T) {
	damage := map[string]func([]byte) []byte{
		"empty":            func([]byte) []byte { return nil },
		"cut in half":      func(b []byte) []byte { return b[:len(b)/2] },
		"cut by one byte":  func(b []byte) []byte { return b[:len(b)-1] },
		"one bit flipped":  func(b []byte) []byte { b[len(b)/2] ^= 4; return b },
		"another format":   func(b []byte) []byte { b[len(magic)+3] = 9; return b },
		"another magic":    func(b []byte) []byte { b[0] = 'X'; return b },
		"bytes at the end": func(b []byte) []byte { return append(b, 0) },
		"only the header":  func(b []byte) []byte { return b[:len(magic)+4] },
	}
	for name, hurt := range damage {
		t.Run(name, func(t *testing.T) {
			d, path := open(t)
			save(t, d, numbered(1, 1), numbered(1, 2))
			newest := filepath.Join(path, fileName(numbered(1, 2).GetRef()))
			b, err := os.ReadFile(newest)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(newest, hurt(b), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := d.Load(nil)
			if err != nil {
				t.Fatal(err)
			}
			if got.Table.GetRef().GetRevision() != 1 || len(got.Skipped) != 1 {
				t.Errorf("loaded %v after skipping %v, want revision 1 after one", got.Table.GetRef(), got.Skipped)
			}
			if !strings.Contains(got.Skipped[0].Error(), filepath.Base(newest)) {
				t.Errorf("reason %q does not name the file", got.Skipped[0])
			}
		})
	}
}

func TestHeaderAndTableMustAgree(t *testing.T) {
	b, err := encode(numbered(1, 2), time.UnixMilli(1))
	if err != nil {
		t.Fatal(err)
	}
	revision := len(magic) + 4 + 2 + len("c-1") + 8
	b[revision+7] = 3
	body := b[:len(b)-sha256.Size]
	sum := sha256.Sum256(body)
	if _, _, err := decode(append(body, sum[:]...)); err == nil || !strings.Contains(err.Error(), "different tables") {
		t.Errorf("header of revision 3 over table 2: %v", err)
	}
}

func TestAnEmptyFolderHoldsNone(t *testing.T) {
	d, _ := open(t)
	got, err := d.Load(nil)
	if !errors.Is(err, ErrNone) || got.Table != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestOpenSweepsHalfWrittenFilesAndLeavesOthers(t *testing.T) {
	d, path := open(t)
	save(t, d, numbered(1, 1))
	half := filepath.Join(path, fileName(numbered(1, 2).GetRef())+temporary)
	note := filepath.Join(path, "note.txt")
	for _, f := range []string{half, note} {
		if err := os.WriteFile(f, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(half); !os.IsNotExist(err) {
		t.Errorf("half-written file: %v, want gone", err)
	}
	if _, err := os.Stat(note); err != nil {
		t.Errorf("somebody's note: %v", err)
	}
	if got, err := again.Load(nil); err != nil || got.Table.GetRef().GetRevision() != 1 {
		t.Errorf("loaded %v, %v", got.Table.GetRef(), err)
	}
}

func TestSaveRefusesWhatItCouldNotLoad(t *testing.T) {
	d, path := open(t)
	for name, table := range map[string]*routerpb.Table{
		"no number":       {},
		"long cluster id": {Ref: &routerpb.TableRef{ClusterId: strings.Repeat("x", 256)}},
	} {
		if err := d.Save(table, time.UnixMilli(1)); err == nil {
			t.Errorf("%s: saved", name)
		}
	}
	if entries, _ := os.ReadDir(path); len(entries) != 0 {
		t.Errorf("left %v", entries)
	}
}

func TestOpenNamesWhatIsWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", filepath.Join(file, "below")} {
		if _, err := Open(path); err == nil {
			t.Errorf("opened %q", path)
		}
	}
}

func FuzzDecode(f *testing.F) {
	whole, err := encode(numbered(1, 2), time.UnixMilli(3))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:20])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, at, err := decode(data)
		if err != nil {
			return
		}
		again, err := encode(table, at)
		if err != nil {
			t.Fatalf("decoded but can't be encoded: %v", err)
		}
		back, _, err := decode(again)
		if err != nil || !proto.Equal(back, table) {
			t.Fatalf("round trip: %v, %v", back, err)
		}
	})
}

// The bytes of format 1, by hand: a build that reads or writes others must raise the format.
func TestTheLayoutIsWhatIsDocumented(t *testing.T) {
	table := &routerpb.Table{Ref: &routerpb.TableRef{ClusterId: "c-1", Epoch: 2, Revision: 3}}
	payload, err := proto.Marshal(table)
	if err != nil {
		t.Fatal(err)
	}
	want := []byte("ANBTABLE\x00\x00\x00\x01\x00\x03c-1")
	want = append(want, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 1, 0)
	want = append(want, 0, 0, 0, 0, 0, 0, 0, byte(len(payload)))
	want = append(want, payload...)
	sum := sha256.Sum256(want)
	want = append(want, sum[:]...)
	got, err := encode(table, time.UnixMilli(256))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
	back, at, err := decode(want)
	if err != nil || !proto.Equal(back, table) || at.UnixMilli() != 256 {
		t.Errorf("read back %v, %v, %v", back, at, err)
	}
}

func TestAFailedSaveLeavesNothingBehind(t *testing.T) {
	d, path := open(t)
	save(t, d, numbered(1, 1))
	// A folder in the place of the file can't be replaced by it.
	if err := os.MkdirAll(filepath.Join(path, fileName(numbered(1, 2).GetRef()), "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.Save(numbered(1, 2), time.UnixMilli(1)); err == nil || !strings.Contains(err.Error(), "save table 2") {
		t.Errorf("error %v", err)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), temporary) {
			t.Errorf("%s was left", e.Name())
		}
	}
	if got, err := d.Load(nil); err != nil || got.Table.GetRef().GetRevision() != 1 {
		t.Errorf("loaded %v, %v", got.Table.GetRef(), err)
	}
}
