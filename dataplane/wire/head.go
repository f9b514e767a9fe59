package wire

import (
	"net/http"
	"strconv"
	"sync"
)

// heads are reused; one that grew beyond keepHead is left to the collector.
var heads = sync.Pool{New: func() any { return new([]byte) }}

const keepHead = 64 << 10

func putHead(b *[]byte) {
	if cap(*b) <= keepHead {
		heads.Put(b)
	}
}

// appendHead appends the first line and the header of a request.
func appendHead(b []byte, q *http.Request) ([]byte, error) {
	b = append(b, q.Method...)
	b = append(b, ' ')
	b = append(b, q.URL.RequestURI()...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	if q.Host != "" {
		b = appendValue(b, q.Host)
	} else {
		b = appendValue(b, q.URL.Host)
	}
	b = append(b, "\r\n"...)
	for key, values := range q.Header {
		switch key {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer", "Connection":
			continue // told above and below
		}
		if !token(key) {
			return b, invalid(key)
		}
		for _, v := range values {
			b = append(b, key...)
			b = append(b, ": "...)
			b = appendValue(b, v)
			b = append(b, "\r\n"...)
		}
	}
	if q.ContentLength > 0 || q.Method == http.MethodPost || q.Method == http.MethodPut || q.Method == http.MethodPatch {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, q.ContentLength, 10)
		b = append(b, "\r\n"...)
	}
	if q.Close {
		b = append(b, "Connection: close\r\n"...)
	}
	return append(b, "\r\n"...), nil
}

// appendValue appends a value; what would end the line, or is no text, becomes a space.
func appendValue(b []byte, v string) []byte {
	from := len(b)
	b = append(b, v...)
	for i, c := range b[from:] {
		if c < ' ' && c != '\t' || c == 0x7f {
			b[from+i] = ' '
		}
	}
	return b
}

// token says whether a name may be that of a field (RFC 9110, section 5.6.2).
func token(name string) bool {
	for i := range len(name) {
		if !tokens[name[i]] {
			return false
		}
	}
	return name != ""
}

var tokens = func() (t [256]bool) {
	for c := '0'; c <= '9'; c++ {
		t[c] = true
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = true, true
	}
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] = true
	}
	return t
}()
