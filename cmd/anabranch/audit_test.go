package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/cmd/anabranch/client/clienttest"
	"anabranch/controlplane/audit"
	"anabranch/controlplane/state/statepb"
)

// audited is a session with a few entries: init, level 3, two regions and a change of one.
func audited(t *testing.T) session {
	t.Helper()
	s := begin(t)
	third(s.node)
	s.do(0, eu, "apply", "-f", "-", "--reason", "first")
	s.do(0, strings.Replace(eu, "zone: us", "zone: usa", 1), "apply", "-f", "-", "--reason", "second")
	return s
}

func third(n *clienttest.Node) {
	n.Apply(&statepb.Command{Format: 3, Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}}})
}

// liar is a server that answers the export with whatever it is given.
func liar(t *testing.T, text *string) *httptest.Server {
	t.Helper()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/audit/export" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, *text) // the client will tell
	}))
	t.Cleanup(h.Close)
	return h
}

func TestTheTrailIsListedAndShown(t *testing.T) {
	s := audited(t)
	out, _ := s.do(0, "", "audit", "list", "--kind", "regions", "--name", "us-*")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "NUMBER") || !strings.HasPrefix(lines[1], "5 ") || !strings.HasSuffix(lines[1], "second") || !strings.Contains(lines[2], "Region/us-east-1") {
		t.Errorf("list:\n%s", out)
	}
	var list struct{ Items []audit.Entry }
	out, _ = s.do(0, "", "audit", "list", "--oldest-first", "--limit", "2", "-o", "json", "--from", "1h", "--action", "create")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Items) != 2 || list.Items[0].Sequence != 3 {
		t.Errorf("json: %v\n%s", err, out)
	}
	if out, _ = s.do(0, "", "audit", "list", "--limit", "0", "-o", "json"); strings.Count(out, `"sequence"`) != 5 {
		t.Errorf("all:\n%s", out)
	}
	out, _ = s.do(0, "", "audit", "show", "5")
	for _, want := range []string{"entry     5, of revision 5\n", "actor     admin\n", "what      Region/us-east-1\n", "reason    second\n", "  spec.zone: \"us\" → \"usa\"\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("show lacks %q:\n%s", want, out)
		}
	}
	if _, errs := s.do(exitFailed, "", "audit", "show", "6"); !strings.Contains(errs, "no entry 6") {
		t.Errorf("not there: %s", errs)
	}
	for args, want := range map[string]string{
		"show x":               "not the number of an entry",
		"list --from tomorrow": "is no time",
		"list --limit=-1":      "negative",
		"tail --lines=-1":      "negative",
		"verify --live":        "goes with --file",
		"verify --after abc":   "not a SHA-256",
	} {
		if _, errs := s.do(exitFailed, "", append([]string{"audit"}, strings.Fields(args)...)...); !strings.Contains(errs, want) {
			t.Errorf("%s: %s", args, errs)
		}
	}
	if _, errs := s.do(exitFailed, "", "audit", "verify", "--after", "a", "--anchor", "b"); !strings.Contains(errs, "none of the others") {
		t.Errorf("both: %s", errs)
	}
}

func TestWhatOthersWroteMovesNoCursor(t *testing.T) {
	row := auditRow(audit.Entry{Actor: "a\x1b[2J", Reason: "x\n\x9by " + strings.Repeat("é", 100)})
	for _, cell := range row {
		if strings.ContainsAny(cell, "\x1b\n") || strings.ContainsRune(cell, '\u009b') {
			t.Errorf("%q", cell)
		}
	}
	if reason := []rune(row[7]); len(reason) != maxReasonShown || reason[len(reason)-1] != '…' {
		t.Errorf("%d characters", len(reason))
	}
}

func TestVerifyOfAServer(t *testing.T) {
	s := audited(t)
	out, _ := s.do(0, "", "audit", "verify", "--anchor", "at")
	if !strings.HasPrefix(out, "good: 5 entries, 1 to 5\n") || !strings.HasSuffix(out, "complete  from the first entry on\n") {
		t.Errorf("verify:\n%s", out)
	}
	var at audit.Anchor
	text, err := os.ReadFile("at")
	if err != nil || json.Unmarshal(text, &at) != nil || at.Sequence != 5 || !strings.Contains(out, at.SHA256) {
		t.Errorf("anchor %s, %v", text, err)
	}
	s.do(0, "", "delete", "region", "us-east-1")
	s.do(0, "", "audit", "verify", "--after", at.SHA256)
	s.do(0, "", "audit", "verify", "--anchor", "at")
	s.do(0, "", "audit", "export", "all.ndjson")
	var v verified
	out, _ = s.do(0, "", "audit", "verify", "--file", "all.ndjson", "-o", "json")
	if err := json.Unmarshal([]byte(out), &v); err != nil || v.Entries != 6 || !v.Complete || v.Last.Sequence != 6 {
		t.Errorf("%v\n%s", err, out)
	}
	if out, _ = s.do(0, "", "audit", "export"); out != read(t, "all.ndjson") {
		t.Error("what goes to the output is not what goes into the file")
	}
	// Another cluster, whose trail is good in itself, is not the one that was found good before.
	other := clienttest.Start(t)
	third(other)
	t.Setenv("ANABRANCH_SERVER", other.URL)
	if _, errs := s.do(exitFailed, "", "audit", "verify", "--anchor", "at"); !strings.Contains(errs, "audit entry 6 at index 6 is not there any more") {
		t.Errorf("another history: %s", errs)
	}
	if read(t, "at") == "" || !strings.Contains(read(t, "at"), `"sequence":6`) {
		t.Errorf("the anchor was moved: %s", read(t, "at"))
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestVerifyTrustsNoServer(t *testing.T) {
	s := audited(t)
	good, _ := s.do(0, "", "audit", "export")
	lines := strings.SplitAfter(strings.TrimSuffix(good, "\n"), "\n")
	text := ""
	t.Setenv("ANABRANCH_SERVER", liar(t, &text).URL)
	for name, c := range map[string]struct{ text, want string }{
		"a changed reason": {strings.Replace(good, "second", "third", 1), "audit entry 5 at index 5 does not match its hash"},
		"a changed value":  {strings.Replace(good, `\"usa\"`, `\"usb\"`, 1), "audit entry 5 at index 5 does not match its hash"},
		"one taken out":    {lines[0] + lines[1] + lines[3], "the entries 3 to 3 are missing"},
		"cut":              {good[:len(good)-10], "is cut"},
		"one twice":        {good + strings.Replace(lines[2], "first", "fifth", 1), "is there twice"},
		"nothing":          {"", "no audit entry"},
		"something else":   {"<html>\n", "line 1: it is no audit entry"},
	} {
		text = c.text
		if _, errs := s.do(exitFailed, "", "audit", "verify"); !strings.Contains(errs, c.want) {
			t.Errorf("%s: %s", name, errs)
		}
		if name == "nothing" || name == "one twice" {
			continue
		}
		s.do(exitFailed, "", "audit", "export", "bad.ndjson")
		if _, err := os.Stat("bad.ndjson"); !os.IsNotExist(err) {
			t.Errorf("%s: a file is left: %v", name, err)
		}
	}
	text = lines[2] + lines[3] + lines[4] + "\n"
	out, _ := s.do(0, "", "audit", "verify")
	if !strings.Contains(out, "complete  from entry 3 on; 2 before it are not here") {
		t.Errorf("the end of a trail:\n%s", out)
	}
	t.Setenv("ANABRANCH_SERVER", "http://127.0.0.1:1")
	s.do(exitUnreachable, "", "audit", "verify")
	t.Setenv("ANABRANCH_SERVER", s.node.URL)
	t.Setenv("ANABRANCH_TOKEN", "guess")
	s.do(exitRefused, "", "audit", "verify")
}

func TestAllServersAreCompared(t *testing.T) {
	s := audited(t)
	same, _ := s.do(0, "", "audit", "export")
	other := same
	second := liar(t, &other)
	t.Setenv("ANABRANCH_SERVER", s.node.URL+","+second.URL)
	out, _ := s.do(0, "", "audit", "verify", "--all-servers")
	if !strings.Contains(out, "servers   2 hold the same\n") {
		t.Errorf("verify:\n%s", out)
	}
	lines := strings.SplitAfter(same, "\n")
	other = strings.Join(lines[:3], "") // one that is behind
	s.do(0, "", "audit", "verify", "--all-servers")

	// A server whose own chain holds, but is another one from entry 4 on.
	var h audit.Chain
	other = ""
	previous := ""
	for i, line := range lines[:5] {
		var e audit.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if i >= 3 {
			e.Actor = "eve"
			e.PreviousSHA256 = previous
		}
		p, err := e.Hashed()
		if err != nil {
			t.Fatal(err)
		}
		sum := audit.Sum(p)
		e.SHA256 = fmt.Sprintf("%x", sum)
		previous = e.SHA256
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		p.Sha256 = sum[:]
		if err := h.Add(p); err != nil {
			t.Fatal(err)
		}
		other += string(b) + "\n"
	}
	if _, errs := s.do(exitFailed, "", "audit", "verify", "--all-servers"); !strings.Contains(errs, second.URL+": audit entry 4 is not the one of the first server") {
		t.Errorf("another history: %s", errs)
	}
}

func TestArchivesAreVerifiedWithWhatTheServersHave(t *testing.T) {
	s := audited(t)
	all, _ := s.do(0, "", "audit", "export")
	lines := strings.SplitAfter(all, "\n")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := io.WriteString(z, lines[0]+lines[1]); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	s.file("archive/a-1.ndjson.gz", packed.String())
	s.file("archive/a-2.ndjson", lines[1]+lines[2]) // overlaps
	s.file("archive/notes.txt", "not of the archive")
	s.file("empty/notes.txt", "")
	out, _ := s.do(0, "", "audit", "verify", "--file", "archive", "--live")
	if !strings.HasPrefix(out, "good: 5 entries, 1 to 5\n") {
		t.Errorf("verify:\n%s", out)
	}
	out, _ = s.do(0, "", "audit", "verify", "--file", "archive/a-1.ndjson.gz,archive/a-2.ndjson")
	if !strings.HasPrefix(out, "good: 3 entries, 1 to 3\n") {
		t.Errorf("verify of files:\n%s", out)
	}
	for args, want := range map[string]string{
		"archive/a-2.ndjson,archive/a-1.ndjson.gz": "entry 1 at index 1 does not follow",
		"empty":  "holds no .ndjson",
		"absent": "absent",
	} {
		if _, errs := s.do(exitFailed, "", "audit", "verify", "--file", args); !strings.Contains(errs, want) {
			t.Errorf("%s: %s", args, errs)
		}
	}
}

// screen collects what a command prints, and says when something is there.
type screen struct {
	mu   sync.Mutex // guards text
	text string
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text += string(b)
	return len(b), nil
}

func (s *screen) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}

func (s *screen) await(t *testing.T, want string) {
	t.Helper()
	deadline, tick := time.After(10*time.Second), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for {
		if strings.Contains(s.all(), want) {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("no %q in %q", want, s.all())
		case <-tick.C:
		}
	}
}

func TestTailShowsTheLastEntriesAndThoseToCome(t *testing.T) {
	s := audited(t)
	ctx, cancel := context.WithCancel(t.Context())
	var out, errs screen
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"anabranch", "audit", "tail", "-n", "2", "--kind", "Region"}, nil, &out, &errs)
	}()
	out.await(t, "second")
	if strings.Contains(out.all(), "create    Region/eu-west-1") {
		t.Errorf("more than two:\n%s", out.all())
	}
	s.do(0, acme, "apply", "-f", "-", "--reason", "hidden")
	s.do(0, "", "delete", "region", "us-east-1", "--reason", "shown")
	out.await(t, "shown")
	cancel()
	if code := <-done; code != 0 || strings.Contains(out.all(), "hidden") {
		t.Errorf("code %d, %s\n%s", code, errs.all(), out.all())
	}
}

func TestTailEndsWhenItIsRefused(t *testing.T) {
	s := audited(t)
	t.Setenv("ANABRANCH_TOKEN", "guess")
	s.do(exitRefused, "", "audit", "tail")
}

func TestTailReadsAStreamInPieces(t *testing.T) {
	var out bytes.Buffer
	tl := &auditTail{a: &app{out: &out, err: &out}, query: &auditQuery{name: "u*"}, json: true, at: 3}
	text := "id: 5\nevent: entry\ndata: {\"sequence\":5,\"name\":\"us\"}\n\nevent: bookmark\ndata: {}\n\nid: 6\nevent: entry\ndata: {\"sequence\":6,\"name\":\"eu\"}\n\n"
	for i := range len(text) {
		if _, err := tl.Write([]byte(text[i : i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if got := out.String(); !strings.HasPrefix(got, "entries 4 to 4 were not shown") || strings.Count(got, `"name":"us"`) != 1 || strings.Contains(got, `"eu"`) || tl.at != 6 {
		t.Errorf("%q", got)
	}
	if _, err := tl.Write([]byte("data: {\n")); err != nil {
		t.Errorf("of no entry: %v", err)
	}
	if _, err := tl.Write([]byte("event: entry\ndata: {\n")); err == nil {
		t.Error("half an entry is taken")
	}
	tl.line = nil
	if _, err := tl.Write(bytes.Repeat([]byte("x"), maxEvent+1)); err == nil {
		t.Error("a line without end is taken")
	}
}
