// Package sim models fleets of LLM inference servers in virtual time. Its centre is [Engine], one
// pod: batch slots, a waiting queue, chunked prefill that shares steps with decode, KV blocks
// with preemption, a prefix cache, LoRA slots and start-up, on the GPU classes of [Lookup].
//
// The engine owns no clock, goroutine or random source: the caller says what time it is, and the
// same calls give the same events. sim/modelserver puts it behind HTTP with the API and metrics
// of vLLM; sim/gateway is a tier-1 gateway in front of several of those.
package sim
