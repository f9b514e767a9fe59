package inference

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// tallied is an answer that has passed by in pieces of the size.
func tallied(body []byte, size int) *Tally {
	var t Tally
	for piece := range slices.Chunk(body, size) {
		_, _ = t.Write(piece)
	}
	return &t
}

func TestTally(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for name, tt := range map[string]struct {
		body  string
		want  Usage
		ok    bool
		whole bool
		text  int64
	}{
		"usage last":                {`{"id":"ab","choices":[{"message":{"content":"hello"}}],"usage":{"prompt_tokens":9,"completion_tokens":2}}`, Usage{9, 0, 2}, true, true, 7},
		"usage first":               {`{"usage":{"prompt_tokens":9},"choices":[]}`, Usage{Prompt: 9}, true, true, 0},
		"white space":               {" { \"usage\" :\n{ \"prompt_tokens\" : 9 } , \"a\" : [ ] }\n", Usage{Prompt: 9}, true, true, 0},
		"escapes and brackets":      {`{"a":"}\"],\\","b\"":{"usage":1},"usage":{"prompt_tokens":9}}`, Usage{Prompt: 9}, true, true, 7},
		"a name in escapes":         {`{"\u0075\u0073\u0061\u0067\u0065":{"prompt_tokens":9}}`, Usage{Prompt: 9}, true, true, 0},
		"a longer name":             {`{"usages":{"prompt_tokens":9},"usage` + long + `":{"prompt_tokens":9}}`, Usage{}, false, true, 0},
		"a text that says usage":    {`{"a":"usage","b":["usage",{"usage":{"prompt_tokens":9}}]}`, Usage{}, false, true, 10},
		"no usage":                  {`{"choices":[{"text":"` + long + `"}]}`, Usage{}, false, true, 1000},
		"usage too large to be one": {`{"usage":{"prompt_tokens":9,"x":"` + strings.Repeat(long, 20) + `"}}`, Usage{}, false, true, 20_000},
		"cut in the text":           {`{"choices":[{"text":"` + long, Usage{}, false, false, 1000},
		"cut before its end":        {`{"usage":{"prompt_tokens":9}`, Usage{}, false, false, 0},
		"two of them":               {`{"usage":{"prompt_tokens":9}}{}`, Usage{}, false, false, 0},
		"nothing":                   {``, Usage{}, false, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 2, 7, 64, 1 << 20} {
				got := tallied([]byte(tt.body), size)
				u, ok := got.Usage()
				if u != tt.want || ok != tt.ok || got.Whole() != tt.whole || got.Text() != tt.text {
					t.Errorf("in pieces of %d: %+v, %v, whole %v, %d bytes of text", size, u, ok, got.Whole(), got.Text())
				}
			}
		})
	}
}

// What passes is not held, however long.
func TestATallyHoldsNothing(t *testing.T) {
	piece := []byte(strings.Repeat(`name`, 4<<10))
	var long Tally
	if n := testing.AllocsPerRun(100, func() { _, _ = long.Write(piece) }); n > 0 {
		t.Errorf("%.0f allocations of a piece", n)
	}
	for _, of := range []string{`{"`, `{"usage":"`, `{"usage":[`, `{"x":{"usage":{`} {
		long = Tally{}
		_, _ = long.Write([]byte(of))
		for range 100 {
			_, _ = long.Write(piece)
		}
		if cap(long.name) > 2*maxTallyName || cap(long.kept) > 2*maxTallyUsage {
			t.Errorf("%s: %d bytes of a name and %d of a usage are held", of, cap(long.name), cap(long.kept))
		}
	}
}

// What passes in pieces tells the same as what is held, and its text is what encoding/json finds.
func FuzzTally(f *testing.F) {
	f.Add([]byte(`{"id":"a","choices":[{"message":{"content":"hi \"you\""}}],"usage":{"prompt_tokens":9,"completion_tokens":2}}`), uint8(3))
	f.Add([]byte(`{"usage":null,"\u0075sage":{"input_tokens":1}} `), uint8(1))
	f.Add([]byte(`[{"usage":{"prompt_tokens":1}}]`), uint8(0))
	f.Add([]byte(`{"a":"\\","b":{"c":["d\\\"",1.5e3]}}`), uint8(5))
	f.Fuzz(func(t *testing.T, b []byte, size uint8) {
		got := tallied(b, int(size)+1)
		if check(b) != nil || len(b) > maxTallyUsage {
			got.Usage()
			return
		}
		want, ok := UsageOf(b)
		if u, counted := got.Usage(); u != want || counted != ok {
			t.Fatalf("%+v, %v; held it is %+v, %v", u, counted, want, ok)
		}
		var object map[string]any
		if err := json.Unmarshal(b, &object); err == nil && object != nil != got.Whole() {
			t.Fatalf("whole: %v", got.Whole())
		}
		if text := slowText(b); got.Whole() && got.Text() != text {
			t.Fatalf("%d bytes of text, want %d", got.Text(), text)
		}
	})
}

// slowText is the length of the strings of a checked body that are no names, as they stand there.
func slowText(b []byte) (n int64) {
	for i := 0; i < len(b); i++ {
		if b[i] != '"' {
			continue
		}
		end := skipString(b, i)
		if after := blank(b, end); after >= len(b) || b[after] != ':' {
			n += int64(end - i - 2)
		}
		i = end - 1
	}
	return n
}
