package proxy

import (
	"net/http"
	"time"

	"anabranch/dataplane/inference"
)

// maxPartial bounds the text that is kept of a stream, in bytes; a longer one is not continued
// elsewhere. It is some 64,000 tokens.
const maxPartial = 256 << 10

// Partial is what a client has of a chat completion or completion that was interrupted, and what
// the attempt that continues it must know.
type Partial struct {
	// Text that the client has. A place that continues the answer must not repeat it, but for the
	// white space at its end, see [inference.Tail].
	Text string
	// Tokens of it: as the places counted, or one for each event.
	Tokens int64
	// ID, Created and Model are the first part's members of these names, as JSON; chunks of later
	// parts get them in place of their own. Empty: the chunks had none.
	ID, Created, Model string

	// usage as the places told it, of all parts; hasUsage says that the first did.
	usage    inference.Usage
	hasUsage bool
}

// kept is what is remembered of a stream so that it can be continued.
type kept struct {
	text               []byte
	id, created, model string
	named              bool // the three are known
}

// add takes an event that the client gets. False: a stream with it can't be continued.
func (k *kept) add(data []byte, f inference.Frame, r *resumed) bool {
	switch f.Kind {
	case inference.Content:
		if !f.Plain {
			return false
		}
		if r != nil {
			k.text = append(k.text, r.text...) // what was left of it
		} else {
			k.text = f.Text(k.text, data)
		}
	case inference.Role, inference.Finish:
	default:
		return true
	}
	if !k.named {
		k.named = true
		k.id = string(data[f.ID[0]:f.ID[1]])
		k.created = string(data[f.Created[0]:f.Created[1]])
		k.model = string(data[f.Model[0]:f.Model[1]])
	}
	before := 0
	if r != nil {
		before = len(r.before.Text)
	}
	return before+len(k.text) <= maxPartial
}

// partial is what the client has by now.
func (k *kept) partial(x *exchange) *Partial {
	own := &x.result
	p := &Partial{
		Text: string(k.text), Tokens: own.Events, ID: k.id, Created: k.created, Model: k.model,
		usage: own.Usage, hasUsage: own.HasUsage,
	}
	if p.hasUsage {
		p.Tokens = max(p.usage.Completion, 1)
	}
	if before := x.a.Resume; before != nil {
		p.Text, p.Tokens = before.Text+p.Text, before.Tokens+p.Tokens
		p.ID, p.Created, p.Model = before.ID, before.Created, before.Model
		p.usage, p.hasUsage = before.total(own), own.HasUsage || before.hasUsage
	}
	return p
}

// some reports whether there is text to go on from.
func (k *kept) some(x *exchange) bool {
	return k != nil && (len(k.text) > 0 || x.a.Resume != nil)
}

// total is the usage of an answer by now, of which an attempt did the newest part. Where the first
// place did not tell its prompt, it is the newest's without what came in between.
func (p *Partial) total(own *Result) inference.Usage {
	u := inference.Usage{Completion: p.Tokens + own.Events}
	if own.HasUsage {
		u = own.Usage
		u.Completion += p.Tokens
	}
	u.Prompt = max(u.Prompt-p.Tokens, 0)
	if p.hasUsage {
		u.Prompt, u.Cached = p.usage.Prompt, p.usage.Cached
	}
	u.Cached = min(u.Cached, u.Prompt)
	return u
}

// BreakOff ends a stream that was interrupted and is not resumed: it writes the one error event. The
// caller then aborts the connection, without a regular end. The result is the one given, or that of
// a client that has left.
func (r *Relay) BreakOff(w http.ResponseWriter, result Result) Result {
	result.Interrupted, result.Partial = false, nil
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(clientPatience)) // a writer without deadlines is a test's
	_, err := w.Write(result.Err.Event())
	if err == nil {
		err = control.Flush()
	}
	if err != nil {
		result.ClientGone, result.Err, result.Cause = true, nil, err
	}
	return result
}
