package proxy

import (
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"anabranch/dataplane/inference"
)

// FuzzRelay sends any bytes as a stream, in any pieces, with any end, and holds what the client gets
// against what the slow way hears of the same bytes.
func FuzzRelay(f *testing.F) {
	whole := role + content + content + finish + counted + done
	f.Add([]byte(whole), []byte{0}, false, false)
	f.Add([]byte(whole), []byte{7, 1, 30}, true, true)
	f.Add([]byte(role+content+`data: {"error":{"message":"x","code":400}}`+"\n\n"), []byte{200}, false, true)
	f.Add([]byte(role+content+"data: {\"choices\":[\n\n"+done), []byte{50}, false, false)
	f.Add([]byte("<html>\n<body>\n\n"), []byte{3}, false, false)
	f.Add([]byte(content+done+content+"garbage\n\n"), []byte{255}, false, false)
	f.Add([]byte(strings.ReplaceAll(whole, "\n", "\r\n")), []byte{11}, true, false)
	f.Add([]byte(strings.ReplaceAll(content+content, "\n", "\r")+"data: {}\r"), []byte{12}, true, true)
	f.Add([]byte("\xef\xbb\xbf: hi\n\nid: 1\nevent: message\nretry: 5\n"+content+"data: [DONE]"), []byte{60, 0}, false, false)
	f.Fuzz(func(t *testing.T, stream, at []byte, reset, keep bool) {
		end := io.EOF
		if reset {
			end = errReset
		}
		answer := streamed(end)
		answer.Body = &pieces{rest: cutAt(stream, at), err: end}
		a := try(once(answer))
		a.Keep, a.KeepUsage = keep, true
		w := httptest.NewRecorder()
		r := New(Options{}).Do(t.Context(), w, a)
		got := w.Body.Bytes()
		if !r.Committed {
			if len(got) > 0 || !r.Retryable && (r.Err == nil || r.Err.Status >= 500) {
				t.Fatalf("nothing was answered, and %+v with %q", r, got)
			}
			return
		}
		heard, sent := heardBy(got), heardBy(stream)
		if r.Broken && !r.Interrupted {
			last := heard[len(heard)-1]
			if last+"\n\n" != strings.TrimPrefix(string(r.Err.Event()), "data: ") {
				t.Fatalf("broken, and the last event is %q", last)
			}
			heard = heard[:len(heard)-1]
		}
		if mended := !r.Broken && r.Cause != nil; mended { // all but the end was there
			if heard[len(heard)-1] != "[DONE]" {
				t.Fatalf("mended, and ends with %q", heard)
			}
			heard = heard[:len(heard)-1]
		}
		if len(heard) > len(sent) || !slices.Equal(heard, sent[:len(heard)]) {
			t.Fatalf("got  %q\nsent %q", heard, sent)
		}
		for i, data := range heard {
			frame := inference.Classify([]byte(data))
			if frame.Kind == inference.Error || frame.Malformed || frame.Kind == inference.Done && (r.Broken || i != len(heard)-1) {
				t.Fatalf("event %d of %q", i, heard)
			}
		}
		if r.Interrupted && (!keep || r.Partial == nil || !strings.HasSuffix(string(got), "\n") && !strings.HasSuffix(string(got), "\r")) {
			t.Fatalf("interrupted: %+v", r)
		}
		if r.Interrupted && r.Partial.Text != textOf(heard) {
			t.Fatalf("kept %q of %q", r.Partial.Text, heard)
		}
	})
}

// textOf is the text of chunks, by way of the frames: what a kept answer must hold.
func textOf(events []string) string {
	var text []byte
	for _, data := range events {
		text = inference.Classify([]byte(data)).Text(text, []byte(data))
	}
	return string(text)
}
