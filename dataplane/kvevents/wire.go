package kvevents

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Bounds of one batch, far above what an engine does in a step.
const (
	maxEvents = 1 << 16
	maxHashes = 1 << 18
)

// ErrBatch is what [Batch.Read] says of bytes that are no batch of events.
var ErrBatch = errors.New("no batch of KV events")

// Tags of events.
const (
	tagStored  = "BlockStored"
	tagRemoved = "BlockRemoved"
	tagCleared = "AllBlocksCleared"
)

// field of an event.
type field uint8

const (
	other field = iota
	hashes
	parent
	blockSize
	medium
)

// Where fields stand in events that are arrays, from behind the tag. Engines add at the end, and
// leave out from there what has its default.
var (
	storedFields  = []field{hashes, parent, other, blockSize, other, medium}
	removedFields = []field{hashes, medium}
)

// Names of fields in events that are maps.
var fieldNames = map[string]field{
	"block_hashes": hashes, "parent_block_hash": parent, "block_size": blockSize, "medium": medium,
}

// Read decodes a message's payload: MessagePack of [time, [event…], …], as msgspec writes vLLM's and
// SGLang's structs. An event is an array that begins with its tag, or in newer engines a map with the
// tag under "type". What else there is, it passes over. The batch is valid until the next Read; of one
// that is no batch nothing is.
func (b *Batch) Read(payload []byte) error {
	b.Events, b.hashes, b.Unknown = b.Events[:0], b.hashes[:0], 0
	c := cursor{rest: payload}
	head := c.next()
	if head.class != array || head.n < 2 {
		return fmt.Errorf("%w: no array of time and events", ErrBatch)
	}
	if at := c.next(); at.class != float && at.class != integer {
		return fmt.Errorf("%w: no time", ErrBatch)
	}
	list := c.next()
	if list.class != array || list.n > maxEvents {
		return fmt.Errorf("%w: no events, or too many", ErrBatch)
	}
	for range list.n {
		if err := b.event(&c); err != nil {
			return err
		}
	}
	c.skip(head.n - 2) //nolint:mnd // time and events
	if c.bad || len(c.rest) > 0 {
		return fmt.Errorf("%w: cut, or more than one value", ErrBatch)
	}
	return nil
}

// event reads one, in either form.
func (b *Batch) event(c *cursor) error {
	var e Event
	from := len(b.hashes)
	head := c.next()
	var err error
	switch {
	case head.class == array && head.n > 0:
		err = b.listed(c, &e, head.n-1)
	case head.class == table:
		err = b.named(c, &e, head.n)
	default:
		err = fmt.Errorf("%w: an event is neither array nor map", ErrBatch)
	}
	switch {
	case err != nil:
		return err
	case c.bad:
		return fmt.Errorf("%w: cut", ErrBatch)
	case e.Kind == 0:
		b.hashes = b.hashes[:from]
		b.Unknown++
		return nil
	}
	e.Hashes = b.hashes[from:len(b.hashes):len(b.hashes)]
	b.Events = append(b.Events, e)
	return nil
}

// listed reads an event that is an array of its tag and n fields.
func (b *Batch) listed(c *cursor, e *Event, n int) error {
	tag := c.next()
	var fields []field
	if tag.class == text {
		e.Kind = kindOf(tag.text)
	}
	switch e.Kind {
	case Stored:
		fields = storedFields
	case Removed:
		fields = removedFields
	case Cleared:
	default:
		c.within(tag)
	}
	for i := range n {
		if i >= len(fields) {
			c.skip(n - i)
			break
		}
		if err := b.field(c, e, fields[i]); err != nil {
			return err
		}
	}
	return nil
}

// named reads an event that is a map of n pairs.
func (b *Batch) named(c *cursor, e *Event, n int) error {
	for range n {
		name := c.next()
		if name.class != text {
			return fmt.Errorf("%w: a field without a name", ErrBatch)
		}
		if string(name.text) == "type" {
			tag := c.next()
			if tag.class != text {
				return fmt.Errorf("%w: a tag that is no string", ErrBatch)
			}
			e.Kind = kindOf(tag.text)
			continue
		}
		if err := b.field(c, e, fieldNames[string(name.text)]); err != nil {
			return err
		}
	}
	return nil
}

func kindOf(tag []byte) Kind {
	switch string(tag) {
	case tagStored:
		return Stored
	case tagRemoved:
		return Removed
	case tagCleared:
		return Cleared
	}
	return 0
}

func (b *Batch) field(c *cursor, e *Event, f field) error {
	v := c.next()
	switch f {
	case hashes:
		if v.class != array || len(b.hashes)+v.n > maxHashes {
			return fmt.Errorf("%w: no block hashes, or too many", ErrBatch)
		}
		for range v.n {
			h, ok := hashOf(c.next())
			if !ok {
				return fmt.Errorf("%w: a block hash that is neither number nor bytes", ErrBatch)
			}
			b.hashes = append(b.hashes, h)
		}
	case parent:
		if v.class == nothing {
			break
		}
		var ok bool
		if e.Parent, ok = hashOf(v); !ok {
			return fmt.Errorf("%w: a parent that is neither number nor bytes", ErrBatch)
		}
		e.HasParent = true
	case blockSize:
		if v.class == integer && v.bits <= math.MaxInt32 {
			e.BlockSize = int(v.bits)
		}
		c.within(v)
	case medium:
		e.Elsewhere = v.class == text && !strings.EqualFold(string(v.text), "gpu")
		c.within(v)
	case other:
		c.within(v)
	}
	return nil
}

// hashOf is a block's hash of 64 bits. Engines write numbers, of which the sign says nothing, or the
// bytes of a longer one.
func hashOf(v value) (uint64, bool) {
	switch v.class {
	case integer:
		return v.bits, true
	case text:
		return xxhash.Sum64(v.text), len(v.text) > 0
	}
	return 0, false
}

// Append encodes a batch as an engine does, events as arrays; at is its time in seconds since 1970.
func Append(to []byte, at float64, events []Event) []byte {
	to = appendArray(to, 2) //nolint:mnd // time and events
	to = appendFloat(to, at)
	to = appendArray(to, len(events))
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case Stored:
			to = appendText(appendArray(to, 1+len(storedFields)), tagStored)
			to = appendHashes(to, e.Hashes)
			if e.HasParent {
				to = appendUint(to, e.Parent)
			} else {
				to = appendNil(to)
			}
			to = appendArray(to, len(e.Tokens))
			for _, t := range e.Tokens {
				to = appendUint(to, uint64(t))
			}
			to = appendNil(appendUint(to, uint64(e.BlockSize))) // and no adapter
			to = appendMedium(to, e)
		case Removed:
			to = appendText(appendArray(to, 1+len(removedFields)), tagRemoved)
			to = appendMedium(appendHashes(to, e.Hashes), e)
		case Cleared:
			to = appendText(appendArray(to, 1), tagCleared)
		}
	}
	return to
}

func appendHashes(to []byte, list []uint64) []byte {
	to = appendArray(to, len(list))
	for _, h := range list {
		to = appendUint(to, h)
	}
	return to
}

func appendMedium(to []byte, e *Event) []byte {
	if e.Elsewhere {
		return appendText(to, "CPU")
	}
	return appendText(to, "GPU")
}
