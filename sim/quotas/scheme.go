package quotas

import "fmt"

// The schemes.
const (
	Leases   = "leases"
	Exact    = "exact"
	PerCall  = "per-call"
	Redis    = "redis_rate"
	Windows  = "windows"
	Counter  = "counter"
	Assigned = "assigned"
)

// Schemes are the names that [Run] knows: ours first, and then what it is held against.
func Schemes() []string { return []string{Leases, PerCall, Redis, Windows, Counter, Assigned, Exact} }

// About says in some words what a scheme is.
func About(scheme string) string {
	return map[string]string{
		Leases:   "prepaid leases: the code of the routers",
		PerCall:  "ask the store every time: one call for all limits, all or none",
		Redis:    "ask the store every time, as redis_rate does: GCRA, each limit by itself",
		Windows:  "ask the store every time, as envoyproxy/ratelimit does (fixed windows; with several limits it first reads, then counts)",
		Counter:  "asynchronous counter, synchronised each 100 ms, debt allowed (as Kong's and APISIX's sync intervals)",
		Assigned: "assigned rates, renewed each second (as Doorman's fair shares)",
		Exact:    "one bucket that sees all requests at once, without a distance: what nobody can build",
	}[scheme]
}

func lookup(name string) (func(*world) scheme, error) {
	switch name {
	case Leases:
		return newLeases, nil
	case PerCall:
		return newPerCall, nil
	case Redis:
		return newRedisRate, nil
	case Windows:
		return newWindows, nil
	case Counter:
		return newCounter, nil
	case Assigned:
		return newAssigned, nil
	case Exact:
		return newExact, nil
	}
	return nil, fmt.Errorf("quota scheme %q is none of %v", name, Schemes())
}
