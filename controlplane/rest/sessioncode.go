package rest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
)

// SessionCode is what signs a browser in without the token passing by anybody's eyes, address bar or history.
type SessionCode struct {
	Code      string    `json:"code"`
	ExpiresAt time.Time `json:"expiresAt"`
	// Path of the console with the code, on the node that made it.
	Path string `json:"path"`
}

const (
	// codeLifetime is how long a code may be used, once.
	codeLifetime = time.Minute
	// maxCodes bounds the codes of a node, maxCodesEach those of one caller.
	maxCodes, maxCodesEach = 1000, 10
	codeBytes              = 24
)

// codes are those that can be used, by the hash of each. The zero value has none.
type codes struct {
	mu  sync.Mutex // guards all
	all map[[sha256.Size]byte]heldCode
}

// heldCode is what a code stands for.
type heldCode struct {
	token, caller string
	until         time.Time
}

// put keeps a code; false: there are too many, of the caller or at all.
func (k *codes) put(code string, of heldCode, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[[sha256.Size]byte]heldCode{}
	}
	mine := 0
	for sum, c := range k.all {
		switch {
		case !now.Before(c.until):
			delete(k.all, sum)
		case c.caller == of.caller:
			mine++
		}
	}
	if mine >= maxCodesEach || len(k.all) >= maxCodes {
		return false
	}
	k.all[sha256.Sum256([]byte(code))] = of
	return true
}

// take uses a code up, and gives the token that it stands for; empty: none.
func (k *codes) take(code string, now time.Time) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	sum := sha256.Sum256([]byte(code))
	c := k.all[sum]
	delete(k.all, sum)
	if !now.Before(c.until) {
		return ""
	}
	return c.token
}

// createCode makes a code for the caller's own token. It takes a bearer token only: a page must not be able to
// carry its session away.
func (s *Server) createCode(c echo.Context) error {
	if _, cookie := cookieCredential(c.Request()); cookie {
		return newProblem(codeForbidden, "Codes are made with a bearer token, not with a session.")
	}
	var b [codeBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	code := base64.RawURLEncoding.EncodeToString(b[:])
	id, now := identity(c), s.o.Now()
	if !s.codes.put(code, heldCode{bearer(c.Request()), string(id.Kind) + " " + id.Name, now.Add(codeLifetime)}, now) {
		return problemTooMany("Too many codes that nobody has used wait on this node.", codeLifetime)
	}
	return c.JSON(http.StatusCreated, SessionCode{Code: code, ExpiresAt: now.Add(codeLifetime).UTC(), Path: "/#code=" + code})
}

// redeem gives the token that a code stands for.
func (s *Server) redeem(c echo.Context, code string) (string, error) {
	from := address(c.Request())
	if wait := s.attempts.wait(from); wait > 0 {
		return "", problemAttempts(wait)
	}
	if token := s.codes.take(code, s.o.Now()); token != "" {
		return token, nil
	}
	s.attempts.take(from)
	return "", newProblem(codeCodeSpent, "The code is unknown here: it was used, is older than a minute, or another node made it. Run `anabranch console` again, or sign in with a token.").because("code")
}
