package override

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// run keeps a book running on a folder until the test or stop ends it.
func run(t *testing.T, dir string) (b *Book, stop func()) {
	t.Helper()
	b, err := New(Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(stop)
	return b, stop
}

// short is a folder whose path leaves room for a socket.
func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "anb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // of a test
	return dir
}

func listens(t *testing.T, path string) {
	t.Helper()
	eventually(t, "the socket is there", func() bool {
		_, err := Dial(path).List(t.Context())
		return err == nil
	})
}

func TestOrdersAreGivenByTheSocket(t *testing.T) {
	dir := short(t)
	b, stop := run(t, dir)
	path := filepath.Join(dir, SocketName)
	listens(t, path)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || info.Mode().Type() != os.ModeSocket {
		t.Errorf("socket %v, %v", info.Mode(), err)
	}
	c := Dial(path)
	given, err := c.Give(t.Context(), Ask{Kind: Evacuate, Target: "us-a", Actor: "ann", Reason: "firmware", For: "90s"})
	if err != nil {
		t.Fatal(err)
	}
	if given.ID == "" || given.Door != "socket" || given.Expires.Sub(given.At).Seconds() != 90 {
		t.Errorf("given %+v", given)
	}
	if _, yes := b.Current().Evacuated("us-a", "us"); !yes {
		t.Error("it does not hold")
	}
	s, err := c.List(t.Context())
	if err != nil || len(s.Orders) != 1 || s.Orders[0].ID != given.ID || s.Orders[0].Reason != "firmware" {
		t.Errorf("list %+v, %v", s, err)
	}
	if _, err := c.Give(t.Context(), Ask{Kind: Evacuate, Actor: "ann", Reason: "x"}); err == nil || !strings.Contains(err.Error(), "target") {
		t.Errorf("error %v", err)
	}
	if err := c.Cancel(t.Context(), given.ID, "bob & co"); err != nil {
		t.Error(err)
	}
	if err := c.Cancel(t.Context(), given.ID, "bob"); err == nil || !strings.Contains(err.Error(), "no such order") {
		t.Errorf("cancelled twice: %v", err)
	}
	stop()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != keptName {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if _, err := c.List(t.Context()); err == nil || !strings.Contains(err.Error(), "no socket at") {
		t.Errorf("error %v", err)
	}
}

func TestASocketThatACrashLeftIsReplaced(t *testing.T) {
	dir := short(t)
	path := filepath.Join(dir, SocketName)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(path).List(t.Context()); err == nil || !strings.Contains(err.Error(), "is it running?") {
		t.Errorf("error %v", err)
	}
	run(t, dir)
	listens(t, path)
}

func TestTheSocketOfAnotherRouterIsLeftAlone(t *testing.T) {
	dir := short(t)
	first, stop := run(t, dir)
	path := filepath.Join(dir, SocketName)
	listens(t, path)
	second, stopSecond := run(t, dir)
	eventually(t, "the second says why", func() bool {
		return strings.Contains(strings.Join(second.Status().Problems, " "), "another router does")
	})
	if _, err := Dial(path).Give(t.Context(), Ask{Kind: Freeze, Actor: "a", Reason: "b"}); err != nil || !first.Current().Frozen() {
		t.Errorf("the first does not get orders: %v", err)
	}
	stopSecond()
	listens(t, path) // it was not the second's to remove
	stop()
}

func TestAPathThatIsTooLongIsTold(t *testing.T) {
	dir := filepath.Join(short(t), strings.Repeat("x", 100))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	b, _ := run(t, dir)
	eventually(t, "the status says why", func() bool {
		return strings.Contains(strings.Join(b.Status().Problems, " "), "too long for a socket")
	})
	if _, err := b.Give(Ask{Kind: Freeze, Actor: "a", Reason: "b"}); err != nil {
		t.Error(err)
	}
}

func TestTheSocketRefuses(t *testing.T) {
	b, err := New(Options{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		says               string
	}{
		"no json":          {"POST", "/orders", "freeze", 400, "read order"},
		"nothing":          {"POST", "/orders", "", 400, "read order"},
		"two":              {"POST", "/orders", `{"kind":"freeze"} {}`, 400, "something follows"},
		"an unknown field": {"POST", "/orders", `{"kind":"freeze","until":"x"}`, 400, "until"},
		"too much":         {"POST", "/orders", `{"kind":"` + strings.Repeat("x", maxBody) + `"}`, 400, "too large"},
		"a wrong order":    {"POST", "/orders", `{"kind":"freeze"}`, 422, "actor"},
		"an unknown order": {"DELETE", "/orders/x?actor=a", "", 404, "no such order"},
		"by nobody":        {"DELETE", "/orders/x", "", 422, "actor"},
		"another method":   {"PUT", "/orders", "", 405, "Method"},
		"another path":     {"GET", "/", "", 404, "not found"},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			b.Handler().ServeHTTP(w, httptest.NewRequest(c.method, c.path, strings.NewReader(c.body)))
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("%d %s, want %d and %q", w.Code, w.Body, c.status, c.says)
			}
		})
	}
}

func TestOddAnswersAreErrors(t *testing.T) {
	path := filepath.Join(short(t), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusBadGateway)
		}
		_, _ = w.Write([]byte("<html>"))
	}))
	_ = s.Listener.Close() // it gets the socket instead
	s.Listener = l
	s.Start()
	defer s.Close()
	if _, err := Dial(path).List(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
	if _, err := Dial(path).Give(t.Context(), Ask{}); err == nil || !strings.Contains(err.Error(), "502") {
		t.Errorf("error %v", err)
	}
}
