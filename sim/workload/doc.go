// Package workload says what arrives at a fleet: requests with their times, places, tenants and
// prompts, made by generators or read from published traces. Simulators put them to an engine in
// virtual time, and replay sends them over HTTP with prompts from [Text].
//
// Everything is seeded: the same options give the same requests, in any process on machines of one
// architecture. Nothing here knows what becomes of a request, but for closed loops, told by
// [Source].Done.
package workload
