package inference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
)

const wholeChat = `{"model":"m\u0061","messages":[{"role":"system","content":"You help.\n"},{"role":"user","content":[{"type":"text","text":"Hi"},` +
	`{"type":"image_url","image_url":{"url":"data:x"}}]}],"tools":[{"type":"function","function":{"name":"f","parameters":{"a":[1,2.5e1,true,null]}}}],` +
	`"stream":true,"stream_options":{"include_usage":false},"max_tokens":10,"n":1,"stop":["a","b"],"prompt_cache_key":"k"}`

func TestEveryCutOfABodyIsRefused(t *testing.T) {
	mustRead(t, "/v1/chat/completions", wholeChat, 1)
	for n := range len(wholeChat) {
		if _, err := Read("/v1/chat/completions", []byte(wholeChat[:n]), 1); err == nil {
			t.Errorf("read when cut after %d bytes", n)
		}
	}
}

// One byte after the other is replaced: what is taken is what encoding/json takes.
func TestEveryFlipOfABodyIsJudgedLikeEncodingJSON(t *testing.T) {
	for i := range len(wholeChat) {
		for _, c := range []byte("\x00 \"\\{}[],:0-.eatn/\xff") {
			b := []byte(wholeChat)
			b[i] = c
			if got, want := check(b) == nil, json.Valid(b); got != want {
				t.Fatalf("byte %d as %q: accepted %v, by encoding/json %v", i, c, got, want)
			}
			if _, ok := referenceRead(b); ok {
				if _, err := Read("/v1/chat/completions", b, 1); err != nil {
					t.Fatalf("byte %d as %q: %v", i, c, err)
				}
			}
		}
	}
}

// Bodies of megabytes that are all of one thing.
func TestLargeOddBodies(t *testing.T) {
	const size = 4 << 20
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	for name, prompt := range map[string]string{
		"brackets": "[" + fill("[],") + "[]]", "braces": "[" + fill("{},") + "{}]", "numbers": "[" + fill("7,") + "7]", "zeros": "[" + fill("0 , ") + "0]",
		"escapes": `"` + fill(`\n`) + `"`, "surrogates": `"` + fill(`\ud83d\ude00`) + `"`, "halves": `"` + fill(`\ud83d`) + `"`,
		"backslashes": `"` + fill(`\\`) + `"`, "quotes": `"` + fill(`\"`) + `"`, "white space": "[" + fill(" ") + "1]", "text": `"` + fill("a") + `"`,
		"names": `{` + fill(`"a":1,`) + `"a":2}`, "names with escapes": `{` + fill(`"\u0061":1,`) + `"a":2}`, "text of é": `"` + fill("é") + `"`,
		"strings": `[` + fill(`"",`) + `""]`,
	} {
		body := []byte(`{"model":"m","prompt":` + prompt + `}`)
		r, err := Read("/v1/completions", body, 1)
		if err != nil || len(r.Blocks) > MaxBlocks || r.PromptBytes > 3*size {
			t.Errorf("%s: %d blocks of %d bytes, %v", name, len(r.Blocks), r.PromptBytes, err)
		}
		if bad := body[:len(body)-1]; check(bad) == nil {
			t.Errorf("%s: taken without an end", name)
		}
		r.PrefixHash(body, 65_536)
	}
}

func TestReadLeavesTheBodyAloneAndKeepsNothingOfIt(t *testing.T) {
	body := []byte(strings.Replace(wholeChat, "Hi", words("w", 3000), 1))
	before := bytes.Clone(body)
	r, err := Read("/v1/chat/completions", body, 1)
	must(t, err)
	if !bytes.Equal(body, before) {
		t.Error("the body was changed")
	}
	again, err := Read("/v1/chat/completions", before, 1)
	must(t, err)
	for i := range body {
		body[i] = 'x'
	}
	mustRead(t, "/v1/completions", `{"model":"other","prompt":"`+words("other", 5000)+`"}`, 7)
	if !reflect.DeepEqual(r, again) || r.Model != "ma" || r.CacheKey != "k" {
		t.Errorf("what was read changed with the body, to %+v", r)
	}
}

// Scratch space is shared by all requests; what one leaves there must not reach another.
func TestRequestsReadAtOnce(t *testing.T) {
	bodies := make([][]byte, 40)
	want := make([]Request, len(bodies))
	for i := range bodies {
		bodies[i] = fmt.Appendf(nil, `{"model":"m%d","messages":[{"role":"user","content":"%s\n"},{"content":[{"type":"text","text":"x"}]}],"tools":[%s{}]}`,
			i, words(fmt.Sprint("w", i), 100*i), strings.Repeat(`{"a":[1,2]},`, i*i))
		var err error
		want[i], err = Read("/v1/chat/completions", bodies[i], 1)
		must(t, err)
	}
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for n := range 50 {
				i := (n*7 + worker) % len(bodies)
				_, _ = Read("/v1/chat/completions", bodies[i][:len(bodies[i])/2], 1) // one that ends too soon
				if got, err := Read("/v1/chat/completions", bodies[i], 1); err != nil || !reflect.DeepEqual(got, want[i]) {
					t.Errorf("body %d reads otherwise among others: %v", i, err)
				}
			}
		})
	}
	all.Wait()
}

func TestAllocations(t *testing.T) {
	chat, event := chat(20_000), []byte(`{"id":"c","choices":[{"index":0,"delta":{"content":"a\n"},"finish_reason":null}],"usage":{"prompt_tokens":5}}`)
	r := mustRead(t, "/v1/chat/completions", string(chat), 1)
	stream := answer(66)
	e := NewEvents(nil)
	dst := make([]byte, 0, 64)
	for name, tt := range map[string]struct {
		most float64
		run  func()
	}{
		// The model's name and the chain; the race detector makes pools forget, so now and then scratch
		// space. The body has some two hundred escapes.
		"a request": {20, func() { _, _ = Read("/v1/chat/completions", chat, 1) }},
		"an event":  {0, func() { Classify(event) }},
		"a text":    {0, func() { Classify(event).Text(dst, event) }},
		"a hash":    {0, func() { r.PrefixHash(chat, 5000) }},
		"a usage":   {0, func() { UsageOf(event) }},
		"an error":  {0, func() { IsError(event) }},
		"a stream": {2, func() { // of 66 events; the reader of its text
			e.Reset(strings.NewReader(stream))
			for {
				ev, err := e.Next()
				if err != nil {
					break
				}
				e.Classify(ev.Data)
				e.Pending()
			}
		}},
	} {
		if got := testing.AllocsPerRun(100, tt.run); got > tt.most {
			t.Errorf("%s takes %.0f allocations, at most %.0f are expected", name, got, tt.most)
		}
	}
}
