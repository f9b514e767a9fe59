// Package scenario reads fleets, workloads and expectations from text and plays them: each variant of
// a scenario with each policy and seed, side by side. The files are meant to be read by people who
// run fleets; those shipped here are examples, tests and the proof of what Anabranch claims, all at
// once. What a run shows is worked out by package sim/report.
package scenario
