package endpoint

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// reading is what one page of metrics says, in the signals that it has.
type reading struct {
	sums  [poolSaturation + 1]float64
	found [poolSaturation + 1]bool

	loraAt   float64 // value of the newest series
	maxLoRA  int
	adapters []string
}

// read takes the wanted series from a page in Prometheus' text format. It is a scanner of lines
// and not a parser of the format: a model server's page is some 100 KB of histograms, asked for
// four times a second from each, and we want six lines of it. Lines that aren't well formed are
// left out.
func read(page []byte) reading {
	var r reading
	for len(page) > 0 {
		line := page
		if i := bytes.IndexByte(page, '\n'); i >= 0 {
			line, page = page[:i], page[i+1:]
		} else {
			page = nil
		}
		r.line(bytes.TrimLeft(line, " \t"))
	}
	return r
}

func (r *reading) line(line []byte) {
	if len(line) == 0 || line[0] == '#' {
		return
	}
	end := 0
	for end < len(line) && line[end] != '{' && line[end] != ' ' && line[end] != '\t' {
		end++
	}
	rules, ok := wanted[string(line[:end])]
	if !ok {
		return
	}
	rest := bytes.TrimLeft(line[end:], " \t")
	var labels []label
	if len(rest) > 0 && rest[0] == '{' {
		if labels, rest, ok = readLabels(rest[1:]); !ok {
			return
		}
	}
	value, ok := readValue(rest)
	if !ok {
		return
	}
	for _, rule := range rules {
		if rule.label == "" || find(labels, rule.label) == rule.value {
			r.take(rule.signal, labels, value)
		}
	}
}

func (r *reading) take(s signal, labels []label, value float64) {
	if s == loraInfo {
		r.lora(labels, value)
		return
	}
	if math.IsNaN(value) || math.IsInf(value, 0) || value < 0 {
		return // as some servers write before the first request
	}
	switch s {
	case kvUsage, poolKV, poolSaturation:
		r.sums[s] = max(r.sums[s], value)
	default:
		r.sums[s] += value
	}
	r.found[s] = true
}

// lora takes the newest series: servers write a new one for every set of adapters, its value the
// time, and never drop the old. On a tie the one that names adapters.
func (r *reading) lora(labels []label, at float64) {
	adapters := names(find(labels, "running_lora_adapters"), find(labels, "waiting_lora_adapters"))
	if r.found[loraInfo] && (at < r.loraAt || at == r.loraAt && len(adapters) == 0) {
		return
	}
	r.found[loraInfo], r.loraAt, r.adapters = true, at, adapters
	if n, err := strconv.Atoi(find(labels, "max_lora")); err == nil && n >= 0 {
		r.maxLoRA = n
	}
}

// names reads comma-separated lists.
func names(lists ...string) []string {
	var out []string
	for _, list := range lists {
		for name := range strings.SplitSeq(list, ",") {
			if name = strings.TrimSpace(name); name != "" {
				out = append(out, name)
			}
		}
	}
	return out
}

type label struct{ name, value string }

func find(labels []label, name string) string {
	for _, l := range labels {
		if l.name == name {
			return l.value
		}
	}
	return ""
}

// readLabels reads `name="value",…}` and returns what follows it.
func readLabels(b []byte) (labels []label, rest []byte, ok bool) {
	for {
		b = bytes.TrimLeft(b, " \t,")
		if len(b) == 0 {
			return nil, nil, false
		}
		if b[0] == '}' {
			return labels, b[1:], true
		}
		eq := bytes.IndexByte(b, '=')
		if eq <= 0 {
			return nil, nil, false
		}
		name := string(bytes.TrimSpace(b[:eq]))
		b = bytes.TrimLeft(b[eq+1:], " \t")
		if len(b) == 0 || b[0] != '"' {
			return nil, nil, false
		}
		var value string
		if value, b, ok = readQuoted(b[1:]); !ok {
			return nil, nil, false
		}
		labels = append(labels, label{name, value})
	}
}

// readQuoted reads up to the closing quote; \\, \" and \n are escapes.
func readQuoted(b []byte) (value string, rest []byte, ok bool) {
	var escaped []byte
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			if escaped == nil {
				return string(b[:i]), b[i+1:], true
			}
			return string(escaped), b[i+1:], true
		case '\\':
			if escaped == nil {
				escaped = append(make([]byte, 0, len(b)), b[:i]...)
			}
			i++
			if i == len(b) {
				return "", nil, false
			}
			c := b[i]
			if c == 'n' {
				c = '\n'
			}
			escaped = append(escaped, c)
		default:
			if escaped != nil {
				escaped = append(escaped, b[i])
			}
		}
	}
	return "", nil, false
}

// readValue reads a number; a time stamp may follow.
func readValue(b []byte) (float64, bool) {
	b = bytes.Trim(b, " \t\r")
	if i := bytes.IndexAny(b, " \t"); i >= 0 {
		b = b[:i]
	}
	v, err := strconv.ParseFloat(string(b), 64)
	return v, err == nil
}
