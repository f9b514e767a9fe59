package pick

// Why is how a choice came about.
type Why uint8

// The ways.
const (
	None    Why = iota // there was no candidate
	Only               // one candidate
	Least              // the least predicted time
	Tie                // drawn among those within NearTie of the least
	Warmer             // of those within NearTie of the least, the one that has the adapter or the prompt
	TwoDraw            // signals too old: the better of two drawn, the fresher or less in flight
	Turned             // round-robin
	Drawn              // random
	Fewest             // fewest own requests in flight
	Placed             // where the prefix belongs
	Spilled            // the next in the order of the prefix that has room
	Full               // no place has room: fewest own requests in flight
)

var whys = [...]string{
	"no candidate", "only candidate", "least predicted first-token time", "drawn among near-ties",
	"near-tie that has the adapter or the prompt", "signals stale: better of two drawn", "round-robin", "random",
	"fewest in flight", "placed by prefix", "placed by prefix: next with room",
	"placed by prefix: none with room, fewest in flight",
}

// String says it for people.
func (w Why) String() string {
	if int(w) < len(whys) {
		return whys[w]
	}
	return "unknown"
}

// Reason explains a choice.
type Reason struct {
	Why Why
	// Seconds is the predicted time to the first token at the chosen candidate, Times what it
	// consists of, and Adapter the state of the request's adapter there.
	Seconds float64
	Times   Times
	Adapter AdapterState
	// RunnerUp is the place in the list of the candidate with the least predicted time but the
	// chosen one, RunnerUpSeconds that time. -1: predictions were not compared, or there is none.
	RunnerUp        int
	RunnerUpSeconds float64
}
