package workload

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// maxLine bounds a line of a trace: far above a million tokens' block ids.
const maxLine = 1 << 20

// lines reads a text, compressed or not, line by line.
type lines struct {
	name string
	r    *bufio.Reader
	at   int // number of the line that was read last, from 1
}

// newLines looks at the first bytes: gzip has a magic number (RFC 1952, section 2.3.1).
func newLines(name string, r io.Reader) (*lines, error) {
	l := &lines{name: name, r: bufio.NewReaderSize(r, 64<<10)}
	if magic, err := l.r.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(l.r)
		if err != nil {
			return nil, fmt.Errorf("%s: gzip header: %w", name, err)
		}
		l.r = bufio.NewReaderSize(z, 64<<10)
	}
	return l, nil
}

// next is the next line that isn't blank, without its end; io.EOF after the last.
func (l *lines) next() ([]byte, error) {
	for {
		var line []byte
		l.at++
		for {
			part, err := l.r.ReadSlice('\n')
			line = append(line, part...)
			switch {
			case len(line) > maxLine:
				return nil, l.wrong("is longer than %d bytes", maxLine)
			case errors.Is(err, bufio.ErrBufferFull):
				continue
			case errors.Is(err, io.EOF) && len(line) == 0:
				return nil, io.EOF
			case err != nil && !errors.Is(err, io.EOF):
				return nil, fmt.Errorf("%s, line %d: %w", l.name, l.at, err)
			}
			break
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}

// wrong is an error about the line that was read last.
func (l *lines) wrong(format string, args ...any) error {
	return fmt.Errorf("%s, line %d: %s", l.name, l.at, fmt.Sprintf(format, args...))
}

// table reads rows of comma-separated values below a header. None of the traces quotes.
type table struct {
	*lines
	columns []string // those that are wanted
	place   []int    // of each in a row
	width   int
}

// newTable reads the header, which must have the columns, in any order; others are ignored.
func newTable(name string, r io.Reader, columns ...string) (*table, error) {
	l, err := newLines(name, r)
	if err != nil {
		return nil, err
	}
	header, err := l.next()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: is empty, want a header with %s", name, strings.Join(columns, ","))
	}
	if err != nil {
		return nil, err
	}
	names := strings.Split(strings.TrimPrefix(string(header), "\ufeff"), ",")
	t := &table{lines: l, columns: columns, width: len(names)}
	for _, want := range columns {
		at := -1
		for i, have := range names {
			if strings.TrimSpace(have) == want {
				at = i
			}
		}
		if at < 0 {
			return nil, l.wrong("the header has no column %s, want %s", want, strings.Join(columns, ","))
		}
		t.place = append(t.place, at)
	}
	return t, nil
}

// row is the next row's values, in the order of the columns.
func (t *table) row() ([]string, error) {
	line, err := t.next()
	if err != nil {
		return nil, err
	}
	all := strings.Split(string(line), ",")
	if len(all) != t.width {
		return nil, t.wrong("has %d values, the header %d", len(all), t.width)
	}
	out := make([]string, len(t.place))
	for i, at := range t.place {
		out[i] = strings.TrimSpace(all[at])
	}
	return out, nil
}

// number reads column i as a number within bounds.
func (t *table) number(row []string, i int, least, most float64) (float64, error) {
	x, err := strconv.ParseFloat(row[i], 64)
	if err != nil || math.IsNaN(x) {
		return 0, t.wrong("%s is %.40q, want a number", t.columns[i], row[i])
	}
	if x < least || x > most {
		return 0, t.wrong("%s is %v, want %v to %v", t.columns[i], x, least, most)
	}
	return x, nil
}

// tokens reads column i as a length.
func (t *table) tokens(row []string, i int) (int, error) {
	n, err := strconv.Atoi(row[i])
	if err != nil || n < 0 || n > MaxTokens {
		return 0, t.wrong("%s is %.40q, want a whole number of tokens up to %d", t.columns[i], row[i], MaxTokens)
	}
	return n, nil
}
