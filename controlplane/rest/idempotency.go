package rest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// headerKey is the client's own name for a write, so that it may be sent again when its outcome is
// not known. The answer repeats it if the key is in force.
const headerKey = "Idempotency-Key"

const onceKey = "anabranch.once"

// keyed makes a write with an Idempotency-Key happen once: what was answered before is answered again
// before anything is judged, since the state has moved on. While a cluster is being upgraded from a
// version that does not know keys, they are not in force.
func (s *Server) keyed(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		key := c.Request().Header.Get(headerKey)
		if dry, err := flag(c, "dry_run"); key == "" || err != nil || dry {
			return next(c) // nothing is written, or the handler says what is wrong
		}
		if len(key) > state.MaxKey || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return newProblem(codeInvalidRequest, fmt.Sprintf("%s must be 1 to %d printable characters without spaces, such as a UUID.", headerKey, state.MaxKey))
		}
		body, err := io.ReadAll(http.MaxBytesReader(c.Response(), c.Request().Body, MaxBody))
		switch {
		case errors.As(err, new(*http.MaxBytesError)):
			return err
		case err != nil:
			return newProblem(codeInvalidRequest, "The body could not be read to its end.")
		}
		c.Request().Body = io.NopCloser(bytes.NewReader(body))
		if err := s.barrier(c.Request().Context()); err != nil {
			return err
		}
		view := s.o.View()
		if view.FeatureLevel() < 2 {
			return next(c)
		}
		c.Response().Header().Set(headerKey, key)
		once := &statepb.Once{Key: key, RequestSha256: fingerprint(c.Request(), body)}
		if a := view.AnswerTo(actor(c).GetName(), key, s.o.Now()); a != nil {
			if !bytes.Equal(a.GetRequestSha256(), once.GetRequestSha256()) {
				return problemKeyReused()
			}
			return s.answerAgain(c, a)
		}
		c.Set(onceKey, once)
		return next(c)
	}
}

// once is what makes this request's command happen once; nil: nothing does.
func once(c echo.Context) *statepb.Once {
	o, _ := c.Get(onceKey).(*statepb.Once)
	return o
}

// fingerprint hashes what a write asks for: method, path, query, preconditions and body.
func fingerprint(r *http.Request, body []byte) []byte {
	h := sha256.New()
	add := func(b []byte) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(b)))
		h.Write(size[:])
		h.Write(b)
	}
	add([]byte(r.Method))
	add([]byte(r.URL.Path))
	add([]byte(r.URL.Query().Encode())) // sorted
	for _, name := range []string{"If-Match", "If-None-Match"} {
		add([]byte(strings.Join(slices.Clone(r.Header.Values(name)), ",")))
	}
	for _, name := range []string{headerManager, headerGlass} {
		if value := r.Header.Get(name); value != "" {
			add([]byte(name)) // requests without one keep the fingerprint that they always had
			add([]byte(value))
		}
	}
	add(body)
	return h.Sum(nil)
}

func problemKeyReused() *Problem {
	return newProblem(codeKeyReused, "The key was sent with another request in the last 24 hours. Take a new one for each write, and the same one only to send it again.")
}

// answerAgain gives the first answer to a write, but for the status, which is that of now.
func (s *Server) answerAgain(c echo.Context, a *statepb.Answer) error {
	if a.GetKind() == "" {
		return c.NoContent(http.StatusNoContent)
	}
	if a.GetKind() == state.KindProposal {
		return s.decidedAgain(c, a)
	}
	if a.GetKind() == state.KindDrill {
		return s.drillAgain(c, a)
	}
	if a.GetKind() == state.KindToken {
		return s.issueAgain(c, a)
	}
	if a.GetKind() == state.KindOrder {
		c.Response().Header().Set("Location", "/v1/emergency/"+a.GetName())
		return s.answerEmergency(c, s.o.View(), a.GetName(), http.StatusCreated)
	}
	kind := policy.Kind(a.GetKind())
	r, err := policy.FromCanonical(kind, a.GetName(), a.GetDoc())
	if err != nil {
		return fmt.Errorf("answer again: %w", err)
	}
	r.Metadata.Revision, r.Metadata.UpdatedBy, r.Metadata.Managers = a.GetRevision(), a.GetUpdatedBy(), state.ManagersFrom(a.GetManagers())
	r.Metadata.CreatedAt, r.Metadata.UpdatedAt = time.UnixMilli(a.GetCreatedUnixMs()).UTC(), time.UnixMilli(a.GetUpdatedUnixMs()).UTC()
	dressed := resources{s, kind}.dresser(s.o.View())(r)
	h := c.Response().Header()
	h.Set("ETag", etag(a.GetRevision()))
	if !a.GetCreated() {
		return c.JSON(http.StatusOK, dressed)
	}
	h.Set("Location", "/v1/"+policy.Plural(kind)+"/"+url.PathEscape(a.GetName()))
	return c.JSON(http.StatusCreated, dressed)
}
