//go:build race

package quotas

// racing: the race detector makes these simulations, which have one goroutine, ten times slower. The long
// ones take fewer cases under it, and all in the plain build that make test adds.
const racing = true
