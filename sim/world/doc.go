// Package world runs whole fleets in virtual time: regions with routers, clusters with pods, the
// network between them, what each router hears of the load elsewhere and how late, and what goes
// wrong. How requests are routed is a [Policy]'s business: package sim/ours has Anabranch's own code
// behind it, package sim/rival the others. The same [Spec], workload, policy and seed give the same
// [Result] to the byte.
package world
