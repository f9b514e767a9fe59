package rest

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/labstack/echo/v4"
)

// contentPolicy lets the console load nothing but its own files and speak to nobody but this server.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const notBuilt = `The console is not part of this build.

Build it with "make build", which needs Node.js and npm ("make deps" installs them), and start the
control plane again. The API under /v1/ works without it.
`

// console serves the console's files. Paths that are no file belong to the page's own router and
// get index.html; files below assets/ have a hash of their content in their name and never change.
func (s *Server) console(c echo.Context) error {
	h := c.Response().Header()
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if s.o.Console == nil || !isFile(s.o.Console, "index.html") {
		return c.String(http.StatusServiceUnavailable, notBuilt)
	}
	name := strings.TrimPrefix(path.Clean("/"+c.Request().URL.Path), "/")
	switch {
	case isFile(s.o.Console, name):
	case path.Ext(name) != "" || strings.HasPrefix(name, "assets/"):
		return echo.ErrNotFound
	default:
		name = "index.html"
	}
	h.Set("Cache-Control", "no-cache")
	if strings.HasPrefix(name, "assets/") {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	return s.file(c, name)
}

func isFile(files fs.FS, name string) bool {
	info, err := fs.Stat(files, name)
	return err == nil && info.Mode().IsRegular()
}

func (s *Server) file(c echo.Context, name string) error {
	b, err := fs.ReadFile(s.o.Console, name)
	if errors.Is(err, fs.ErrNotExist) {
		return echo.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("console file %s: %w", name, err)
	}
	return c.Blob(http.StatusOK, contentType(name), b)
}

// contentTypes of what a build holds; the host's own table of types may lack or change them.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon", ".woff2": "font/woff2",
	".json": "application/json", ".webmanifest": "application/manifest+json", ".map": "application/json", ".txt": "text/plain; charset=utf-8",
}

func contentType(name string) string {
	if t := contentTypes[path.Ext(name)]; t != "" {
		return t
	}
	return "application/octet-stream"
}
