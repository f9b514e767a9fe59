package dataplane

import (
	"io"
	"net/http"
	"time"
)

// illness is what a server at fault does with a request.
type illness func(p *patient, w http.ResponseWriter, r *http.Request)

// opening is the beginning of an answer: its media type and what is sent one after another. Without a
// type there is none at all, not even a header.
type opening struct {
	kind   string
	pieces []string
}

// then sends the part and does what comes after: it hangs, breaks off or ends.
func (a opening) then(after http.HandlerFunc) illness {
	return func(p *patient, w http.ResponseWriter, r *http.Request) {
		if a.kind != "" {
			w.Header().Set("Content-Type", a.kind)
		}
		for _, piece := range a.pieces {
			_, _ = io.WriteString(w, piece) // the router may have ended it
			w.(http.Flusher).Flush()
			p.word()
		}
		after(w, r)
	}
}

func breakingOff(http.ResponseWriter, *http.Request) { cut() }

func ending(http.ResponseWriter, *http.Request) {}

// replying is a whole answer, with headers in pairs.
func replying(status int, body string, headers ...string) illness {
	return func(_ *patient, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaJSON)
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// resetting ends the connection with a reset.
func resetting(p *patient, w http.ResponseWriter, _ *http.Request) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err) // the stub speaks HTTP/1.1
	}
	_ = c.(interface{ SetLinger(int) error }).SetLinger(0) // it is open
	p.broke.Store(true)
	c.Close()
}

// drips sends pieces with a pause before each, which is what a model takes to compute. Where they
// make no whole answer the last is sent for ever.
func drips(kind string, pause time.Duration, pieces ...string) illness {
	ever := len(pieces) < 3
	return func(p *patient, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		for i := 0; ever || i < len(pieces); i++ {
			select {
			case <-time.After(pause):
			case <-r.Context().Done():
				return
			}
			_, _ = io.WriteString(w, pieces[min(i, len(pieces)-1)])
			w.(http.Flusher).Flush()
			if i < len(pieces) {
				p.word()
			}
		}
	}
}

// cutUp cuts a text into pieces of n bytes.
func cutUp(n int, text string) (pieces []string) {
	for len(text) > n {
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return append(pieces, text)
}
