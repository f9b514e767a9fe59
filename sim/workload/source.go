package workload

import "time"

// Source gives out requests in order of their times.
type Source interface {
	// Next is the next request, never before one already given. False: nothing now (a closed loop,
	// until Done), or never again ([Source].Ended).
	Next() (Request, bool)
	// Done says that a request has ended, however; ok, that it was answered whole. Open loops take no
	// notice.
	Done(id uint64, at time.Duration, ok bool)
	// Ended says that nothing will come any more.
	Ended() bool
}

// Peeker is a source that also says when its next request comes as things stand. All sources of this
// package are such.
//
// It matters where answers bring requests about. Who takes a request that comes in ten seconds and
// then reports that another ended now gets the follow-up no earlier than in those ten seconds,
// because order is kept. Who asks Peek, reports all that ends before that time, and only then calls
// Next, gets every request at its own time.
type Peeker interface {
	Source
	// Peek is the time of the request that Next would give; false where Next would be false.
	Peek() (time.Duration, bool)
}

// failer is a source that can end with an error, as a file that is read along the way can.
type failer interface{ Err() error }

// Err is what a source ended with too soon, e.g. the line of a trace that doesn't parse, or nil.
func Err(s Source) error {
	if f, ok := s.(failer); ok {
		return f.Err()
	}
	return nil
}

// Spec is the options of one workload.
type Spec interface {
	// Validate names the first field that is wrong, and the fix.
	Validate() error
	// Source starts the workload from its beginning. The error is Validate's.
	Source() (Source, error)
}
