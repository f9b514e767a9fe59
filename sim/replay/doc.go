// Package replay sends a workload as real HTTP to a router, or to any URL with OpenAI's API, and
// records what came of each request. Arrivals are on time whatever becomes of those before (unless the
// workload is a closed loop), and latency counts from the moment at which a request was due, so that a
// target that is slow to accept can't hide it.
//
// No text of a prompt or an answer is kept, logged or put into an error.
package replay
