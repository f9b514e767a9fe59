package bucket

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// perPage is how many objects the store lists at once.
const perPage = 2

// store speaks as much of S3's REST API as backups need, for one bucket named "b", addressed by path.
type store struct {
	t   *testing.T
	url string

	mu      sync.Mutex // guards what is below
	objects map[string][]byte
	refuse  int // status of every answer; 0: as it should be
	lists   int // pages asked for
}

func startStore(t *testing.T) *store {
	t.Helper()
	s := &store{t: t, objects: map[string][]byte{}}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	s.url = h.URL
	return s
}

// operationOf names the operation that a request is, its bucket taken off the path.
func operationOf(method, path string, query url.Values) string {
	switch key := strings.TrimPrefix(path, "/"); {
	case method == http.MethodPut && key != "" && (!query.Has("x-id") || query.Get("x-id") == "PutObject"):
		return "PutObject"
	case method == http.MethodDelete && key != "" && (!query.Has("x-id") || query.Get("x-id") == "DeleteObject"):
		return "DeleteObject"
	case method == http.MethodGet && key == "" && query.Get("list-type") == "2":
		return "ListObjectsV2"
	}
	return ""
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	path, own := strings.CutPrefix(r.URL.Path, "/b")
	switch {
	case !own:
		fail(w, http.StatusNotFound, "NoSuchBucket")
	case s.refuse != 0:
		fail(w, s.refuse, "AccessDenied")
	case !signed(r, body):
		fail(w, http.StatusForbidden, "SignatureDoesNotMatch")
	default:
		s.serve(w, operationOf(r.Method, path, r.URL.Query()), strings.TrimPrefix(path, "/"), r, body)
	}
}

// signed checks what a signature is about; that the arithmetic is right is the SDK's own to test.
func signed(r *http.Request, body []byte) bool {
	sum := sha256.Sum256(body)
	return strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=key-of-this-test/") &&
		strings.Contains(r.Header.Get("Authorization"), "/us-east-1/s3/aws4_request") &&
		r.Header.Get("X-Amz-Content-Sha256") == hex.EncodeToString(sum[:])
}

func fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code><Message>no</Message></Error>")
}

type listing struct {
	XMLName   xml.Name `xml:"ListBucketResult"`
	Truncated bool     `xml:"IsTruncated"`
	Next      string   `xml:"NextContinuationToken,omitempty"`
	Contents  []struct {
		Key string
	}
}

func (s *store) serve(w http.ResponseWriter, operation, key string, r *http.Request, body []byte) {
	switch operation {
	case "PutObject":
		sum := sha256.Sum256(body)
		if r.Header.Get("X-Amz-Checksum-Sha256") != base64.StdEncoding.EncodeToString(sum[:]) {
			fail(w, http.StatusBadRequest, "BadDigest")
			return
		}
		s.objects[key] = body
	case "DeleteObject":
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case "ListObjectsV2":
		s.lists++
		q := r.URL.Query()
		from, _ := strconv.Atoi(q.Get("continuation-token"))
		var keys []string
		for _, k := range slices.Sorted(maps.Keys(s.objects)) {
			rest, below := strings.CutPrefix(k, q.Get("prefix"))
			if below && !strings.Contains(rest, q.Get("delimiter")) {
				keys = append(keys, k)
			}
		}
		var l listing
		for _, k := range keys[from:min(len(keys), from+perPage)] {
			l.Contents = append(l.Contents, struct{ Key string }{k})
		}
		if l.Truncated = len(keys) > from+perPage; l.Truncated {
			l.Next = strconv.Itoa(from + perPage)
		}
		w.Header().Set("Content-Type", "application/xml")
		if err := xml.NewEncoder(w).Encode(l); err != nil {
			s.t.Error(err)
		}
	default:
		fail(w, http.StatusNotImplemented, "NotImplemented")
	}
}

func (s *store) set(refuse int) { s.mu.Lock(); defer s.mu.Unlock(); s.refuse = refuse }

func (s *store) keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.objects))
}

// The requests that the SDK's makers keep with it are what the store must understand.
func TestTheStoreUnderstandsWhatTheSDKSends(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/aws-sdk-go-v2/service/s3").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, operation := range []string{"PutObject", "ListObjectsV2", "DeleteObject"} {
		text, err := os.ReadFile(filepath.Join(string(bytes.TrimSpace(out)), "request_snapshot", operation+".request.snap"))
		if err != nil {
			t.Fatal(err)
		}
		line, _, _ := strings.Cut(string(text), "\n")
		method, target, _ := strings.Cut(line, " ")
		u, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		if got := operationOf(method, u.Path, u.Query()); got != operation {
			t.Errorf("%s is taken for %q", line, got)
		}
	}
}
