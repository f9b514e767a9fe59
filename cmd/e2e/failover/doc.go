// Package failover breaks a system of real processes under load, over and over, and measures what its
// tenants notice: three control plane nodes, a router and model servers in each of three regions, and a
// real Redis. RESULTS.md holds what a long run measured, beside what is wanted.
package failover
