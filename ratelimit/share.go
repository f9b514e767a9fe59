package ratelimit

// ShareParts is what shares are counted in: a million parts are the whole limit.
const ShareParts = 1_000_000

// Shares splits a limit among routers or regions for when they are cut off, in parts of
// ShareParts: each has the floor, or its even part of all if that is less, and what is left is split by
// the usage. Together they are never more than the whole. Usage below 0 counts as 0.
func Shares(usage []int64, floor int64) []int64 {
	if len(usage) == 0 {
		return nil
	}
	n := int64(len(usage))
	floor = min(max(floor, 0), ShareParts/n)
	var sum float64
	for _, u := range usage {
		sum += float64(max(u, 0))
	}
	left := float64(ShareParts - n*floor)
	shares := make([]int64, n)
	var given int64
	for i, u := range usage {
		part := 1 / float64(n)
		if sum > 0 {
			part = float64(max(u, 0)) / sum
		}
		shares[i] = floor + min(int64(left*part), ShareParts-n*floor-given)
		given += shares[i] - floor
	}
	return shares
}
