package publish

const (
	// isolatedAfter is how many looks in a row must find the node cut off before any stream is ended: an
	// election takes less.
	isolatedAfter = 15
	// isolatedAgain is after how many more looks those that have come meanwhile are let go as well.
	isolatedAgain = 60
)

// isolation lets go of routers when their node is cut off from the leader: it would keep them at an old
// table, and nothing would tell them so, as it goes on answering them. They go on to the next node of their
// lists. Those for whom there is no better place, or who come anew, are served by the last table all the same:
// each is let go once, a tenth at a look, and again after a while.
type isolation struct {
	looks  int // in a row that found the node cut off
	budget int // of streams that may still be ended
}

// next says how many streams to end now.
func (i *isolation) next(cut bool, streams int) int {
	if !cut {
		*i = isolation{}
		return 0
	}
	i.looks++
	if i.looks < isolatedAfter {
		return 0
	}
	if (i.looks-isolatedAfter)%isolatedAgain == 0 {
		i.budget = streams
	}
	n := min(i.budget, streams, max(1, streams/10))
	i.budget -= n
	return n
}
