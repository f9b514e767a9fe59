package dataplane

import (
	"strings"
	"testing"
	"time"

	"anabranch/api/routerpb"
)

// fault is something that can go wrong at the place that a request goes to first.
type fault struct {
	name string
	// does is what its server does with a request, or at says where it is in place of the server.
	does illness
	at   func(*testing.T, *patient) string
	// breaks is done to the world when all is set up. Nil: nothing is.
	breaks func(*world)
	change func(*routerpb.Table)
	// bound is the configured time after which the router has had enough. 0: it acts at once.
	bound time.Duration
	// asked is the kind of request, streamed or whole, and which help there is: none, beside
	// or peer. Empty: all.
	asked, help string
	// tokens bounds the answer; 0: 4. Pad is added to the prompt, in bytes.
	tokens, pad int
	// everywhere: the other place does the same.
	everywhere bool
	// dies: canaries are not answered either. later: the routers look at places only after the
	// request, so that it is what comes first.
	dies, later bool
	// warm: a request goes well before it.
	warm bool
	// leaves is when the client leaves, during prefill or mid-stream, and times how often. Empty: it
	// stays.
	leaves string
	times  int
}

const (
	// patience is the bound of silence in rows that wait for one.
	patience = time.Second
	// atOnce is what passes for it, three times of it at most.
	atOnce = time.Second
	// stallPatience is the bound of a stall; a router that asks a peer waits for half of it longer, and
	// shall not be first even where both are slow.
	stallPatience = 2 * time.Second
	// largePatience is for what takes its time when all goes well, too.
	largePatience = 3 * time.Second
	mediaStream   = "text/event-stream"
	mediaJSON     = "application/json"
)

// What a model server should not say.
const (
	ping       = ": ping\n\n"
	unfinished = `data: {"choices":[{"index":0,"delta":{"content":"`
	noJSON     = `data: {"choices":[{"index":0,"delta":{"content":"tok"` + "\n\n"
	engineDied = `{"error":{"message":"engine died","type":"InternalServerError","param":null,"code":500}}`
	tooLong    = `{"error":{"message":"context too long","type":"BadRequestError","param":null,"code":400}}`
)

var longAnswer = `{"choices":[{"message":{"content":"` + strings.Repeat("x", 11<<20) +
	`"}}],"usage":{"prompt_tokens":11,"completion_tokens":3}}`

func impatient(pb *routerpb.Table) { pb.Classes[0].FirstByteFloorMs = patience.Milliseconds() }

// impatientAlways bounds silence however long the prompt.
func impatientAlways(pb *routerpb.Table) {
	impatient(pb)
	pb.Classes[0].FirstByteDeadlineMs = largePatience.Milliseconds()
}

func stalling(pb *routerpb.Table) { pb.Classes[0].StallMs = stallPatience.Milliseconds() }
func expiring(pb *routerpb.Table) { pb.Classes[0].RequestTimeoutMs = largePatience.Milliseconds() }

func stallingRescued(pb *routerpb.Table) {
	stalling(pb)
	rescued(pb)
}

func nobodyThere(t *testing.T, _ *patient) string { return "http://" + refusing(t) }

var openingOfJSON = opening{mediaJSON, []string{whole[:30]}}

// faults are the rows of the card.
var faults = []fault{
	{name: "dead upstream", at: nobodyThere, dies: true, later: true},
	{name: "all upstreams dead", at: nobodyThere, everywhere: true, dies: true, later: true, help: "beside"},
	{name: "dead peer", breaks: func(w *world) { w.routers[eu].peer.Close() }, help: "peer", dies: true, later: true},
	{name: "half-open TCP", at: halfOpen, change: impatient, bound: patience, dies: true, later: true},
	{name: "half-open TCP, and a body larger than its window", at: halfOpen, change: impatientAlways, bound: largePatience, dies: true, later: true, pad: 7 << 20, asked: "streamed", help: "none beside"},
	{name: "kept connection that was dropped silently", at: kept(false), change: impatient, bound: patience, warm: true, later: true},
	{name: "kept connection that is reset when used", at: kept(true), warm: true, later: true},
	{name: "connection reset before headers", does: resetting},
	{name: "500", does: replying(500, "no")},
	{name: "500 everywhere", does: replying(500, "no"), everywhere: true, help: "beside"},
	{name: "503", does: replying(503, "no")},
	{name: "503 with Retry-After", does: replying(503, "no", "Retry-After", "20")},
	{name: "429 with Retry-After", does: replying(429, "slow down", "Retry-After", "20")},
	{name: "429 with Retry-After everywhere", does: replying(429, "slow down", "Retry-After", "20"), everywhere: true, help: "beside"},
	{name: "400", does: replying(400, tooLong)},
	{name: "200 with an error body", does: replying(200, engineDied), asked: "whole"},
	{name: "200 with an error event", does: opening{mediaStream, []string{"data: " + engineDied + "\n\n"}}.then(hangs), asked: "streamed"},
	{name: "200 with an error of the client's in it", does: replying(200, tooLong), asked: "whole"},
	{name: "headers too large", does: replying(200, whole, "X-Large", strings.Repeat("x", 65<<10))},
	{name: "hang before headers", does: opening{}.then(hangs), change: impatient, bound: patience},
	{name: "hang before headers, canaries too", does: opening{}.then(hangs), change: impatient, bound: patience, dies: true, tokens: 400, asked: "whole"},
	{name: "headers, then silence", does: opening{mediaStream, []string{""}}.then(hangs), change: impatient, bound: patience, asked: "streamed"},
	{name: "headers, then comments only", does: drips(mediaStream, 20*time.Millisecond, ping), change: impatient, bound: patience, asked: "streamed"},
	{name: "role frame, then silence", does: opening{mediaStream, []string{role}}.then(hangs), change: impatient, bound: patience, asked: "streamed"},
	{name: "role frame, then cut", does: opening{mediaStream, []string{role}}.then(breakingOff), asked: "streamed"},
	{name: "cut after content", does: opening{mediaStream, []string{role, content, content}}.then(breakingOff), asked: "streamed"},
	{name: "cut after content, of a class that rescues", does: opening{mediaStream, []string{role, content, content}}.then(breakingOff), change: rescued, asked: "streamed"},
	{name: "regular end after content, without finish", does: opening{mediaStream, []string{role, content, content}}.then(ending), asked: "streamed"},
	{name: "stall mid-stream", does: opening{mediaStream, []string{role, content, content}}.then(hangs), change: stalling, bound: stallPatience, asked: "streamed"},
	{name: "stall mid-stream, of a class that rescues", does: opening{mediaStream, []string{role, content, content}}.then(hangs), change: stallingRescued, bound: stallPatience, asked: "streamed"},
	{name: "error event after content", does: opening{mediaStream, []string{role, content, content, "data: " + engineDied + "\n\n"}}.then(hangs), asked: "streamed"},
	{name: "malformed SSE", does: opening{mediaStream, []string{role, noJSON}}.then(hangs), asked: "streamed"},
	{name: "malformed SSE after content", does: opening{mediaStream, []string{role, content, content, noJSON}}.then(hangs), asked: "streamed"},
	{name: "web page in place of a stream", does: opening{mediaStream, []string{"<html>\n<body>\n\n"}}.then(hangs), asked: "streamed"},
	{name: "web page in place of an answer", does: opening{"text/html", []string{"<html></html>"}}.then(ending), asked: "whole"},
	{name: "truncated JSON, cut", does: openingOfJSON.then(breakingOff), asked: "whole"},
	{name: "truncated JSON, regular end", does: openingOfJSON.then(ending), asked: "whole"},
	{name: "empty answer", does: replying(200, ""), asked: "whole"},
	{name: "stall in the middle of JSON", does: openingOfJSON.then(hangs), change: stalling, bound: stallPatience, asked: "whole"},
	{name: "slow drip of a stream", does: drips(mediaStream, time.Millisecond, cutUp(16, role+content+content+content+finish+counted+done)...), asked: "streamed"},
	{name: "slow drip of JSON", does: drips(mediaJSON, time.Millisecond, cutUp(4, whole)...), asked: "whole"},
	{name: "slow drip that never makes an event", does: drips(mediaStream, 20*time.Millisecond, role+content+unfinished, "x"), change: stalling, bound: stallPatience, asked: "streamed"},
	{name: "slow drip that never makes an answer", does: drips(mediaJSON, 20*time.Millisecond, whole[:30], "x"), change: expiring, bound: largePatience, asked: "whole"},
	{name: "answer of 11 MiB", does: replying(200, longAnswer), asked: "whole"},
	{name: "event above 1 MiB", does: opening{mediaStream, []string{role, unfinished + strings.Repeat("x", 3<<20)}}.then(hangs), asked: "streamed"},
	{name: "event above 1 MiB after content", does: opening{mediaStream, []string{role, content, content, unfinished + strings.Repeat("x", 3<<20)}}.then(hangs), asked: "streamed"},
	{name: "client leaves during prefill", does: opening{}.then(hangs), leaves: "prefill"},
	{name: "client leaves mid-stream", does: opening{mediaStream, []string{role, content, content}}.then(hangs), leaves: "mid-stream", asked: "streamed"},
	{name: "12 clients leave during prefill", does: opening{}.then(hangs), leaves: "prefill", times: 12},
	{name: "12 clients leave mid-stream", does: opening{mediaStream, []string{role, content, content}}.then(hangs), leaves: "mid-stream", times: 12, asked: "streamed"},
}
