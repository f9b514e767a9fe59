package dataplane

import (
	"net/http"

	"anabranch/api/fleet"
	"anabranch/dataplane/proxy"
)

// maxID bounds a request id that somebody else chose.
const maxID = 128

// requestID names a client's request: this router and 16 hex digits.
func (r *Router) requestID() string { return fleet.RequestID(r.o.Router, r.random()) }

// hopID is the name that a request from a peer got there, so that both routers' records are found
// by it.
func (r *Router) hopID(h http.Header) string {
	if id := h.Get(proxy.HeaderRequestID); fit(id) {
		return id
	}
	return r.requestID()
}

// clientID is the request id that a client gave, if it is fit to be repeated. Empty: none.
func clientID(h http.Header) string {
	if id := h.Get("X-Request-Id"); fit(id) {
		return id
	}
	return ""
}

func fit(id string) bool { return id != "" && len(id) <= maxID && printable(id) }

// printable: visible ASCII only, so that it can stand in a header and a log.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
