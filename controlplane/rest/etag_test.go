package rest

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/policy"
)

func TestConditions(t *testing.T) {
	tests := []struct {
		name        string
		match, none string
		createToo   bool
		want        condition
		code        string
	}{
		{"an ETag", `"7"`, "", true, condition{revision: 7}, ""},
		{"without quotes", `7`, "", true, condition{revision: 7}, ""},
		{"one of several is current", `"5", "7"`, "", true, condition{revision: 7}, ""},
		{"none of several is current", `"5","6"`, "", true, condition{revision: 5}, ""},
		{"whatever is there", `*`, "", true, condition{any: true}, ""},
		{"create", "", "*", true, condition{create: true}, ""},
		{"nothing", "", "", true, condition{}, codeRequired},
		{"nothing, and no creating", "", "", false, condition{}, codeRequired},
		{"create where that can't be", "", "*", false, condition{}, codeInvalidRequest},
		{"an ETag to differ from", "", `"7"`, true, condition{}, codeInvalidRequest},
		{"both", `"7"`, "*", true, condition{}, codeInvalidRequest},
		{"weak", `W/"7"`, "", true, condition{}, codeInvalidRequest},
		{"zero", `"0"`, "", true, condition{}, codeInvalidRequest},
		{"negative", `"-1"`, "", true, condition{}, codeInvalidRequest},
		{"a word", `"abc"`, "", true, condition{}, codeInvalidRequest},
		{"too large", `"99999999999999999999"`, "", true, condition{}, codeInvalidRequest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := http.Header{}
			if tt.match != "" {
				h.Set("If-Match", tt.match)
			}
			if tt.none != "" {
				h.Set("If-None-Match", tt.none)
			}
			got, err := conditionOf(h, 7, tt.createToo)
			var p *Problem
			if errors.As(err, &p) != (tt.code != "") || p != nil && p.Code != tt.code || got != tt.want {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestConditionsAreJudged(t *testing.T) {
	seven := &policy.Resource{Metadata: policy.Metadata{Name: "x", Revision: 7}}
	tests := []struct {
		name string
		when condition
		r    *policy.Resource
		code string
	}{
		{"create what is not there", condition{create: true}, nil, ""},
		{"create what is there", condition{create: true}, seven, codePrecondition},
		{"change what is not there", condition{revision: 7}, nil, codeNotFound},
		{"change whatever is not there", condition{any: true}, nil, codeNotFound},
		{"change this revision", condition{revision: 7}, seven, ""},
		{"change another revision", condition{revision: 6}, seven, codePrecondition},
		{"change whatever is there", condition{any: true}, seven, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := tt.when.check(policy.KindTenant, "x", tt.r)
			if (p == nil) != (tt.code == "") || p != nil && p.Code != tt.code {
				t.Errorf("got %v, want %q", p, tt.code)
			}
		})
	}
}

func TestCursorsComeBack(t *testing.T) {
	e := echo.New()
	for _, k := range []cursor{{After: "a/b?&=ü"}, {Before: 1 << 62}} {
		c := e.NewContext(httptest.NewRequest(http.MethodGet, "/?cursor="+k.String(), nil), nil)
		if got, err := cursorOf(c); err != nil || got != k {
			t.Errorf("%+v came back as %+v, %v", k, got, err)
		}
	}
}

func FuzzConditionOf(f *testing.F) {
	for _, seed := range []string{`"7"`, `*`, `"1","7"`, `W/"7"`, `,`, ``} {
		f.Add(seed, seed, true)
	}
	f.Fuzz(func(t *testing.T, match, none string, createToo bool) {
		when, err := conditionOf(http.Header{"If-Match": {match}, "If-None-Match": {none}}, 7, createToo)
		if err != nil {
			if when != (condition{}) {
				t.Fatalf("%+v beside %v", when, err)
			}
			return
		}
		// What is understood says exactly one thing.
		said := 0
		for _, yes := range []bool{when.create, when.any, when.revision != 0} {
			if yes {
				said++
			}
		}
		if said != 1 || when.create && !createToo {
			t.Fatalf("If-Match %q, If-None-Match %q: %+v", match, none, when)
		}
	})
}
