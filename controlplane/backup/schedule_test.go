package backup

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/controlplane/state"
)

// rig is a schedule of a node whose leadership, disk and place a test decides on.
type rig struct {
	*Schedule
	t     *testing.T
	dir   Dir
	place *moody

	mu      sync.Mutex // guards what is below
	leading bool
	barrier error
}

// moody is a folder that fails on command.
type moody struct {
	Dir
	mu   sync.Mutex // guards what is below
	fail error
}

func (m *moody) set(err error) { m.mu.Lock(); defer m.mu.Unlock(); m.fail = err }

func (m *moody) failing() error { m.mu.Lock(); defer m.mu.Unlock(); return m.fail }

func (m *moody) Put(ctx context.Context, name string, archive io.ReadSeeker, size int64) error {
	if err := m.failing(); err != nil {
		return err
	}
	return m.Dir.Put(ctx, name, archive, size)
}

func newRig(t *testing.T, interval time.Duration, keep int) *rig {
	t.Helper()
	dir := Dir(filepath.Join(t.TempDir(), "backups"))
	r := &rig{t: t, dir: dir, place: &moody{Dir: dir}, leading: true}
	v := view(t, 2)
	s, err := New(Options{
		Places: []Place{r.place}, Interval: interval, Keep: keep, Scratch: filepath.Join(t.TempDir(), "scratch"),
		Leading:     func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.leading },
		ReadBarrier: func(context.Context) error { r.mu.Lock(); defer r.mu.Unlock(); return r.barrier },
		View:        func() *state.View { return v },
		Node:        "n1", Version: "test", Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Schedule = s
	return r
}

// run lets the schedule run, and stops it at the end of the test.
func (r *rig) run() {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	})
}

func (r *rig) lead(on bool) { r.mu.Lock(); defer r.mu.Unlock(); r.leading = on }

func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time of synctest
	synctest.Wait()
}

func (r *rig) files() []string {
	r.t.Helper()
	names, err := r.dir.Names(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, n := range names {
		if _, _, err := Load(filepath.Join(string(r.dir), n)); err != nil {
			r.t.Errorf("%s is not good: %v", n, err)
		}
	}
	return names
}

// metrics by name; those that are not there are NaN.
func (r *rig) metric(name string) float64 {
	r.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(r.Schedule); err != nil {
		r.t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "anabranch_controlplane_"+name {
			m := f.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return math.NaN()
}

func TestTheNewestBackupsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour, 3)
		r.run()
		pass(time.Minute)
		if got := r.files(); len(got) != 1 || r.metric("backup_age_seconds") != 60 {
			t.Fatalf("the first is taken at once: %v, age %v", got, r.metric("backup_age_seconds"))
		}
		first := r.files()[0]
		for range 5 {
			pass(time.Hour)
		}
		got := r.files()
		if len(got) != 3 || slices.Contains(got, first) || r.metric("backups_total") != 6 || r.metric("backup_failures_total") != 0 {
			t.Errorf("kept %v of %v taken", got, r.metric("backups_total"))
		}
		for i := 1; i < len(got); i++ {
			a, _ := timeOf(got[i-1])
			b, ok := timeOf(got[i])
			if gap := b.Sub(a); !ok || gap < time.Hour || gap > time.Hour+10*time.Second {
				t.Errorf("%s apart", gap)
			}
		}
	})
}

func TestOnlyTheLeaderTakesBackups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour, 3)
		r.lead(false)
		r.run()
		pass(5 * time.Hour)
		if got := r.files(); len(got) > 0 || !math.IsNaN(r.metric("backup_age_seconds")) {
			t.Errorf("a follower took %v", got)
		}
		r.lead(true)
		pass(time.Minute)
		if len(r.files()) != 1 {
			t.Fatal("a new leader took none")
		}
		// It loses the leadership for a moment: the place shows that the last one is young.
		r.lead(false)
		pass(time.Minute)
		if !math.IsNaN(r.metric("backup_age_seconds")) {
			t.Error("a follower tells an age")
		}
		r.lead(true)
		pass(30 * time.Minute)
		if len(r.files()) != 1 || r.metric("backup_age_seconds") < 1800 {
			t.Errorf("%v, age %v", r.files(), r.metric("backup_age_seconds"))
		}
		pass(30 * time.Minute)
		if len(r.files()) != 2 {
			t.Errorf("after the interval there are %v", r.files())
		}
	})
}

func TestWhatFailsIsCountedAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour, 3)
		r.place.set(errors.New("disk full"))
		r.run()
		pass(5*time.Minute + time.Second)
		if n := r.metric("backup_failures_total"); n < 5 || n > 6 || len(r.files()) > 0 {
			t.Errorf("%v failures in five minutes", n)
		}
		if age := r.metric("backup_age_seconds"); !math.IsInf(age, 1) {
			t.Errorf("age %v without any backup", age)
		}
		r.place.set(nil)
		r.mu.Lock()
		r.barrier = errors.New("no leader")
		r.mu.Unlock()
		before := r.metric("backup_failures_total")
		pass(2 * time.Minute)
		if r.metric("backup_failures_total") <= before || len(r.files()) > 0 {
			t.Error("a backup was taken of a state that may be old")
		}
		r.mu.Lock()
		r.barrier = nil
		r.mu.Unlock()
		pass(2 * time.Minute)
		if len(r.files()) != 1 || r.metric("backup_age_seconds") > 120 {
			t.Errorf("%v, age %v", r.files(), r.metric("backup_age_seconds"))
		}
		if left, err := os.ReadDir(r.o.Scratch); err != nil || len(left) > 0 {
			t.Errorf("left in the scratch folder: %v, %v", left, err)
		}
	})
}

// Other files, and those of another cluster, are neither counted nor deleted.
func TestStrangersStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour, 1)
		if err := os.MkdirAll(string(r.dir), 0o700); err != nil {
			t.Fatal(err)
		}
		strangers := []string{"notes.txt", "anabranch-c-2-20991231T000000.000Z-1-5.backup", "anabranch-c-1-x-1-5.backup", "anabranch-c-1.backup"}
		for _, name := range strangers {
			if err := os.WriteFile(filepath.Join(string(r.dir), name), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r.run()
		pass(3*time.Hour + time.Minute)
		names, err := r.dir.Names(t.Context())
		if err != nil || len(names) != len(strangers)+1 {
			t.Errorf("%v, %v", names, err)
		}
		for _, name := range strangers {
			if !slices.Contains(names, name) {
				t.Errorf("%s is gone", name)
			}
		}
	})
}

func TestNamesSortByAge(t *testing.T) {
	var before string
	for i, at := range []time.Time{time.Unix(1, 0), time.Unix(1, 5e6), time.Unix(2e9, 0)} {
		name := Name(Meta{ClusterID: "9b2f-aa", Epoch: 2, Revision: uint64(100 - i), Origin: Origin{At: at}})
		if back, ok := timeOf(name); !ok || !back.Equal(at) || name <= before {
			t.Errorf("%s gives %v, after %s", name, back, before)
		}
		before = name
	}
}

func TestAFolderTakesOnlyWhatIsGood(t *testing.T) {
	d := Dir(filepath.Join(t.TempDir(), "new"))
	good := string(archive(t, view(t, 1)))
	for name, c := range map[string]struct {
		in   string
		size int
		ok   bool
	}{
		"good":      {good, len(good), true},
		"cut":       {good[:50], 50, false},
		"too short": {good, len(good) + 1, false},
	} {
		err := d.Put(t.Context(), name+suffix, strings.NewReader(c.in), int64(c.size))
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	names, err := d.Names(t.Context())
	if err != nil || len(names) != 1 || names[0] != "good"+suffix {
		t.Errorf("%v, %v", names, err)
	}
	if err := d.Delete(t.Context(), "good"+suffix); err != nil {
		t.Error(err)
	}
	if err := d.Delete(t.Context(), "good"+suffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("twice: %v", err)
	}
}

func TestWhatCrashesLeftIsSweptOnceItIsOld(t *testing.T) {
	d := Dir(t.TempDir())
	good := string(archive(t, view(t, 1)))
	old := time.Now().Add(-3 * timeout)
	for name, at := range map[string]time.Time{
		"anabranch-c-1.backup.part": old, "anabranch-c-2.backup.part": time.Now(), "anabranch-c-3.backup": old, "other.part": old,
	} {
		path := filepath.Join(string(d), name)
		if err := errors.Join(os.WriteFile(path, []byte("x"), 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Put(t.Context(), "new", strings.NewReader(good), int64(len(good))); err != nil {
		t.Fatal(err)
	}
	names, err := d.Names(t.Context())
	if want := []string{"anabranch-c-2.backup.part", "anabranch-c-3.backup", "new", "other.part"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("left are %v, %v", names, err)
	}
}

func TestOptionsNameWhatIsMissing(t *testing.T) {
	good := newRig(t, 0, 0).o
	if good.Interval != DefaultInterval || good.Keep != DefaultKeep {
		t.Errorf("defaults %s, %d", good.Interval, good.Keep)
	}
	for want, change := range map[string]func(*Options){
		"Places": func(o *Options) { o.Places = nil }, "Interval": func(o *Options) { o.Interval = time.Millisecond },
		"Keep": func(o *Options) { o.Keep = -1 }, "Scratch": func(o *Options) { o.Scratch = "" }, "View": func(o *Options) { o.View = nil },
	} {
		o := good
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
