package inference

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"
)

// canonical is the slow and obvious way to a prompt's canonical text: a tree of encoding/json, its
// text written out whole, counted and cut afterwards.
type canonical struct {
	text   []byte
	bytes  int
	opaque int
}

func (c *canonical) add(s string) {
	c.bytes += len(s)
	c.text = append(c.text, s...)
}

func (c *canonical) mark(b byte) { c.text = append(c.text, b) }

func (c *canonical) value(t testing.TB, raw json.RawMessage) {
	if len(raw) == 0 {
		return
	}
	switch raw[0] {
	case 'n':
	case '"':
		var s string
		must(t, json.Unmarshal(raw, &s))
		if c.opaque > 0 && len(raw)-2 > plainOpaque {
			c.digest(s)
		} else {
			c.add(s)
		}
		c.mark(0x1f)
	case '[':
		c.mark(0x1d)
		c.list(t, raw)
		c.mark(0x1c)
	case '{':
		c.object(t, raw)
	default:
		c.add(string(raw))
		c.mark(0x1e)
	}
}

func (c *canonical) list(t testing.TB, raw json.RawMessage) {
	var list []json.RawMessage
	must(t, json.Unmarshal(raw, &list))
	for _, e := range list {
		if strings.ContainsRune("-0123456789", rune(e[0])) {
			c.bytes += tokenBytes
			if n, err := strconv.ParseUint(string(e), 10, 32); err == nil && len(e) <= 7 {
				c.text = binary.LittleEndian.AppendUint32(c.text, uint32(n))
				continue
			}
			c.text = append(c.text, e...)
			c.mark(0x1e)
			continue
		}
		c.value(t, e)
	}
}

func (c *canonical) object(t testing.TB, raw json.RawMessage) {
	var m map[string]json.RawMessage
	must(t, json.Unmarshal(raw, &m))
	switch kind := str(m["type"]); kind {
	case "text", "input_text", "output_text":
		if w := m["text"]; len(w) > 0 && w[0] == '"' {
			c.value(t, w)
			return
		}
	case "image_url", "input_image", "image", "image_embeds", "input_audio", "audio_url", "audio_embeds", "video_url", "file", "input_file", "document":
		if kind == "document" {
			var source map[string]json.RawMessage
			if json.Unmarshal(m["source"], &source) == nil && (str(source["type"]) == "text" || str(source["type"]) == "content") {
				break
			}
		}
		before := c.bytes
		c.opaque++
		c.members(t, m)
		c.opaque--
		c.bytes = before + opaqueBytes
		return
	}
	c.members(t, m)
}

// str is what a JSON string reads as; empty if it isn't one.
func str(raw json.RawMessage) (s string) {
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// digest takes a string within an image by its beginning, its end and its length.
func (c *canonical) digest(s string) {
	head := s[:min(len(s), digestBytes)]
	hash := xxhash.Sum64String(head)
	if rest := s[len(head):]; rest != "" {
		hash = mix(hash, xxhash.Sum64String(rest[max(0, len(rest)-digestBytes):]))
	}
	c.text = binary.LittleEndian.AppendUint64(c.text, hash)
	c.text = binary.LittleEndian.AppendUint64(c.text, uint64(len(s)))
}

func (c *canonical) members(t testing.TB, m map[string]json.RawMessage) {
	var names []string
	for name := range m {
		if name != "role" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if _, ok := m["role"]; ok {
		names = append([]string{"role"}, names...)
	}
	c.mark(0x1d)
	for _, name := range names {
		if name != "content" {
			c.add(name)
			c.mark(0x1e)
		}
		if v := m[name]; name == "content" && v[0] == '[' {
			c.list(t, v)
			continue
		}
		c.value(t, m[name])
	}
	c.mark(0x1c)
}

func (c *canonical) blocks(salt uint64) []uint64 {
	last := salt
	var out []uint64
	for b := c.text; len(b) >= BlockBytes && len(out) < MaxBlocks; b = b[BlockBytes:] {
		last = mix(last, xxhash.Sum64(b[:BlockBytes]))
		out = append(out, last)
	}
	return out
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// compare reads a body both ways.
func compare(t testing.TB, body []byte) {
	t.Helper()
	got, err := Read("/v1/chat/completions", body, 99)
	if err != nil {
		return
	}
	var m map[string]json.RawMessage
	must(t, json.Unmarshal(body, &m))
	var want canonical
	for _, name := range []string{"tools", "system", "instructions", "messages", "input", "prompt"} {
		want.value(t, m[name])
	}
	if got.PromptBytes != want.bytes {
		t.Fatalf("%d bytes of prompt, the slow way says %d", got.PromptBytes, want.bytes)
	}
	if !slices.Equal(got.Blocks, want.blocks(99)) {
		t.Fatalf("%d blocks differ from those of the slow way", len(got.Blocks))
	}
}

// drawJSON draws a value such as stands in a request.
func drawJSON(t *rapid.T, depth int) any {
	text := rapid.StringOfN(rapid.RuneFrom([]rune("ab \"\\\n\té😀\u0000")), 0, 40, -1)
	kinds := 6
	if depth > 4 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return strings.Repeat(text.Draw(t, "text"), rapid.IntRange(1, 60).Draw(t, "times"))
	case 1:
		return rapid.IntRange(-5, 200_000).Draw(t, "number")
	case 2:
		return nil
	case 3:
		return rapid.Bool().Draw(t, "bool")
	case 4:
		list := []any{}
		for range rapid.IntRange(0, 4).Draw(t, "length") {
			list = append(list, drawJSON(t, depth+1))
		}
		return list
	}
	m := map[string]any{}
	names := rapid.SampledFrom([]string{"role", "content", "type", "text", "name", "tool_calls", "a\"b", "é", "source"})
	for range rapid.IntRange(0, 5).Draw(t, "members") {
		name := names.Draw(t, "name")
		m[name] = drawJSON(t, depth+1)
		if name == "type" {
			m[name] = rapid.SampledFrom([]string{"text", "image_url", "function", "input_text", "document"}).Draw(t, "type")
		}
	}
	return m
}

func TestPromptsAgreeWithTheSlowWay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		body := map[string]any{"model": "m"}
		for _, name := range []string{"tools", "system", "messages", "input", "prompt"} {
			if rapid.Bool().Draw(rt, name) {
				body[name] = drawJSON(rt, 0)
			}
		}
		plain, err := json.Marshal(body)
		must(t, err)
		compare(t, plain)
		indented, err := json.MarshalIndent(body, " ", "\t")
		must(t, err)
		compare(t, indented)
		a, err := Read("/v1/chat/completions", plain, 1)
		must(t, err)
		b, err := Read("/v1/chat/completions", indented, 1)
		must(t, err)
		if !slices.Equal(a.Blocks, b.Blocks) {
			rt.Fatal("white space changed the chain")
		}
	})
}

// FuzzPrompt compares the hash chain with that of the slow way.
func FuzzPrompt(f *testing.F) {
	for _, s := range []string{
		`{"model":"m","messages":[{"role":"user","content":"hi"},{"content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x"}}],"role":"user"}]}`,
		`{"model":"m","prompt":[1,2,[3,"x",null]],"tools":[{"type":"function","function":{"b":{"c":[true]},"a":1.5}}]}`,
		`{"model":"m","system":"s","input":[{"type":"input_text","text":"t"},{"type":"text","text":7}],"instructions":"\u00e9"}`,
		`{"model":"m","messages":[[[[[[[[[[[[[[[[[[{"a":"deep"}]]]]]]]]]]]]]]]]]]}`,
		`{"model":"m","messages":[{"role":"a","role":"b","content":"x","content":"y"}]}`,
	} {
		f.Add([]byte(s), uint16(1))
		f.Add([]byte(s), uint16(2000))
	}
	f.Fuzz(func(t *testing.T, body []byte, stretch uint16) {
		if !utf8.Valid(body) {
			return // names that aren't text are compared as they stand, by encoding/json as U+FFFD
		}
		// Prompts of some blocks, which a fuzzer takes long to find.
		body = bytes.ReplaceAll(body, []byte("x"), bytes.Repeat([]byte("x"), int(stretch%3000)+1))
		compare(t, body)
		var loose bytes.Buffer
		if json.Indent(&loose, body, "", "\t") != nil {
			return
		}
		a, err := Read("/v1/chat/completions", body, 1)
		if err != nil {
			return
		}
		b, err := Read("/v1/chat/completions", loose.Bytes(), 1)
		if err != nil || !slices.Equal(a.Blocks, b.Blocks) || a.PromptBytes != b.PromptBytes {
			t.Fatalf("white space makes %d blocks of %d, %v", len(b.Blocks), len(a.Blocks), err)
		}
	})
}
