package lastgood

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"anabranch/dataplane/table"
)

var start = time.UnixMilli(1_700_000_000_000)

func ref(revision uint64) table.Ref { return table.Ref{ClusterID: "c-1", Epoch: 1, Revision: revision} }

// restart opens the folder as the next start of a router does.
func restart(t *testing.T, path string) (*Dir, []uint64) {
	t.Helper()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	suspects, err := d.Started(start)
	if err != nil {
		t.Fatal(err)
	}
	var revisions []uint64
	for _, s := range suspects {
		if s.ClusterID != "c-1" || s.Epoch != 1 {
			t.Errorf("suspect %v", s)
		}
		revisions = append(revisions, s.Revision)
	}
	return d, revisions
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTwoStartsThatFindTheSameTablesSuspectThem(t *testing.T) {
	d, path := open(t)
	must(t, d.Try(ref(4), start))
	must(t, d.Try(ref(5), start.Add(time.Second)))
	if _, suspects := restart(t, path); len(suspects) != 0 {
		t.Errorf("after one end %v are suspects", suspects)
	}
	for range 3 { // they stay suspects
		if _, suspects := restart(t, path); !slices.Equal(suspects, []uint64{4, 5}) {
			t.Errorf("suspects %v, want 4 and 5", suspects)
		}
	}
}

func TestATrialEnds(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*testing.T, *Dir)
		want []uint64
	}{
		"not of tables that are too young": {func(t *testing.T, d *Dir) { must(t, d.Prove(start)) }, []uint64{4, 5}},
		"of tables that are old enough":    {func(t *testing.T, d *Dir) { must(t, d.Prove(start.Add(time.Millisecond))) }, []uint64{5}},
		"of all":                           {func(t *testing.T, d *Dir) { must(t, d.Prove(start.Add(time.Hour))) }, nil},
		"when the router ends well":        {func(t *testing.T, d *Dir) { must(t, d.End()) }, nil},
		"when they are acquitted":          {func(t *testing.T, d *Dir) { must(t, d.Acquit()) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d, path := open(t)
			must(t, d.Try(ref(4), start))
			must(t, d.Try(ref(5), start.Add(time.Second)))
			c.do(t, d)
			_, _ = restart(t, path)
			if _, suspects := restart(t, path); !slices.Equal(suspects, c.want) {
				t.Errorf("suspects %v, want %v", suspects, c.want)
			}
			if _, err := os.Stat(filepath.Join(path, trialName)); (err == nil) != (c.want != nil) {
				t.Errorf("file: %v", err)
			}
		})
	}
}

func TestSuspectsStayUntilAnotherTableIsTried(t *testing.T) {
	d, path := open(t)
	must(t, d.Try(ref(5), start))
	_, _ = restart(t, path)
	d, _ = restart(t, path)
	must(t, d.Prove(start.Add(time.Hour))) // of suspects, which are not in force
	must(t, d.End())
	d, suspects := restart(t, path)
	if !slices.Equal(suspects, []uint64{5}) {
		t.Errorf("suspects %v, want 5", suspects)
	}
	must(t, d.Try(ref(6), start))
	if _, suspects := restart(t, path); len(suspects) != 0 {
		t.Errorf("suspects %v after another was tried", suspects)
	}
	if _, suspects := restart(t, path); !slices.Equal(suspects, []uint64{6}) {
		t.Errorf("suspects %v, want 6", suspects)
	}
}

func TestAGoodStretchBetweenTwoEndsIsNoLoop(t *testing.T) {
	d, path := open(t)
	must(t, d.Try(ref(5), start))
	d, _ = restart(t, path)
	must(t, d.Prove(start.Add(time.Hour)))
	must(t, d.Try(ref(6), start))
	if _, suspects := restart(t, path); len(suspects) != 0 {
		t.Errorf("suspects %v", suspects)
	}
}

func TestOfTablesOnTrialTheLastProvedIsKept(t *testing.T) {
	d, _ := open(t)
	save(t, d, numbered(1, 1), numbered(1, 2))
	for i := range uint64(Keep + 5) {
		must(t, d.Try(ref(i+3), start))
		save(t, d, numbered(1, i+3))
	}
	refs, err := d.Refs()
	must(t, err)
	if len(refs) != Keep+1 || refs[0] != ref(Keep+7) || refs[Keep] != ref(2) {
		t.Errorf("kept %v, want the newest %d and 2", refs, Keep)
	}
	must(t, d.Prove(start.Add(time.Second)))
	save(t, d, numbered(1, 100))
	if refs, err = d.Refs(); err != nil || len(refs) != Keep || refs[0] != ref(100) {
		t.Errorf("kept %v, %v", refs, err)
	}
}

func TestManyTablesOnTrialAreBounded(t *testing.T) {
	d, path := open(t)
	for i := range uint64(maxTrial + 5) {
		must(t, d.Try(ref(i+1), start))
	}
	_, _ = restart(t, path)
	if _, suspects := restart(t, path); len(suspects) != maxTrial || suspects[maxTrial-1] != maxTrial+5 {
		t.Errorf("%d suspects to %v", len(suspects), suspects[len(suspects)-1])
	}
}

func TestAMarkThatCantBeReadSuspectsNobody(t *testing.T) {
	for name, text := range map[string]string{
		"no json":         "{",
		"another version": `{"version": 2, "starts": 9, "tables": [{}]}`,
		"too large":       strings.Repeat(" ", maxTrialFile+1),
		"too many":        `{"version": 1, "tables": [` + strings.Repeat("{},", maxTrial) + `{}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			d, path := open(t)
			must(t, os.WriteFile(filepath.Join(path, trialName), []byte(text), 0o600))
			suspects, err := d.Started(start)
			if err == nil || len(suspects) != 0 {
				t.Errorf("suspects %v, %v", suspects, err)
			}
			must(t, d.Try(ref(1), start))
			if _, suspects := restart(t, path); len(suspects) != 0 {
				t.Errorf("suspects %v", suspects)
			}
		})
	}
}

func TestTablesAreFoundByNumber(t *testing.T) {
	d, path := open(t)
	save(t, d, numbered(1, 7), numbered(1, 9), numbered(2, 7), numbered(2, 3))
	for _, c := range []struct{ epoch, revision, want uint64 }{{1, 7, 1}, {0, 7, 2}, {2, 7, 2}, {0, 9, 1}, {2, 9, 0}, {0, 8, 0}} {
		got, err := d.Find(c.epoch, c.revision)
		if c.want == 0 {
			if err == nil {
				t.Errorf("%d/%d: found %v", c.epoch, c.revision, got.Table.GetRef())
			}
			continue
		}
		if err != nil || got.Table.GetRef().GetEpoch() != c.want || got.Table.GetRef().GetRevision() != c.revision {
			t.Errorf("%d/%d: found %v, %v; want epoch %d", c.epoch, c.revision, got.Table.GetRef(), err, c.want)
		}
	}
	refs, err := d.Refs()
	if err != nil || len(refs) != 4 || refs[0] != (table.Ref{ClusterID: "c-1", Epoch: 2, Revision: 7}) || refs[3] != ref(7) {
		t.Errorf("refs %v, %v", refs, err)
	}
	must(t, os.WriteFile(filepath.Join(path, fileName(numbered(3, 1).GetRef())), []byte(magic), 0o600))
	must(t, d.Drop([]table.Ref{ref(7), ref(8)}))
	if refs, err = d.Refs(); err != nil || len(refs) != 3 {
		t.Errorf("after one is dropped and one is damaged: %v, %v", refs, err)
	}
	if _, err := d.Find(3, 1); err == nil || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("a damaged one: %v", err)
	}
}
