package fleet

import (
	"strings"
	"testing"
)

func TestARequestIDNamesItsRouter(t *testing.T) {
	for _, c := range []struct {
		id, router string
	}{
		{RequestID("us-east-1-r1", 0x4f0c21aa9be34d10), "us-east-1-r1"},
		{"us-east-1-r1-4f0c21aa9be34d10", "us-east-1-r1"},
		{RequestID("a", 0), "a"},
		{RequestID("a-0123456789abcdef", 1), "a-0123456789abcdef"}, // a router may be called like a request
		{"", ""},
		{"4f0c21aa9be34d10", ""},
		{"-4f0c21aa9be34d10", ""},
		{"r1-4f0c21aa9be34d1", ""},
		{"r1-4f0c21aa9be34d100", ""},
		{"r1-4F0C21AA9BE34D10", ""},
		{"r1-4f0c21aa9be34d1g", ""},
		{"R1-4f0c21aa9be34d10", ""},
		{"r1 4f0c21aa9be34d10", ""},
		{"../x-4f0c21aa9be34d10", ""},
		{strings.Repeat("a", MaxNameLength+1) + "-4f0c21aa9be34d10", ""},
	} {
		router, ok := RouterOf(c.id)
		if string(router) != c.router || ok != (c.router != "") {
			t.Errorf("%q: %q, %v", c.id, router, ok)
		}
	}
}

func FuzzRouterOf(f *testing.F) {
	f.Add("us-east-1-r1-4f0c21aa9be34d10", uint64(7))
	f.Add("r1", uint64(0))
	f.Fuzz(func(t *testing.T, s string, number uint64) {
		if router, ok := RouterOf(s); ok && (CheckName(string(router)) != nil || !strings.HasPrefix(s, string(router)+"-")) {
			t.Errorf("%q: %q", s, router)
		}
		if CheckName(s) != nil {
			return
		}
		if router, ok := RouterOf(RequestID(RouterID(s), number)); !ok || string(router) != s {
			t.Errorf("of router %q: %q, %v", s, router, ok)
		}
	})
}
