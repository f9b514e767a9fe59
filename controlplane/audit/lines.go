package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

// MaxLine bounds a line of an export in bytes: several times the largest entry.
const MaxLine = 256 << 10

// Write writes entries, one a line.
func Write(w io.Writer, entries iter.Seq[Entry]) error {
	for e := range entries {
		line, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("write audit entry %d: %w", e.Sequence, err)
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("write audit entry %d: %w", e.Sequence, err)
		}
	}
	return nil
}

// Read hands the entries of an export to f, one after another, until the end or the first error. A
// last line that does not end is one: the export was cut.
func Read(r io.Reader, f func(Entry) error) error {
	lines := bufio.NewReaderSize(r, MaxLine)
	for number := 1; ; number++ {
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("line %d: it is cut: %w", number, io.ErrUnexpectedEOF)
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("line %d: it is longer than %d bytes", number, MaxLine)
		case err != nil:
			return fmt.Errorf("line %d: %w", number, err)
		}
		e, err := parse(line)
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if err := f(e); err != nil {
			return err
		}
	}
}

// parse reads one line. A field that this build does not know would be one that it does not check.
func parse(line []byte) (Entry, error) {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	var e Entry
	if err := dec.Decode(&e); err != nil {
		return e, fmt.Errorf("it is no audit entry: %w", err)
	}
	if dec.More() {
		return e, errors.New("it holds more than one audit entry")
	}
	return e, nil
}
