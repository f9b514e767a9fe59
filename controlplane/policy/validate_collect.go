package policy

import (
	"net/url"
	"strings"
)

// Bounds of polls: no more often than routers report, and no more seldom than a region may change
// unseen.
const (
	minCollectMs        = 1000
	maxCollectMs        = 300_000
	minCollectTimeoutMs = 100
	maxCollectTimeoutMs = 10_000
	maxCollectPath      = 256 // bytes
)

func (f *finding) collect(c *CollectSpec) {
	const at = "spec.collect."
	f.oneOf(at+"mode", c.Mode, collectModes)
	f.between(at+"intervalMs", float64(c.IntervalMs), minCollectMs, maxCollectMs)
	f.between(at+"timeoutMs", float64(c.TimeoutMs), minCollectTimeoutMs, maxCollectTimeoutMs)
	if c.Path == "" {
		return
	}
	u, err := url.Parse(c.Path)
	if err != nil || c.Path[0] != '/' || strings.HasPrefix(c.Path, "//") || len(c.Path) > maxCollectPath ||
		u.Host != "" || u.RawQuery != "" || u.ForceQuery || strings.Contains(c.Path, "#") {
		f.add(at+"path", "is not a path of at most 256 bytes without a query", "give what follows the host, such as /metrics")
	}
}
