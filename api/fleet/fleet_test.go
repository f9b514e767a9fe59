package fleet

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for _, c := range []struct {
		name      string
		plain, as bool // legal as a plain name, as a model
	}{
		{"us-east-1", true, true},
		{"a", true, true},
		{"llama-3.1-8b", true, true},
		{"meta-llama/Llama-3.1-8B", false, true},
		{"gpt-4o:2024@azure", false, true},
		{"", false, false},
		{"-a", false, false},
		{"a-", false, false},
		{"a b", false, false},
		{"ü", false, false},
		{"../etc", false, false},
		{strings.Repeat("a", MaxNameLength), true, true},
		{strings.Repeat("a", MaxNameLength+1), false, false},
	} {
		if err := CheckName(c.name); (err == nil) != c.plain {
			t.Errorf("CheckName(%q) = %v", c.name, err)
		}
		if err := CheckModel(c.name); (err == nil) != c.as {
			t.Errorf("CheckModel(%q) = %v", c.name, err)
		}
	}
}

func FuzzCheckName(f *testing.F) {
	f.Add("us-east-1")
	f.Add("A/b")
	f.Fuzz(func(t *testing.T, s string) {
		if CheckName(s) == nil && (CheckModel(s) != nil || strings.ContainsAny(s, "/ \n\x00")) {
			t.Errorf("%q is a name but no model, or holds what a path or header must not", s)
		}
	})
}
