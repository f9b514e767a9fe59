package dispatch

import "time"

const (
	// firstPause is about a round trip to another region: the load that a place told with its refusal is
	// news for as long. longestPause is how old it may get for one that waits.
	firstPause   = 100 * time.Millisecond
	longestPause = time.Second
)

// Rests says whether a request that comes back from places without room pauses before it asks for room
// again, by how full the least full place now is: not if all have said that they have no room for anybody,
// or are full by all that is seen. These are left alone for long enough by what waits for room.
func Rests(full float64) bool { return !(full >= 1) }

// Pause is how long a request rests before it asks for room again, when it has come back so many times
// because places that looked as if they had room said that they have none. It doubles each time, so that
// regions that are all full don't pass requests round and round, and is up to half shorter by chance,
// which is uniform over 64 bits, so that those that came back together don't go together again.
func Pause(returns int, chance uint64) time.Duration {
	d := longestPause
	if n := max(returns, 1) - 1; n < 4 {
		d = min(d, firstPause<<n)
	}
	return d - time.Duration(float64(chance>>11)/(1<<53)*float64(d/2))
}
