// Package e2e runs whole systems in one process: three control plane nodes, a router and simulated
// clusters in each of three regions, a real Redis, real HTTP, gRPC and mutual TLS, on free ports of
// loopback. Its tests tell what happens to a tenant's requests while parts are taken away,
// and what comes of what operators write.
package e2e
