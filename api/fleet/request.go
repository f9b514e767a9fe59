package fleet

import (
	"encoding/hex"
	"strings"
)

// requestDigits is how many hex digits follow the router's name in a request id.
const requestDigits = 16

// RequestID is a router's own name of a request: the router, a hyphen, and the number in 16 hex digits.
func RequestID(router RouterID, number uint64) string {
	var raw [requestDigits / 2]byte
	for i := range raw {
		raw[i] = byte(number >> (8 * (len(raw) - 1 - i)))
	}
	b := make([]byte, 0, len(router)+1+requestDigits)
	b = append(append(b, router...), '-')
	return string(hex.AppendEncode(b, raw[:]))
}

// RouterOf is the router that made a request id. False: no router makes such a one; it may be a client's
// own.
func RouterOf(request string) (RouterID, bool) {
	at := len(request) - requestDigits - 1
	if at < 1 || request[at] != '-' || strings.Trim(request[at+1:], "0123456789abcdef") != "" || CheckName(request[:at]) != nil {
		return "", false
	}
	return RouterID(request[:at]), true
}
