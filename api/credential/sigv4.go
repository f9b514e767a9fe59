package credential

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// AWS Signature Version 4 as services other than S3 want it: the path is escaped once more, and the
// body is hashed ("Create a signed AWS API request", IAM User Guide). Signed are the host, the
// content's type and length and all x-amz-*; what proxies may change on the way is not.
const (
	algorithm  = "AWS4-HMAC-SHA256"
	terminator = "aws4_request"
	timeFormat = "20060102T150405Z"
	dayLength  = len("20060102")
)

var errOpaque = errors.New("sign request: its URL is opaque and has no path")

// signer signs for one service of one region.
type signer struct {
	keys            keys
	region, service string
	derived         atomic.Pointer[derived]
}

// derived is the key that signs for a day.
type derived struct {
	day string
	key []byte
}

func (s *signer) sign(r *http.Request, body []byte, now time.Time) error {
	if r.URL.Opaque != "" {
		return errOpaque
	}
	at := now.UTC().Format(timeFormat)
	h := r.Header
	for _, name := range []string{"Authorization", "X-Amz-Content-Sha256", "X-Amz-Security-Token"} {
		h.Del(name) // what a client may have sent
	}
	h.Set("X-Amz-Date", at)
	if s.keys.token != "" {
		h.Set("X-Amz-Security-Token", s.keys.token)
	}
	if host := withoutPort(r); host != "" {
		r.Host = host
	}
	r.URL.RawQuery = canonicalQuery(r.URL.Query())

	text := make([]byte, 0, 1024)
	text = append(text, r.Method...)
	text = append(text, '\n')
	text = appendEscaped(text, r.URL.EscapedPath())
	text = append(text, '\n')
	text = append(text, r.URL.RawQuery...)
	text = append(text, '\n')
	text, names := appendHeaders(text, r)
	text = append(text, '\n')
	text = append(text, names...)
	text = append(text, '\n')
	text = appendHash(text, body)

	scope := at[:dayLength] + "/" + s.region + "/" + s.service + "/" + terminator
	toSign := make([]byte, 0, 256)
	toSign = append(toSign, algorithm+"\n"...)
	toSign = append(toSign, at...)
	toSign = append(toSign, '\n')
	toSign = append(toSign, scope...)
	toSign = append(toSign, '\n')
	toSign = appendHash(toSign, text)
	signature := hex.EncodeToString(mac(s.key(at[:dayLength]), toSign))
	h.Set("Authorization", algorithm+" Credential="+s.keys.id+"/"+scope+", SignedHeaders="+names+", Signature="+signature)
	return nil
}

// key derives the key of a day, once.
func (s *signer) key(day string) []byte {
	if d := s.derived.Load(); d != nil && d.day == day {
		return d.key
	}
	key := mac([]byte("AWS4"+s.keys.secret), []byte(day))
	for _, part := range []string{s.region, s.service, terminator} {
		key = mac(key, []byte(part))
	}
	s.derived.Store(&derived{day, key})
	return key
}

func mac(key, data []byte) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write(data) // a hash takes everything
	return h.Sum(nil)
}

func appendHash(to, data []byte) []byte {
	sum := sha256.Sum256(data)
	return hex.AppendEncode(to, sum[:])
}

// appendEscaped escapes a path that is escaped already, and is "/" if it is empty.
func appendEscaped(to []byte, path string) []byte {
	if path == "" {
		return append(to, '/')
	}
	const digits = "0123456789ABCDEF"
	for i := range len(path) {
		c := path[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~/", c) >= 0:
			to = append(to, c)
		default:
			to = append(to, '%', digits[c>>4], digits[c&15])
		}
	}
	return to
}

// canonicalQuery sorts parameters by their escaped names, then by their escaped values.
func canonicalQuery(query url.Values) string {
	if len(query) == 0 {
		return ""
	}
	pairs := make([][2]string, 0, len(query))
	for name, values := range query {
		for _, value := range values {
			pairs = append(pairs, [2]string{escapedPart(name), escapedPart(value)})
		}
	}
	slices.SortFunc(pairs, func(a, b [2]string) int {
		if c := strings.Compare(a[0], b[0]); c != 0 {
			return c
		}
		return strings.Compare(a[1], b[1])
	})
	var b strings.Builder
	for i, p := range pairs {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(p[0])
		b.WriteByte('=')
		b.WriteString(p[1])
	}
	return b.String()
}

// escapedPart escapes all but letters, digits and "-._~".
func escapedPart(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// appendHeaders appends what is signed, one line each in the order of names, and lists the names.
func appendHeaders(to []byte, r *http.Request) (text []byte, names string) {
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	signed := map[string][]string{"host": {host}}
	if r.ContentLength > 0 {
		signed["content-length"] = []string{strconv.FormatInt(r.ContentLength, 10)}
	}
	for name, values := range r.Header {
		if name == "Content-Type" || strings.HasPrefix(name, "X-Amz-") {
			signed[strings.ToLower(name)] = values
		}
	}
	order := make([]string, 0, len(signed))
	for name := range signed {
		order = append(order, name)
	}
	slices.Sort(order)
	for _, name := range order {
		to = append(to, name...)
		to = append(to, ':')
		for i, value := range signed[name] {
			if i > 0 {
				to = append(to, ',')
			}
			to = append(to, collapsed(value)...)
		}
		to = append(to, '\n')
	}
	return to, strings.Join(order, ";")
}

// collapsed is a value without white space around it and with one space for several inside.
func collapsed(s string) string {
	s = strings.TrimSpace(s)
	for strings.Contains(s, "  ") {
		s = strings.ReplaceAll(s, "  ", " ")
	}
	return s
}

// withoutPort is the request's host without the port that its scheme implies; empty: it stays as it
// is.
func withoutPort(r *http.Request) string {
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil || r.URL.Scheme+port != "http80" && r.URL.Scheme+port != "https443" {
		return ""
	}
	if strings.Contains(name, ":") {
		return "[" + name + "]"
	}
	return name
}
