// Package drill rehearses failovers on `anabranch dev` as it is delivered: real processes on loopback, under load. What
// it measures stands in RESULTS.md.
package drill
