package rest

import (
	"strings"
	"testing"
)

func TestHEADAnswersAsGETWithoutABody(t *testing.T) {
	d := newDouble(t)
	d.seed("Region us {}")
	for _, path := range []string{"/v1/regions", "/v1/regions/us", "/v1/regions/nowhere", "/v1/status", "/v1/nothing", "/healthz", "/", "/assets/index-1a2.js"} {
		get, head := d.do("viewer", "GET", path, ""), d.do("viewer", "HEAD", path, "")
		if head.status != get.status || len(head.body) > 0 {
			t.Errorf("HEAD %s: %d with %d bytes, GET %d", path, head.status, len(head.body), get.status)
		}
		for _, name := range []string{"ETag", "Content-Type", "X-Anabranch-Revision", "X-Staleness-Ms", "Cache-Control"} {
			if g, h := get.header.Get(name), head.header.Get(name); g != h {
				t.Errorf("HEAD %s: %s is %q, with GET %q", path, name, h, g)
			}
		}
	}
	d.do("", "HEAD", "/v1/regions", "").want(401, "")
}

func TestHEADOfAWatchEndsAfterItsHeaders(t *testing.T) {
	d := newDouble(t)
	for _, path := range []string{"/v1/watch", "/v1/regions?watch=true", "/v1/fleet/watch"} {
		if a := d.do("viewer", "HEAD", path, "").want(200, ""); a.header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%s: %v", path, a.header)
		}
	}
	if n := d.server.watches.Load(); n != 0 {
		t.Errorf("%d watches are still counted", n)
	}
}

func TestOPTIONSTellsTheMethodsAndOpensNothingToOtherOrigins(t *testing.T) {
	d := newDouble(t)
	for path, want := range map[string][]string{
		"/v1/regions":    {"GET", "HEAD", "POST", "OPTIONS"},
		"/v1/regions/us": {"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"},
		"/v1/status":     {"GET", "HEAD", "OPTIONS"},
	} {
		a := d.do("", "OPTIONS", path, "", "Origin: https://elsewhere.example", "Access-Control-Request-Method: PUT").want(204, "")
		allowed := strings.Split(a.header.Get("Allow"), ", ")
		if len(allowed) != len(want) {
			t.Errorf("%s allows %q, want %q", path, allowed, want)
		}
		for _, m := range want {
			if !strings.Contains(a.header.Get("Allow"), m) {
				t.Errorf("%s allows %q, want %s too", path, allowed, m)
			}
		}
		for name := range a.header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s answers %s", path, name)
			}
		}
	}
	a := d.do("viewer", "DELETE", "/v1/regions", "").want(405, "method_not_allowed")
	if allow := a.header.Get("Allow"); !strings.Contains(allow, "HEAD") || !strings.Contains(allow, "POST") || strings.Contains(allow, "PUT") {
		t.Errorf("Allow %q", allow)
	}
}
