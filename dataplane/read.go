package dataplane

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"anabranch/dataplane/inference"
	"anabranch/dataplane/pick"
	"anabranch/dataplane/proxy"
	"anabranch/dataplane/route"
)

const (
	// maxBody bounds a request's body in bytes, after decompression; all of it is held so that it can
	// be sent again.
	maxBody = 10 << 20
	// firstPiece is the most that is set aside for a body before any of it has come, whatever length
	// the client announces.
	firstPiece = 64 << 10
	// bodyWithin bounds the time that a client may take to send its body.
	bodyWithin = 60 * time.Second
)

// read takes in the body and what the table says of it. False: it has been answered.
func (r *Router) read(x *trip, q *http.Request) bool {
	x.holding = r.bodies.holding(x.tenant.ID)
	body, problem := bodyOf(x.w, q, &x.holding)
	if problem != nil {
		x.refuse(problem)
		return false
	}
	request, err := inference.Read(q.URL.Path, body, route.Salt(x.tenant.ID))
	if err != nil {
		x.refuse(problemOf(err))
		return false
	}
	x.body, x.request = body, request
	if !x.hop {
		r.metrics.bodies.Observe(float64(len(body)))
	}
	model, adapter, ok := x.table.Model(request.Model)
	if !ok {
		x.refuse(unknownModel(request.Model))
		return false
	}
	name := string(model.ID)
	if adapter != "" {
		name = adapter
	}
	x.key = r.key(x, q, name)
	return r.obey(x, q, model, adapter)
}

// key is the affinity key: of what the client says belongs together, else of how its prompt begins.
// The name is the model's own, whatever alias the client used.
func (r *Router) key(x *trip, q *http.Request, name string) uint64 {
	for _, said := range [...]string{x.request.CacheKey, q.Header.Get("X-Anabranch-Session"), q.Header.Get(headerPrefixID)} {
		if said != "" {
			return route.Named(x.tenant.ID, name, said)
		}
	}
	return r.affinity.Key(x.request.Blocks, r.random(), x.start)
}

// headerPrefixID is how clients of SageMaker say which requests share their beginning.
const headerPrefixID = "X-Amzn-Sagemaker-Prefix-Aware-Id"

// prefixKey is what a request is placed by in mode prefix-hash: the beginning of its text, and the id
// by which the client tells groups apart.
func (x *trip) prefixKey() uint64 {
	if x.prefix == 0 {
		id := x.q.Header.Get(headerPrefixID)
		if id == "" {
			id = x.request.CacheKey
		}
		x.prefix = pick.Key(x.request.PrefixHash(x.body, x.class.PrefixLength), id)
	}
	return x.prefix
}

// picking is the request as the choice of an endpoint sees it.
func (x *trip) picking(mode pick.Mode) pick.Request {
	p := pick.Request{PromptTokens: x.prompt}
	if mode == pick.PrefixHash {
		p.PrefixKey, p.Concurrency = x.prefixKey(), int64(x.class.Concurrency)
	}
	return p
}

// bodyOf takes in all of the body, decompressed, or says what is wrong with it.
func bodyOf(w http.ResponseWriter, q *http.Request, h *holding) ([]byte, *proxy.Error) {
	encoding := strings.Join(q.Header["Content-Encoding"], ",")
	body, problem := readBody(w, q, h)
	if problem != nil || encoding == "" {
		return body, problem
	}
	body, err := inference.Inflate(encoding, body, maxBody)
	switch {
	case errors.Is(err, inference.ErrEncoding):
		w.Header().Set("Accept-Encoding", "gzip, identity") // RFC 9110, section 15.5.16
		return nil, encoded(encoding)
	case errors.Is(err, inference.ErrTooLarge):
		return nil, tooLarge()
	case err != nil:
		return nil, corrupt()
	}
	if problem := h.upTo(int64(len(body))); problem != nil {
		return nil, problem
	}
	q.Header.Del("Content-Encoding") // places get it as it is
	return body, nil
}

// readBody takes in all of the body as it comes, or says what is wrong with it.
func readBody(w http.ResponseWriter, q *http.Request, h *holding) ([]byte, *proxy.Error) {
	if q.ContentLength > maxBody {
		return nil, tooLarge()
	}
	size := q.ContentLength
	if size < 0 {
		size = 4 << 10
	}
	body, err := readAll(http.MaxBytesReader(w, q.Body, maxBody), size, h)
	if err != nil {
		var large *http.MaxBytesError
		var full *proxy.Error // there is no room for it
		switch {
		case errors.As(err, &full):
			return nil, full
		case errors.As(err, &large):
			return nil, tooLarge()
		}
		return nil, unreadable()
	}
	_ = q.Body.Close() // or the server would look for its end once more, before it sends the header
	// Or a long answer would look like a client that left.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return body, nil
}

// readAll is io.ReadAll with room for the size expected, as it comes.
func readAll(from io.Reader, size int64, h *holding) ([]byte, error) {
	b := make([]byte, 0, min(size, firstPiece)+1)
	for {
		n, err := from.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return b, err
		}
		if len(b) == cap(b) {
			more := min(int64(len(b)), max(size+1-int64(len(b)), bytes.MinRead))
			if problem := h.upTo(int64(len(b)) + more); problem != nil {
				return nil, problem
			}
			b = slices.Grow(b, int(more))
		}
	}
}

func problemOf(err error) *proxy.Error {
	var p *inference.Problem
	if errors.As(err, &p) {
		return malformed(p)
	}
	return malformed(&inference.Problem{Message: "The body can't be read."})
}
