// Package quotas simulates one thing: that limits which hold over all routers of five regions are kept,
// and what that costs in time and messages. Requests come as bursty streams in virtual time, pass a path of
// limits or don't, and are done; there are no models and no routing, which package world has.
//
// Leases are the real code of package ratelimit. Beside them run the schemes that others use, each as
// good as its public description allows. What a scheme let through is held to rate × t + burst over
// every window at once. [Prove] runs all of them, with faults, and writes the tables of a proof.
package quotas
