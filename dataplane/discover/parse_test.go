package discover

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"anabranch/dataplane/table"
)

func TestAFileIsAListOfEndpoints(t *testing.T) {
	a := table.Endpoint{ID: "a", URL: "http://10.0.0.1:8000", Class: "h100", KVEventsURL: "tcp://10.0.0.1:5557"}
	b := table.Endpoint{ID: "b", URL: "https://b.example/base"}
	for name, c := range map[string]struct {
		text string
		want []table.Endpoint
	}{
		"YAML": {`
# two servers
- id: b
  url: https://b.example/base/
- id: a
  url: http://10.0.0.1:8000
  class: H100
  kvEventsURL: tcp://10.0.0.1:5557
`, []table.Endpoint{a, b}},
		"JSON":              {`[{"id":"a","url":"http://10.0.0.1:8000","class":"h100","kvEventsURL":"tcp://10.0.0.1:5557"}]`, []table.Endpoint{a}},
		"JSON with tabs":    {"[\n\t{\n\t\t\"id\":\t\"b\",\n\t\t\"url\":\t\"https:\\/\\/b.example\\/base\"\n\t}\n]\n", []table.Endpoint{b}},
		"flow style":        {"[{id: b, url: 'https://b.example/base'}]", []table.Endpoint{b}},
		"none":              {"[]", []table.Endpoint{}},
		"a marked document": {"---\n[]\n...\n", []table.Endpoint{}},
		"an IPv6 address":   {"- {id: '[fd00::1]:8000', url: 'http://[fd00::1]:8000'}", []table.Endpoint{{ID: "[fd00::1]:8000", URL: "http://[fd00::1]:8000"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(c.text))
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestAFileThatIsWrongIsRefusedWithoutRepeatingIt(t *testing.T) {
	const secret = "eyJhbGciOiJSUzI1NiJ9"
	for name, c := range map[string]struct{ text, says string }{
		"nothing at all":     {"", "is empty"},
		"only a comment":     {"# to come\n", "is empty"},
		"a token":            {secret, "not a list"},
		"null":               {"null", "not a list"},
		"a mapping":          {"endpoints: []", "not a list"},
		"a scalar inside":    {"- " + secret, "line 1"},
		"a list inside":      {"- [a]", "line 1"},
		"an unknown key":     {"- id: a\n  url: http://a\n  wieght: 3\n", "line 3: unknown key wieght"},
		"a key in capitals":  {"- {ID: a, url: 'http://a'}", "unknown key ID"},
		"a secret as key":    {"- {" + secret + ": x}", "unknown key"},
		"a key twice":        {"- id: a\n  url: http://a\n  id: b\n", "line 3"},
		"a number as id":     {"- {id: 17, url: 'http://a'}", "id is not a string"},
		"null as url":        {"- {id: a, url: ~}", "url is not a string"},
		"a mapping as url":   {"- {id: a, url: {host: a}}", "url is not a string"},
		"an alias":           {"- &a {id: a, url: 'http://a'}\n- *a", "line 2"},
		"a merge":            {"- &a {id: a, url: 'http://a'}\n- {<<: *a, id: b}", "line 2"},
		"two documents":      {"[]\n---\n[]\n", "more than one document"},
		"rubbish after":      {"[]\n- a\n", ""},
		"half a JSON":        {`[{"id":"a","url":"http://a"},{"id":"b"`, ""},
		"no id":              {"- url: http://a", "endpoint 1: id is empty"},
		"no url":             {"- id: a", "endpoint a: url"},
		"an id twice":        {"- {id: a, url: 'http://a'}\n- {id: a, url: 'http://b'}", "endpoint a is there twice"},
		"a relative url":     {"- {id: a, url: '/v1'}", "not an absolute http or https URL"},
		"another scheme":     {"- {id: a, url: 'ftp://a'}", "not an absolute http or https URL"},
		"a url with a user":  {"- {id: a, url: 'http://u:" + secret + "@a'}", "holds a user"},
		"a url with a query": {"- {id: a, url: 'http://a?key=" + secret + "'}", "holds a user, query"},
		"a url with control": {"- {id: a, url: \"http://a\\n" + secret + "\"}", "does not parse"},
		"a class with space": {"- {id: a, url: 'http://a', class: '" + secret + " 1'}", "class"},
		"events over http":   {"- {id: a, url: 'http://a', kvEventsURL: 'http://a:1'}", "kvEventsURL is not an absolute tcp URL"},
		"a long id":          {"- {id: " + strings.Repeat("a", maxID+1) + ", url: 'http://a'}", "the limit is 260"},
		"a long url":         {"- {id: a, url: 'http://a/" + strings.Repeat("a", maxURL) + "'}", "the limit is 2048"},
		"an id with newline": {"- {id: \"a\\nb\", url: 'http://a'}", "id holds a character"},
		"tabs to indent":     {"-\tid: a\n\turl: http://a\n", ""},
		"nesting":            {strings.Repeat("[", 20_000), ""},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := Parse([]byte(c.text))
			if err == nil {
				t.Fatalf("taken: %+v", list)
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q does not say %q", err, c.says)
			}
			if strings.Contains(strings.ToLower(err.Error()), strings.ToLower(secret[:8])) {
				t.Errorf("%q repeats what was in the file", err)
			}
		})
	}
}

// lines makes a file of n endpoints.
func lines(n int) []byte {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "- {id: e%d, url: 'http://10.%d.%d.%d:8000'}\n", i, i>>16, i>>8&255, i&255)
	}
	return []byte(b.String())
}

func TestAFileHoldsTenThousandEndpointsAndNoMore(t *testing.T) {
	list, err := Parse(lines(MaxEndpoints))
	if err != nil || len(list) != MaxEndpoints {
		t.Fatalf("%d, %v", len(list), err)
	}
	if _, err := Parse(lines(MaxEndpoints + 1)); err == nil || !strings.Contains(err.Error(), "the limit is 10000") {
		t.Errorf("one more: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("- {id: a, url: 'http://a'}\n"))
	f.Add([]byte(`[{"id":"a","url":"http://a","class":"h100"}]`))
	f.Add([]byte("- &a {id: a, url: 'http://a'}\n- *a\n"))
	f.Add([]byte("[]\n---\n[]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := Parse(text)
		if err != nil {
			return
		}
		// What is taken is valid and in order, and a file made of it means the same.
		type entry struct {
			ID    string `json:"id"`
			URL   string `json:"url"`
			Class string `json:"class"`
			KV    string `json:"kvEventsURL"`
		}
		entries := []entry{}
		for i, e := range list {
			if i > 0 && list[i-1].ID >= e.ID {
				t.Errorf("%q comes after %q", e.ID, list[i-1].ID)
			}
			entries = append(entries, entry{string(e.ID), e.URL, e.Class, e.KVEventsURL})
		}
		again, err := json.Marshal(entries)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Parse(again); err != nil || !reflect.DeepEqual(got, list) {
			t.Errorf("%s becomes %+v, %v", again, got, err)
		}
	})
}
