//go:build race

package ours

// racing: the race detector makes these simulations, which have one goroutine, ten times slower. The long
// ones take fewer cases under it, and all in a plain build (make test-short, make stress).
const racing = true
