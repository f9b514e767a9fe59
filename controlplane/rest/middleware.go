package rest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/labstack/echo/v4"
)

const (
	headerReason    = "X-Anabranch-Reason"
	headerRequestID = "X-Request-Id"
	headerStaleness = "X-Staleness-Ms"
)

// recovered answers 500 to a handler that panics, and logs where.
func (s *Server) recovered(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			switch p := recover(); {
			case p == nil:
			case isAbort(p):
				panic(p) // net/http's own way to end a response
			default:
				s.o.Logger.Error("handler panicked", slog.String("route", c.Path()), slog.String("panic", fmt.Sprint(p)), slog.String("stack", string(debug.Stack())))
				err = problemInternal()
			}
		}()
		return next(c)
	}
}

func isAbort(p any) bool {
	err, ok := p.(error)
	return ok && errors.Is(err, http.ErrAbortHandler)
}

// secured sets the headers that every answer carries. Answers of the API are not to be cached; the
// console's files say otherwise themselves.
func secured(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		return next(c)
	}
}

// identified gives every request an id: the caller's, if it is short and printable, or a new one.
func identified(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		id := c.Request().Header.Get(headerRequestID)
		if id == "" || len(id) > 128 || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
			var b [8]byte
			_, _ = rand.Read(b[:]) // never fails
			id = hex.EncodeToString(b[:])
		}
		c.Response().Header().Set(headerRequestID, id)
		return next(c)
	}
}

func requestID(c echo.Context) string { return c.Response().Header().Get(headerRequestID) }

// timed bounds a request; watches go without.
func timed(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx, cancel := context.WithTimeout(c.Request().Context(), RequestTimeout)
		defer cancel()
		c.SetRequest(c.Request().WithContext(ctx))
		return next(c)
	}
}

// headKey marks the context of a request that was HEAD.
type headKey struct{}

// serve answers HEAD wherever GET is answered, with the same headers: net/http leaves out the body, going
// by the request that it has itself.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead {
		r = r.WithContext(context.WithValue(r.Context(), headKey{}, true))
		r.Method = http.MethodGet
	}
	s.echo.ServeHTTP(w, r)
}

func isHead(c echo.Context) bool { return c.Request().Context().Value(headKey{}) != nil }

// allowed lets Allow name HEAD where it names GET.
func allowed(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		answer := c.Response()
		answer.Before(func() {
			if allow := answer.Header().Get(echo.HeaderAllow); strings.Contains(allow, http.MethodGet) {
				answer.Header().Set(echo.HeaderAllow, strings.Replace(allow, http.MethodGet, http.MethodGet+", "+http.MethodHead, 1))
			}
		})
		return next(c)
	}
}
