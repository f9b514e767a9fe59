package exposition

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"sync"
)

// MaxBytes bounds a page. vLLM's is about 100 KB.
const MaxBytes = 4 << 20

// maxLine bounds a line of a page that is read as it comes; longer ones are left out.
const maxLine = 64 << 10

// Page is what one page of metrics says, in the signals that it has. The zero Page says nothing; one
// may be read into again and again, by one goroutine at a time.
type Page struct {
	sums  [signals]float64
	found [signals]bool
	older [signals]uint8 // the generation of names that the sum is of

	loraAt          float64 // value of the newest series
	maxLoRA         int
	inBatch, queued []byte // its lists of adapters, copied

	labels []label  // of the line at hand
	series []uint64 // identities of those taken
}

// maxSeries is how many series are told apart; of more, doubles may count twice.
const maxSeries = 256

// Read takes the wanted series from a page in Prometheus' text format. It is a scanner of lines
// and not a parser of the format: a model server's page is some 100 KB of histograms, asked for
// up to twenty times a second from each, and we want a dozen lines of it. Lines that aren't well
// formed are left out; of a series that is there twice the first counts, as in Prometheus.
func (r *Page) Read(page []byte) {
	r.reset()
	for len(page) > 0 {
		line := page
		if i := bytes.IndexByte(page, '\n'); i >= 0 {
			line, page = page[:i], page[i+1:]
		} else {
			page = nil
		}
		r.line(line)
	}
}

func (r *Page) reset() {
	*r = Page{labels: r.labels[:0], series: r.series[:0], inBatch: r.inBatch[:0], queued: r.queued[:0]}
}

// ErrTooLarge is the error of a page of more than [MaxBytes].
var ErrTooLarge = fmt.Errorf("metrics are more than %d bytes", MaxBytes)

// ReadFrom is [Page.Read] of a page that is still coming, of which it never holds more than a line.
// An error is the reader's, or ErrTooLarge.
func (r *Page) ReadFrom(from io.Reader) (int64, error) {
	r.reset()
	lines := readers.Get().(*bufio.Reader)
	defer readers.Put(lines)
	lines.Reset(from)
	defer lines.Reset(nil)
	var n int64
	whole := true // no piece of this line has been dropped
	for {
		line, err := lines.ReadSlice('\n')
		if n += int64(len(line)); n > MaxBytes {
			return n, ErrTooLarge
		}
		if err == nil || errors.Is(err, io.EOF) {
			if whole {
				r.line(bytes.TrimSuffix(line, []byte{'\n'}))
			}
			whole = true
		}
		switch {
		case err == nil:
		case errors.Is(err, bufio.ErrBufferFull):
			whole = false
		case errors.Is(err, io.EOF):
			return n, nil
		default:
			return n, err
		}
	}
}

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, maxLine) }}

// ofName are the bytes of a metric's name.
var ofName = func() (is [256]bool) {
	for c := range is {
		is[c] = 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == ':'
	}
	return is
}()

func (r *Page) line(line []byte) {
	for len(line) > 0 && (line[0] == ' ' || line[0] == '\t') {
		line = line[1:]
	}
	if len(line) == 0 || line[0] == '#' {
		return
	}
	end := 0
	for end < len(line) && ofName[line[end]] {
		end++
	}
	rules, ok := wanted[string(line[:end])]
	if !ok {
		return
	}
	rest := bytes.TrimLeft(line[end:], " \t")
	r.labels = r.labels[:0]
	if len(rest) > 0 && rest[0] == '{' {
		if r.labels, rest, ok = readLabels(rest[1:], r.labels); !ok {
			return
		}
	}
	value, ok := readValue(rest)
	if !ok || rules[0].signal != loraInfo && r.double(identity(line[:end], r.labels)) {
		return
	}
	for i := range rules {
		r.apply(&rules[i], value)
	}
}

// double says whether a series was there before.
func (r *Page) double(id uint64) bool {
	if slices.Contains(r.series, id) {
		return true
	}
	if len(r.series) < maxSeries {
		r.series = append(r.series, id)
	}
	return false
}

func (r *Page) apply(u *rule, value float64) {
	for _, m := range u.where {
		if !m.fits(r.labels) {
			return
		}
	}
	if u.from != "" {
		var ok bool
		if value, ok = readValue(find(r.labels, u.from)); !ok {
			return // such as "None"
		}
	}
	if u.signal == loraInfo {
		r.lora(value)
		return
	}
	if math.IsNaN(value) || math.IsInf(value, 0) || value < 0 {
		return // as some servers write before the first request
	}
	s := u.signal
	switch {
	case r.found[s] && u.older > r.older[s]:
		return
	case r.found[s] && u.older < r.older[s]:
		r.sums[s] = 0
	}
	r.found[s], r.older[s] = true, u.older
	if largest[s] {
		r.sums[s] = max(r.sums[s], value)
	} else {
		r.sums[s] += value
	}
}

// lora takes the newest series: servers write a new one for every set of adapters, its value the
// time, and never drop the old. On a tie the one that names adapters.
func (r *Page) lora(at float64) {
	if math.IsNaN(at) {
		return
	}
	inBatch, queued := find(r.labels, "running_lora_adapters"), find(r.labels, "waiting_lora_adapters")
	if r.found[loraInfo] && (at < r.loraAt || at == r.loraAt && len(inBatch)+len(queued) == 0) {
		return
	}
	r.found[loraInfo], r.loraAt = true, at
	r.inBatch, r.queued = append(r.inBatch[:0], inBatch...), append(r.queued[:0], queued...)
	if n, err := strconv.Atoi(string(find(r.labels, "max_lora"))); err == nil && n >= 0 {
		r.maxLoRA = n
	}
}

// Known says whether the page is one of a model server or an endpoint picker, and says how
// loaded that is.
func (r *Page) Known() bool {
	return r.found[waiting] || r.found[running] || r.found[poolReady] || r.found[poolWaiting]
}

// names reads comma-separated lists.
func names(lists ...[]byte) []string {
	var out []string
	for _, list := range lists {
		for name := range bytes.SplitSeq(list, []byte{','}) {
			if name = bytes.TrimSpace(name); len(name) > 0 {
				out = append(out, string(name))
			}
		}
	}
	return out
}
