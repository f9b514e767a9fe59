// Package report says how a run went and which policy to choose. [Of] computes the figures of a
// simulated run and [FromReplay] those of a real one, from the same definitions, so that both stand
// side by side. [Report] gathers the runs of several policies and seeds, and is written as text,
// Markdown, CSV, JSON and one HTML page that needs nothing else; [Judge] says in words what to
// choose, and [Compare] sets two saved reports against each other.
//
// Every figure has a [Metric] with its key, which is its path in JSON, its unit and which way is
// better. Percentiles are exact, by nearest rank; intervals are of 95 % over seeds.
package report
