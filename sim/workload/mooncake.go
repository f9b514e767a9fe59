package workload

import (
	"encoding/json"
	"io"
	"time"

	"anabranch/sim"
)

// mooncakeBlock is the tokens that an id of a Mooncake trace stands for, and perID our blocks in it.
const (
	mooncakeBlock = 512
	perID         = mooncakeBlock / sim.BlockSize
)

// mooncakeLine is a line of the published format.
type mooncakeLine struct {
	Timestamp    *float64 `json:"timestamp"` // ms
	InputLength  *int     `json:"input_length"`
	OutputLength *int     `json:"output_length"`
	HashIDs      []uint64 `json:"hash_ids"`
}

// Mooncake reads a trace in the format of https://github.com/kvcache-ai/Mooncake: a JSON object a
// line, compressed or not. Its hash ids name blocks of 512 tokens together with all before them; each
// becomes 32 blocks of a chain. A last block that isn't full is shared by prompts that have it alike.
//
// The trace has no sessions. Prompts whose first two ids are the same, that is, whose first 1,024
// tokens are, count as one conversation for regions, tenants and thinning (the first id alone does
// not tell: all prompts of a published trace have the same). Those of one id go by that. Session
// stays 0, for a router wouldn't know it.
func Mooncake(r io.Reader, o TraceOptions) (*Trace, error) {
	l, err := newLines("Mooncake trace", r)
	if err != nil {
		return nil, err
	}
	last := -1.0
	return newTrace(o, func() (record, error) {
		text, err := l.next()
		if err != nil {
			return record{}, err
		}
		rec, ms, err := mooncakeRecord(l, text)
		if err != nil {
			return record{}, err
		}
		if ms < last {
			return record{}, l.wrong("timestamp %v is before that of the line above, %v", ms, last)
		}
		last = ms
		return rec, nil
	})
}

// mooncakeRecord reads and checks a line.
func mooncakeRecord(l *lines, text []byte) (rec record, ms float64, err error) {
	var m mooncakeLine
	if err := json.Unmarshal(text, &m); err != nil {
		return rec, 0, l.wrong("is not a JSON object of the trace: %v", err)
	}
	switch {
	case m.Timestamp == nil || m.InputLength == nil || m.OutputLength == nil:
		return rec, 0, l.wrong("lacks one of timestamp, input_length and output_length")
	case !(*m.Timestamp >= 0 && *m.Timestamp <= maxDelay.Seconds()*1000):
		return rec, 0, l.wrong("timestamp is %v, want milliseconds from 0, at most %v", *m.Timestamp, maxDelay)
	case *m.InputLength < 0 || *m.InputLength > MaxTokens || *m.OutputLength < 0 || *m.OutputLength > MaxTokens:
		return rec, 0, l.wrong("input_length and output_length are %d and %d, want 0 to %d", *m.InputLength, *m.OutputLength, MaxTokens)
	}
	full := *m.InputLength / mooncakeBlock
	most := (*m.InputLength + mooncakeBlock - 1) / mooncakeBlock
	if n := len(m.HashIDs); n < full || n > most {
		return rec, 0, l.wrong("has %d hash_ids for %d tokens, want one for each %d", n, *m.InputLength, mooncakeBlock)
	}
	rec = record{
		at: time.Duration(*m.Timestamp * float64(time.Millisecond)),
		in: *m.InputLength, out: *m.OutputLength, ids: m.HashIDs,
	}
	for _, id := range rec.ids[:min(2, len(rec.ids))] {
		rec.key = mix(rec.key, id)
	}
	return rec, *m.Timestamp, nil
}

// blocksOf makes the chain of a record's ids.
func blocksOf(r record, seed uint64) []uint64 {
	n := min(r.in/sim.BlockSize, len(r.ids)*perID)
	if n == 0 {
		return nil
	}
	out := make([]uint64, 0, n)
	h := mix(seed, tagTrace)
	for i := range n {
		if i%perID == 0 {
			h = mix(h, r.ids[i/perID])
		}
		out = extend(out, h, 1)
		h = out[i]
	}
	return out
}
