// Package scale holds the console and the node that serves it to the largest fleet that they are made for: 200 regions
// with a cluster each, 5,000 routers that report every second, and ten changes a second. The node is the program as it is
// delivered, the routers speak gRPC to it, the console is what is built into it, and the browser is a real Chromium. Only
// what routers report is made up. What was measured stands in web/RESULTS.md.
package scale
