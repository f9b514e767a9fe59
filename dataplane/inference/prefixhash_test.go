package inference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"
)

func prefixOf(t testing.TB, path, body string, salt uint64, chars int) uint64 {
	t.Helper()
	r, err := Read(path, []byte(body), salt)
	must(t, err)
	return r.PrefixHash([]byte(body), chars)
}

func TestSameTextSamePrefixHash(t *testing.T) {
	base := `{"model":"m","messages":[{"role":"system","content":"You help é😀."},{"role":"user","content":"Tell me\nall."}]}`
	same := map[string]string{
		"white space": "{ \"messages\" : [ { \"role\" : \"system\" , \"content\" : \"You help é😀.\" } , {\"role\":\"user\",\"content\":\"Tell me\\nall.\"} ] ,\n\"model\":\"m\" }",
		"escapes":     `{"model":"m","m\u0065ssages":[{"role":"system","content":"\u0059ou help \u00e9\ud83d\ude00."},{"role":"user","cont\u0065nt":"Tell me\u000aall."}]}`,
		"order":       `{"messages":[{"content":"You help é😀.","role":"system"},{"content":"Tell me\nall.","role":"user"}],"model":"m"}`,
		"parts":       `{"model":"m","messages":[{"role":"system","content":[{"type":"text","text":"You help "},{"text":"é😀.","type":"text"}]},{"role":"user","content":"Tell me\nall."}]}`,
		"options":     `{"temperature":1,"model":"m","tools":[{"x":1}],"messages":[{"role":"system","content":"You help é😀."},{"name":"n","role":"user","content":"Tell me\nall."}]}`,
	}
	for chars := range 30 {
		want := prefixOf(t, "/v1/chat/completions", base, 1, chars)
		for name, body := range same {
			if got := prefixOf(t, "/v1/chat/completions", body, 1, chars); got != want {
				t.Errorf("%s, %d characters: %x, want %x", name, chars, got, want)
			}
		}
	}
}

func TestPrefixHashTellsTextsApartWithinTheLengthAlone(t *testing.T) {
	body := func(text string) string {
		return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%s"}]}`, text)
	}
	at := func(text string, chars int) uint64 {
		return prefixOf(t, "/v1/chat/completions", body(text), 1, chars)
	}
	for _, text := range []string{"0123456789abcdef", "0123é5678😀abcdef", `01\n345678\u00e9abcdef`} {
		if at(text+"x", 10) != at(text+"y", 10) {
			t.Errorf("%s: what comes after ten characters matters", text)
		}
		if at(text+"x", 30) == at(text+"y", 30) {
			t.Errorf("%s: another text of less than 30 characters hashes the same", text)
		}
		if at(text, 9) == at(text, 10) {
			t.Errorf("%s: nine characters hash as ten", text)
		}
	}
}

func TestPrefixHashOfEachShape(t *testing.T) {
	tests := []struct{ name, path, a, same, other string }{
		{"a prompt", "/v1/completions", `{"model":"m","prompt":"hello you"}`, `{"model":"m","prompt":["hello", " there"]}`, `{"model":"m","prompt":"help you"}`},
		{"token numbers", "/v1/completions", `{"model":"m","prompt":[1,2,3,4,5,6]}`, `{"model":"m","prompt":[[1, 2,3],[4,5]]}`, `{"model":"m","prompt":[1,23,4,5,6]}`},
		{"responses", "/v1/responses", `{"model":"m","instructions":"he","input":"llo x"}`, `{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"hello"}]}]}`, `{"model":"m","instructions":"x","input":"llo x"}`},
		{"embeddings", "/v1/embeddings", `{"model":"m","input":["hel","lo","x"]}`, `{"model":"m","input":"hello y"}`, `{"model":"m","input":"yes"}`},
		{"messages", "/v1/messages", `{"model":"m","system":"hello","messages":[{"role":"user","content":"x"}]}`, `{"model":"m","system":[{"type":"text","text":"hello"}],"messages":[]}`, `{"model":"m","system":"a","messages":[]}`},
		{"unknown: bytes of the body", "/v1/new", `{"model":"m","x":1}`, `{"mod\u0065l":"m"}`, ` {"model":"m"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := prefixOf(t, tt.path, tt.a, 1, 5)
			if want == 0 || prefixOf(t, tt.path, tt.same, 1, 5) != want {
				t.Error("the same beginning hashes otherwise")
			}
			if prefixOf(t, tt.path, tt.other, 1, 5) == want {
				t.Error("another beginning hashes the same")
			}
			if prefixOf(t, tt.path, tt.a, 2, 5) == want {
				t.Error("another tenant has the same hash")
			}
			if prefixOf(t, tt.path, strings.Replace(tt.a, `"m"`, `"n"`, 1), 1, 5) != want {
				t.Error("another name of the model hashes otherwise")
			}
		})
	}
}

func TestNoTextNoPrefixHash(t *testing.T) {
	for path, body := range map[string]string{
		"/v1/completions":      `{"model":"m"}`,
		"/v1/chat/completions": `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]},{"role":"user","content":null}]}`,
		"/v1/embeddings":       `{"model":"m","input":""}`,
	} {
		if got := prefixOf(t, path, body, 1, 1024); got != 0 {
			t.Errorf("%s: %x", body, got)
		}
	}
	for _, path := range []string{"/v1/completions", "/v1/new"} {
		if got := prefixOf(t, path, `{"model":"m","prompt":"x"}`, 1, 0); got != 0 {
			t.Errorf("no characters of %s: %x", path, got)
		}
	}
}

// slowPrefix collects all the text first.
func slowPrefix(t testing.TB, r Request, body []byte, chars int) uint64 {
	t.Helper()
	var top map[string]json.RawMessage
	must(t, json.Unmarshal(body, &top))
	var units []string // characters, and tokens given by number
	var value func(raw json.RawMessage)
	value = func(raw json.RawMessage) {
		if len(raw) == 0 {
			return
		}
		switch raw[0] {
		case '"':
			units = append(units, strings.Split(str(raw), "")...)
		case '[':
			var list []json.RawMessage
			must(t, json.Unmarshal(raw, &list))
			for _, e := range list {
				if strings.ContainsRune("-0123456789", rune(e[0])) {
					units = append(units, string(e)+"\x1e")
					continue
				}
				value(e)
			}
		case '{':
			var m map[string]json.RawMessage
			must(t, json.Unmarshal(raw, &m))
			if words := m["text"]; len(words) > 0 && words[0] == '"' {
				value(words)
			}
			value(m["content"])
		}
	}
	for _, name := range []string{"system", "instructions", "messages", "input", "prompt"} {
		value(top[name])
	}
	if len(units) == 0 || chars == 0 {
		return 0
	}
	var d xxhash.Digest
	d.ResetWithSeed(r.salt)
	_, _ = d.WriteString(strings.Join(units[:min(chars, len(units))], ""))
	return d.Sum64()
}

func TestPrefixHashesAgreeWithTheSlowWay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		body := map[string]any{"model": "m"}
		for _, name := range []string{"tools", "system", "messages", "input", "prompt"} {
			if rapid.Bool().Draw(rt, name) {
				body[name] = drawJSON(rt, 0)
			}
		}
		plain, err := json.Marshal(body)
		must(t, err)
		indented, err := json.MarshalIndent(body, "", " ")
		must(t, err)
		chars := rapid.IntRange(0, 3000).Draw(rt, "chars")
		r, err := Read("/v1/chat/completions", plain, 1)
		must(t, err)
		want := slowPrefix(t, r, plain, chars)
		if got := r.PrefixHash(plain, chars); got != want {
			rt.Fatalf("%x, the slow way %x", got, want)
		}
		if got := prefixOf(t, "/v1/chat/completions", string(indented), 1, chars); got != want {
			rt.Fatalf("indented %x, the slow way %x", got, want)
		}
	})
}

// FuzzPrefixHash compares with the slow way.
func FuzzPrefixHash(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"h\u00e9llo\n"},{"content":[{"type":"text","text":"a"}]}]}`), uint16(5))
	f.Add([]byte(`{"model":"m","prompt":[1,2,[3,"x",null]],"system":"\ud83d\ude00\ud83d"}`), uint16(3))
	f.Fuzz(func(t *testing.T, body []byte, chars uint16) {
		r, err := Read("/v1/chat/completions", body, 1)
		if err != nil || !utf8.Valid(body) {
			return
		}
		if got, want := r.PrefixHash(body, int(chars)), slowPrefix(t, r, body, int(chars)); got != want {
			t.Fatalf("%x, the slow way %x", got, want)
		}
	})
}

func BenchmarkPrefixHash(b *testing.B) {
	text := words("w", 100<<10)
	plain := []byte(fmt.Sprintf(`{"model":"llama","messages":[{"role":"system","content":"You help."},{"role":"user","content":"%s"}]}`, text))
	escaped := bytes.ReplaceAll(plain, []byte("7 "), []byte(`\n`))
	for _, chars := range []int{1024, 65_536} {
		for name, body := range map[string][]byte{"plain": plain, "escapes": escaped} {
			b.Run(fmt.Sprintf("chars=%d/text=%s", chars, name), func(b *testing.B) {
				r, err := Read("/v1/chat/completions", body, 1)
				must(b, err)
				b.ReportAllocs()
				for b.Loop() {
					if r.PrefixHash(body, chars) == 0 {
						b.Fatal("no text")
					}
				}
			})
		}
	}
}
