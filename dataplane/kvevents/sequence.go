package kvevents

import "encoding/binary"

// Messages have three frames: topic, number, payload.
const (
	messageFrames = 3
	numberSize    = 8
)

// step is what the number of a message says.
type step uint8

const (
	next    step = iota // it follows the one before, or is the first
	gap                 // others were missed
	restart             // it comes from a new publisher
)

// sequence follows the numbers of one publisher, which count from 0 and from there again when it is
// started anew.
type sequence struct {
	want uint64
	any  bool
}

// take reads a message's number.
func (s *sequence) take(n uint64) step {
	was := *s
	s.want, s.any = n+1, true
	switch {
	case !was.any || n == was.want:
		return next
	case n < was.want:
		return restart
	}
	return gap
}

// split reads a message of a publisher. False: it isn't one.
func split(frames [][]byte) (number uint64, payload []byte, ok bool) {
	if len(frames) != messageFrames || len(frames[1]) != numberSize {
		return 0, nil, false
	}
	return binary.BigEndian.Uint64(frames[1]), frames[2], true
}
