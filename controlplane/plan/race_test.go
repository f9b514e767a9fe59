//go:build race

package plan

// racing: the race detector makes stories, which have one goroutine, ten times slower. The long ones are played in
// the plain build that make test adds.
const racing = true
