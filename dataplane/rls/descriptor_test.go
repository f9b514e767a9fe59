package rls

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// entries makes a descriptor of keys and values that take turns.
func entries(words ...string) *ratelimitv3.RateLimitDescriptor {
	d := &ratelimitv3.RateLimitDescriptor{}
	for i := 0; i+1 < len(words); i += 2 {
		d.Entries = append(d.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: words[i], Value: words[i+1]})
	}
	return d
}

// hits gives a descriptor hits of its own.
func hits(n uint64, d *ratelimitv3.RateLimitDescriptor) *ratelimitv3.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(n)
	return d
}

func TestADescriptorSaysWhoAndHowMuch(t *testing.T) {
	key := keySum{1, 2, 3}
	plain := wish{unit: UnitRequests, hits: 1, input: unsaid, output: unsaid}
	with := func(f func(*wish)) wish {
		w := plain
		f(&w)
		return w
	}
	for _, c := range []struct {
		name   string
		d      *ratelimitv3.RateLimitDescriptor
		addend uint32
		want   wish
	}{
		{"nothing is one request of nobody", entries(), 0, plain},
		{"no descriptor at all is the same", nil, 0, plain},
		{"who", entries("tenant", "acme", "model", "llama", "request_id", "r-1"), 0, with(func(w *wish) { w.tenant, w.model, w.id = "acme", "llama", "r-1" })},
		{"of two entries with a key the first counts", entries("tenant", "acme", "tenant", "evil"), 0, with(func(w *wish) { w.tenant = "acme" })},
		{"other keys are passed over", entries("remote_address", "192.0.2.1", "tenant", "acme"), 0, with(func(w *wish) { w.tenant = "acme" })},
		{"an API key by its hash", entries("key_sha256", hex.EncodeToString(key[:])), 0, with(func(w *wish) { w.key = key })},
		{"a key that is no hash", entries("key_sha256", "sk-secret"), 0, plain},
		{"a key that is no hexadecimal", entries("key_sha256", strings.Repeat("z", 64)), 0, plain},
		{"a request's name that is too long to keep", entries("request_id", strings.Repeat("r", maxRequestID+1)), 0, plain},
		{"the call's hits", entries(), 7, with(func(w *wish) { w.hits = 7 })},
		{"its own hits before the call's", hits(9, entries()), 7, with(func(w *wish) { w.hits = 9 })},
		{"its own hits may be none", hits(0, entries()), 7, with(func(w *wish) { w.hits = 0 })},
		{"more hits than anything has", hits(math.MaxUint64, entries()), 0, with(func(w *wish) { w.hits = maxHits })},
		{"hits that give back", &ratelimitv3.RateLimitDescriptor{IsNegativeHits: true}, 0, with(func(w *wish) { w.negative = true })},
		{"tokens", hits(812, entries("unit", "input-tokens")), 0, with(func(w *wish) { w.unit, w.hits = UnitInput, 812 })},
		{"a unit that is not known", entries("unit", "bananas"), 0, plain},
		{"estimates", entries("input_tokens", "812", "output_tokens", "100"), 0, with(func(w *wish) { w.input, w.output = 812, 100 })},
		{"estimates that are no numbers", entries("input_tokens", "many", "output_tokens", "-4"), 0, plain},
		{"an estimate beyond all bounds", entries("input_tokens", "9223372036854775807", "output_tokens", "9223372036854775808"), 0, with(func(w *wish) { w.input = maxHits })},
		{"the end of a request", entries("phase", "done"), 0, with(func(w *wish) { w.done = true })},
		{"another phase", entries("phase", "started"), 0, plain},
		{"a shadow", entries("shadow", "true"), 0, with(func(w *wish) { w.shadow = true })},
		{"no shadow", entries("shadow", "false"), 0, plain},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := read(c.d, c.addend); got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestEntriesBeyondTheBoundAreNotRead(t *testing.T) {
	words := make([]string, 0, 2*maxEntries+2)
	for range maxEntries {
		words = append(words, "other", "x")
	}
	if got := read(entries(append(words, "tenant", "acme")...), 0); got.tenant != "" {
		t.Errorf("read entry %d: %+v", maxEntries+1, got)
	}
}

func sumOf(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

func hexSum(key string) string { return hex.EncodeToString(sumOf(key)) }
