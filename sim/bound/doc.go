// Package bound says what no routing policy can beat: the least cost at which the work of a workload
// can be done by a fleet (a min-cost flow for each interval of time, exact in integers), and the fewest
// GPUs of a fleet that is provisioned as one for the peak of all regions together, where residency
// allows it, against those of regions that are each provisioned for their own peak (a linear program,
// exact in rationals).
//
// Work is in any unit that all share, such as prompt tokens with each output token counted as several.
package bound
