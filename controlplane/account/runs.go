package account

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"anabranch/controlplane/state/statepb"
)

// Counted is the last message of a run of a router that is counted; 0: none is.
func (a Account) Counted(run string) uint64 {
	if at, ok := a.findRun(run); ok {
		return a.runs[at].GetSequence()
	}
	return 0
}

func (a Account) findRun(run string) (int, bool) {
	return sort.Find(len(a.runs), func(i int) int { return cmp.Compare(run, a.runs[i].GetRun()) })
}

// mark notes how far a run is counted; a's runs are its own. For a new one those go that have said nothing for too
// long, and where there are too many the one that has for longest: of the same router first, so that none that
// makes up runs has those of others forgotten.
func (a *Account) mark(r *statepb.UsageRun) {
	at, found := a.findRun(r.GetRun())
	if found {
		a.runs[at] = r
		return
	}
	a.runs = slices.Insert(a.runs, at, r)
	a.runs = slices.DeleteFunc(a.runs, func(old *statepb.UsageRun) bool {
		return old != r && old.GetAtUnixMs() < r.GetAtUnixMs()-RunFor.Milliseconds()
	})
	if from, until := a.runsLike(r.GetRun()); until-from > MaxRunsEach {
		a.forget(from, until, r)
	}
	if len(a.runs) > MaxRuns {
		a.forget(0, len(a.runs), r)
	}
}

// runsLike are those of the same router: a run is called by its router, which has no slash in its name, a slash, and
// its own name. They are neighbours.
func (a *Account) runsLike(run string) (from, until int) {
	router, _, _ := strings.Cut(run, "/")
	prefix := router + "/"
	from, _ = a.findRun(prefix)
	until = from
	for until < len(a.runs) && strings.HasPrefix(a.runs[until].GetRun(), prefix) {
		until++
	}
	return from, until
}

// forget lets go of the run that was silent for longest, but not of one that is new.
func (a *Account) forget(from, until int, but *statepb.UsageRun) {
	oldest := -1
	for i := from; i < until; i++ {
		if a.runs[i] != but && (oldest < 0 || a.runs[i].GetAtUnixMs() < a.runs[oldest].GetAtUnixMs()) {
			oldest = i
		}
	}
	a.runs = slices.Delete(a.runs, oldest, oldest+1)
}

// SameRuns says that nothing that routers reported was counted between two states of an account: what [Account.Counted]
// says is the same for all.
func (a Account) SameRuns(b Account) bool {
	return a.begun == b.begun && len(a.runs) == len(b.runs) && (len(a.runs) == 0 || &a.runs[0] == &b.runs[0])
}
