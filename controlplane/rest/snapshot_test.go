package rest

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/controlplane/backup"
	"anabranch/controlplane/state"
)

func TestASnapshotIsTheStateThatWasCommittedBefore(t *testing.T) {
	d := newDouble(t)
	d.do("operator", "POST", "/v1/regions", doc("Region", "us", "{zone: us}"), "Content-Type: application/yaml").want(201, "")
	a := d.do("admin", "GET", "/v1/controlplane/snapshot", "").want(200, "")
	m, v, err := backup.Read(bytes.NewReader(a.body))
	if err != nil || !state.Equal(v, d.current()) {
		t.Fatalf("%+v, %v", m, err)
	}
	if m.ClusterID != "c-1" || m.Node != "n2" || m.Version != "test" || !m.At.Equal(epoch) {
		t.Errorf("meta data %+v", m)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/octet-stream", "X-Staleness-Ms": "0", "X-Anabranch-Revision": strconv.FormatUint(m.Revision, 10),
		"Content-Disposition": `attachment; filename="anabranch-c-1-1-2.backup"`,
	} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestASnapshotOfALeaderlessNodeMustBeAskedForAsStale(t *testing.T) {
	d := newDouble(t)
	d.failing(errNoLeaderForTest)
	d.do("admin", "GET", "/v1/controlplane/snapshot", "").want(503, "no_leader")
	a := d.do("admin", "GET", "/v1/controlplane/snapshot?consistency=stale", "").want(200, "")
	if _, _, err := backup.Read(bytes.NewReader(a.body)); err != nil || a.header.Get("X-Staleness-Ms") != "250" {
		t.Errorf("%v, staleness %q", err, a.header.Get("X-Staleness-Ms"))
	}
}

// slow holds the first write until it is let go.
type slow struct {
	*httptest.ResponseRecorder
	once    sync.Once
	written chan struct{}
	release chan struct{}
	largest int
}

func (s *slow) Write(b []byte) (int, error) {
	s.once.Do(func() { close(s.written); <-s.release })
	s.largest = max(s.largest, len(b))
	return s.ResponseRecorder.Write(b)
}

func TestANodeWritesOneSnapshotAtATime(t *testing.T) {
	d := newUnserved(t)
	request := func() *http.Request {
		r := httptest.NewRequest(http.MethodGet, "/v1/controlplane/snapshot", nil)
		r.Header.Set("Authorization", "Bearer secret-admin")
		return r
	}
	first := &slow{ResponseRecorder: httptest.NewRecorder(), written: make(chan struct{}), release: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.server.Handler().ServeHTTP(first, request())
	}()
	select {
	case <-first.written:
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was written")
	}
	second := httptest.NewRecorder()
	d.server.Handler().ServeHTTP(second, request())
	if second.Code != http.StatusServiceUnavailable || !strings.Contains(second.Body.String(), `"busy"`) {
		t.Errorf("a second one at once: %d %s", second.Code, second.Body)
	}
	close(first.release)
	<-done
	third := httptest.NewRecorder()
	d.server.Handler().ServeHTTP(third, request())
	if first.Code != http.StatusOK || third.Code != http.StatusOK || !bytes.Equal(first.Body.Bytes(), third.Body.Bytes()) {
		t.Errorf("the first %d, one after it %d", first.Code, third.Code)
	}
}

func TestLongAnswersAreWrittenInPieces(t *testing.T) {
	w := &slow{ResponseRecorder: httptest.NewRecorder(), written: make(chan struct{}), release: make(chan struct{})}
	close(w.release)
	in := bytes.Repeat([]byte("0123456789abcdef"), snapshotPiece/8)
	n, err := pieces{w, http.NewResponseController(w)}.Write(in)
	if err != nil || n != len(in) || !bytes.Equal(w.Body.Bytes(), in) || w.largest > snapshotPiece {
		t.Errorf("%d of %d bytes, the largest piece %d, %v", n, len(in), w.largest, err)
	}
}

// broken fails after some bytes, as a client that has left.
type broken struct {
	*httptest.ResponseRecorder
	left int
}

func (b *broken) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, http.ErrHandlerTimeout
	}
	return b.ResponseRecorder.Write(p)
}

func TestASnapshotThatIsCutOffEndsTheConnection(t *testing.T) {
	d := newUnserved(t)
	r := httptest.NewRequest(http.MethodGet, "/v1/controlplane/snapshot", nil)
	r.Header.Set("Authorization", "Bearer secret-admin")
	var ended any
	func() {
		defer func() { ended = recover() }()
		d.server.Handler().ServeHTTP(&broken{httptest.NewRecorder(), 300}, r)
	}()
	if err, ok := ended.(error); !ok || err.Error() != http.ErrAbortHandler.Error() {
		t.Errorf("it ended with %v: the client would take what it has for the whole", ended)
	}
	if d.server.archiving.Load() {
		t.Error("no other will ever be written")
	}
}
