package sim

import (
	"slices"
	"time"
)

// adapterSlots are the LoRA adapters in GPU memory: at most max, the least recently used one not
// in use goes first. max is small, so that lists beat maps and keep the order deterministic.
type adapterSlots struct {
	max    int
	loaded []adapterSlot
}

type adapterSlot struct {
	name    string
	users   int // running sequences
	lastUse time.Duration
}

// fits says whether a sequence with this adapter can run now.
func (a *adapterSlots) fits(name string) bool {
	if name == "" || len(a.loaded) < a.max {
		return true
	}
	return slices.ContainsFunc(a.loaded, func(s adapterSlot) bool { return s.name == name || s.users == 0 })
}

// hold takes the slot of an adapter that fits, and says whether it had to be loaded.
func (a *adapterSlots) hold(name string, now time.Duration) (loaded bool) {
	if name == "" {
		return false
	}
	i := slices.IndexFunc(a.loaded, func(s adapterSlot) bool { return s.name == name })
	if i < 0 {
		loaded = true
		if len(a.loaded) >= a.max {
			a.evict()
		}
		a.loaded = append(a.loaded, adapterSlot{name: name})
		i = len(a.loaded) - 1
	}
	a.loaded[i].users++
	a.loaded[i].lastUse = now
	return loaded
}

// drop ends one use.
func (a *adapterSlots) drop(name string) {
	if i := slices.IndexFunc(a.loaded, func(s adapterSlot) bool { return s.name == name }); i >= 0 {
		a.loaded[i].users--
	}
}

func (a *adapterSlots) evict() {
	oldest := -1
	for i, s := range a.loaded {
		if s.users == 0 && (oldest < 0 || s.lastUse < a.loaded[oldest].lastUse) {
			oldest = i
		}
	}
	a.loaded = slices.Delete(a.loaded, oldest, oldest+1)
}

// appendLoaded appends the sorted names of those in slots, or only of those in use, to dst.
func (a *adapterSlots) appendLoaded(dst []string, onlyUsed bool) []string {
	from := len(dst)
	for _, s := range a.loaded {
		if s.users > 0 || !onlyUsed {
			dst = append(dst, s.name)
		}
	}
	slices.Sort(dst[from:])
	return dst
}
