package proxy

import (
	"net/http"
	"time"
)

// maxPartial bounds the text that is kept of a stream, in bytes; a longer one is not continued
// elsewhere. It is some 64,000 tokens.
const maxPartial = 256 << 10

// Partial is what a client has of a chat completion or completion that was interrupted, and what
// the attempt that continues it must know.
type Partial struct {
	// Text that the client has. A place that continues the answer must not repeat it.
	Text string
	// Tokens of it: as the places counted, or one for each event.
	Tokens int64
	// ID, Created and Model are the first part's members of these names, as JSON; chunks of later
	// parts get them in place of their own. Empty: the chunks had none.
	ID, Created, Model string
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
