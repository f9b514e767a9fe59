package credential

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/api/fleet"
)

// world is a store with a clock of its own and a log that can be read.
type world struct {
	*Store
	t    *testing.T
	ns   atomic.Int64
	logs bytes.Buffer
	dir  string
}

func newWorld(t *testing.T, below bool) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	w.ns.Store(time.Now().UnixNano())
	o := Options{
		Now:    func() time.Time { return time.Unix(0, w.ns.Load()) },
		Logger: slog.New(slog.NewTextHandler(&w.logs, nil)),
	}
	if below {
		o.Dir = w.dir
	}
	w.Store = New(o)
	t.Cleanup(w.Close)
	return w
}

func (w *world) pass(d time.Duration) { w.ns.Add(int64(d)) }

func (w *world) write(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// place is a cluster as far as its credential goes.
type place struct {
	ID   fleet.ClusterID
	Auth *Spec
}

func cluster(c Spec) *place { return &place{ID: "eu-a", Auth: &c} }

// authorization is what a request to a cluster says of who sends it.
func (w *world) authorization(c *place) (string, error) {
	w.t.Helper()
	credential, err := w.For(c.ID, c.Auth)
	if err != nil {
		return "", err
	}
	r := request("POST", "https://a.example.com/v1/x")
	if err := credential.Sign(r, []byte("body")); err != nil {
		w.t.Fatal(err)
	}
	return r.Header.Get("Authorization"), nil
}

func (w *world) expect(c *place, want string) {
	w.t.Helper()
	if got, err := w.authorization(c); err != nil || got != want {
		w.t.Errorf("authorization %q, %v; want %q", got, err, want)
	}
}

func TestAClusterWithoutAuthWantsNothing(t *testing.T) {
	w := newWorld(t, false)
	credential, err := w.For("open", nil)
	if err != nil || credential != nil {
		t.Fatalf("got %v, %v", credential, err)
	}
	r := request("GET", "http://a/")
	if err := credential.Sign(r, nil); err != nil || len(r.Header) != 0 || credential.Transport() != nil {
		t.Errorf("a nil credential: %v, header %v", err, r.Header)
	}
}

func TestATokenIsReadAgainWhenItsFileChanges(t *testing.T) {
	w := newWorld(t, false)
	path := w.write("token", "one\n")
	c := cluster(Spec{Type: Bearer, File: path})
	w.expect(c, "Bearer one")
	w.write("token", "two\n")
	w.expect(c, "Bearer one") // it is looked at once a second
	w.pass(lookEvery)
	w.expect(c, "Bearer two")
	w.write("token", "a\nb") // half replaced
	w.pass(lookEvery)
	w.expect(c, "Bearer two")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w.pass(lookEvery)
	w.expect(c, "Bearer two")
	w.write("token", "three")
	w.pass(lookEvery)
	w.expect(c, "Bearer three")
	w.pass(-time.Hour) // the clock is set back
	w.write("token", "four")
	w.expect(c, "Bearer four")
	for _, secret := range []string{"one", "two", "three", "four"} {
		if strings.Contains(w.logs.String(), secret+"\n") || strings.Contains(w.logs.String(), "Bearer") {
			t.Errorf("the log has a secret:\n%s", w.logs.String())
		}
	}
}

// Kubernetes replaces a mounted secret by turning a link to another folder.
func TestATokenBehindATurnedLinkIsReadAgain(t *testing.T) {
	for name, below := range map[string]bool{"anywhere": false, "below a folder": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, below)
			for _, version := range []string{"..1", "..2"} {
				if err := os.Mkdir(filepath.Join(w.dir, version), 0o700); err != nil {
					t.Fatal(err)
				}
				w.write(filepath.Join(version, "token"), "of"+version)
			}
			link := func(from, to string) {
				t.Helper()
				next := filepath.Join(w.dir, "next")
				if err := os.Symlink(to, next); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(next, filepath.Join(w.dir, from)); err != nil {
					t.Fatal(err)
				}
			}
			link("..data", "..1")
			link("token", "..data/token")
			c := cluster(Spec{Type: Bearer, File: filepath.Join(w.dir, "token")})
			w.expect(c, "Bearer of..1")
			link("..data", "..2")
			w.pass(lookEvery)
			w.expect(c, "Bearer of..2")
		})
	}
}

// Files of equal size that change twice within what their times can tell apart are read twice.
func TestAChangeThatNoTimeTellsIsSeen(t *testing.T) {
	w := newWorld(t, false)
	path := w.write("token", "one")
	c := cluster(Spec{Type: Bearer, File: path})
	at := time.Unix(0, w.ns.Load())
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
	w.expect(c, "Bearer one")
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("two"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
	w.pass(lookEvery)
	w.expect(c, "Bearer two")
}

func TestATokenFromTheEnvironment(t *testing.T) {
	w := newWorld(t, false)
	c := cluster(Spec{Type: Bearer, Env: "ANABRANCH_TEST_TOKEN"})
	if _, err := w.authorization(c); err == nil || !strings.Contains(err.Error(), "variable ANABRANCH_TEST_TOKEN is not set") {
		t.Errorf("error %v", err)
	}
	t.Setenv("ANABRANCH_TEST_TOKEN", "one")
	w.pass(lookEvery)
	w.expect(c, "Bearer one")
}

func TestKeysOfASharedFileSign(t *testing.T) {
	w := newWorld(t, false)
	path := w.write("credentials", "[default]\naws_access_key_id = AKIA1\naws_secret_access_key = s1\n"+
		"[gpu]\naws_access_key_id=AKIA2\naws_secret_access_key=s2\naws_session_token=t2\n")
	spec := Spec{Type: SigV4, File: path, Region: "eu-west-1", Service: "sagemaker"}
	for profile, id := range map[string]string{"": "AKIA1", "gpu": "AKIA2"} {
		spec.Profile = profile
		got, err := w.authorization(cluster(spec))
		if err != nil || !strings.HasPrefix(got, "AWS4-HMAC-SHA256 Credential="+id+"/") || !strings.Contains(got, "/eu-west-1/sagemaker/aws4_request") {
			t.Errorf("profile %q: %q, %v", profile, got, err)
		}
	}
	spec.Profile = "gone"
	if _, err := w.authorization(cluster(spec)); err == nil || !strings.Contains(err.Error(), `no profile "gone"`) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
}

func TestKeysOfTheEnvironmentSign(t *testing.T) {
	w := newWorld(t, false)
	c := cluster(Spec{Type: SigV4, Env: "GPU", Region: "eu-west-1", Service: "sagemaker"})
	for _, name := range []string{"GPU_ACCESS_KEY_ID", "GPU_SECRET_ACCESS_KEY"} {
		if _, err := w.authorization(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v does not name %s", err, name)
		}
		t.Setenv(name, "K"+name)
		w.pass(lookEvery)
	}
	t.Setenv("GPU_SESSION_TOKEN", "session")
	got, err := w.authorization(c)
	if err != nil || !strings.Contains(got, "Credential=KGPU_ACCESS_KEY_ID/") || !strings.Contains(got, "x-amz-security-token") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAFailureThatLastsIsToldOnce(t *testing.T) {
	w := newWorld(t, false)
	c := cluster(Spec{Type: Bearer, File: w.write("token", "one")})
	w.expect(c, "Bearer one")
	w.write("token", "")
	for range 5 {
		w.pass(lookEvery)
		w.expect(c, "Bearer one")
	}
	if n := strings.Count(w.logs.String(), "can't be read again"); n != 1 {
		t.Errorf("told %d times:\n%s", n, w.logs.String())
	}
}

func TestSyncForgetsWhatNoClusterNames(t *testing.T) {
	w := newWorld(t, false)
	a := cluster(Spec{Type: Bearer, File: w.write("a", "a")})
	b := cluster(Spec{Type: Bearer, File: w.write("b", "b")})
	missing := cluster(Spec{Type: Bearer, File: filepath.Join(w.dir, "missing")})
	w.expect(a, "Bearer a")
	w.Sync(map[fleet.ClusterID]*Spec{"b": b.Auth, "missing": missing.Auth, "open": nil})
	slots := *w.slots.Load()
	if slots[*a.Auth] != nil || slots[*b.Auth] == nil || len(slots) != 2 {
		t.Errorf("keeps %v", slots)
	}
	if slots[*b.Auth].held.Load() == nil {
		t.Error("what the table names was not read")
	}
	if !strings.Contains(w.logs.String(), "missing") {
		t.Errorf("what is missing was not told:\n%s", w.logs.String())
	}
	w.expect(a, "Bearer a") // a request that holds an older table
}

// A slow disk holds up one request and not the others.
func TestNobodyWaitsForAReadingButTheFirst(t *testing.T) {
	w := newWorld(t, false)
	c := cluster(Spec{Type: Bearer, File: w.write("token", "one")})
	w.expect(c, "Bearer one")
	at := (*w.slots.Load())[*c.Auth]
	at.loading.Lock() // somebody reads, and gets nowhere
	defer at.loading.Unlock()
	w.pass(time.Minute)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.expect(c, "Bearer one")
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("it waits")
	}
}

func TestManyMayAskAtOnceWhileFilesChange(t *testing.T) {
	w := newWorld(t, false)
	var clusters []*place
	for i := range 4 {
		path := w.write(fmt.Sprint("token", i), "first")
		clusters = append(clusters, &place{
			ID: fleet.ClusterID(fmt.Sprint(i)), Auth: &Spec{Type: Bearer, File: path},
		})
	}
	var workers sync.WaitGroup
	for n := range 4 {
		workers.Go(func() {
			for i := range 500 {
				got, err := w.authorization(clusters[(i+n)%len(clusters)])
				if err != nil || got != "Bearer first" && got != "Bearer other" {
					t.Errorf("%q, %v", got, err)
					return
				}
				w.pass(100 * time.Millisecond)
			}
		})
	}
	for i := range clusters {
		// Replaced whole, as whoever rotates secrets does.
		next := w.write("next", "other")
		if err := os.Rename(next, filepath.Join(w.dir, fmt.Sprint("token", i))); err != nil {
			t.Fatal(err)
		}
		w.Sync(map[fleet.ClusterID]*Spec{"0": clusters[0].Auth, "1": clusters[1].Auth})
	}
	workers.Wait()
	w.pass(lookEvery)
	for _, c := range clusters {
		w.expect(c, "Bearer other")
	}
}

func TestAskingAgainCostsNothing(t *testing.T) {
	w := newWorld(t, false)
	c := cluster(Spec{Type: Bearer, File: w.write("token", "one")})
	w.expect(c, "Bearer one")
	if n := testing.AllocsPerRun(100, func() {
		if _, err := w.For(c.ID, c.Auth); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFor(b *testing.B) {
	path := filepath.Join(b.TempDir(), "token")
	if err := os.WriteFile(path, []byte("one"), 0o600); err != nil {
		b.Fatal(err)
	}
	s := New(Options{Logger: slog.New(slog.DiscardHandler)})
	c := cluster(Spec{Type: Bearer, File: path})
	h := http.Header{}
	r := &http.Request{Header: h}
	b.ReportAllocs()
	for b.Loop() {
		credential, err := s.For(c.ID, c.Auth)
		if err != nil {
			b.Fatal(err)
		}
		if err := credential.Sign(r, nil); err != nil {
			b.Fatal(err)
		}
	}
}
