package proxy

import (
	"net/http"
	"strings"

	"anabranch/dataplane/inference"
)

// passing looks at an answer that is not streamed while it goes by, for its usage and its text.
type passing struct {
	x     *exchange
	tally *inference.Tally // nil: it is no JSON, or can't be looked at
	text  bool             // what can't be looked at may be text
}

// passing is for an answer of which nothing has been looked at.
func (x *exchange) passing(answer *http.Response) *passing {
	p := &passing{x: x}
	kind, encoding := answer.Header.Get("Content-Type"), answer.Header.Get("Content-Encoding")
	switch plain := encoding == "" || encoding == "identity"; {
	case answer.StatusCode >= 300:
	case strings.HasPrefix(kind, "application/json") && plain:
		p.tally = &inference.Tally{}
	case strings.HasPrefix(kind, "application/json"), strings.HasPrefix(kind, "text/"):
		p.text = true
	}
	return p
}

// look looks at a piece of it.
func (p *passing) look(piece []byte) {
	r := &p.x.result
	switch {
	case p.tally != nil:
		_, _ = p.tally.Write(piece) // never fails
		r.Usage, r.HasUsage = p.tally.Usage()
		r.Text = p.tally.Text()
	case p.text:
		r.Text += int64(len(piece))
	}
}

// whole says whether it may be all of it.
func (p *passing) whole() bool { return p.tally == nil || p.tally.Whole() }
