package linear

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

func TestHistories(t *testing.T) {
	for _, c := range []struct {
		name string
		play func(h *History)
		want error
	}{
		{"nothing at all", func(*History) {}, nil},
		{"a write and a read after it", func(h *History) {
			h.Write("k", "1").Done()
			h.Read("k").Saw("1")
		}, nil},
		{"a read that misses the write before it", func(h *History) {
			h.Write("k", "1").Done()
			h.Read("k").Saw("")
		}, ErrViolated},
		{"a read beside a write sees it or not", func(h *History) {
			w := h.Write("k", "1")
			h.Read("k").Saw("")
			h.Read("k").Saw("1")
			w.Done()
		}, nil},
		{"what was seen once is gone", func(h *History) {
			w := h.Write("k", "1")
			h.Read("k").Saw("1")
			h.Read("k").Saw("")
			w.Done()
		}, ErrViolated},
		{"two keys do not mix", func(h *History) {
			h.Write("k", "1").Done()
			h.Read("l").Saw("")
		}, nil},
		{"a value that nobody wrote", func(h *History) { h.Read("k").Saw("9") }, ErrViolated},
		{"a value from the future", func(h *History) {
			h.Read("k").Saw("1")
			h.Write("k", "1")
		}, ErrViolated},
		{"an unknown write seen late", func(h *History) {
			h.Write("k", "1")
			h.Write("k", "2").Done()
			h.Read("k").Saw("2")
			h.Read("k").Saw("1")
		}, nil},
		{"an unknown write seen, and then not", func(h *History) {
			h.Write("k", "1")
			h.Read("k").Saw("1")
			h.Read("k").Saw("")
		}, ErrViolated},
		{"an unknown write that nobody saw", func(h *History) {
			h.Write("k", "1")
			h.Read("k").Saw("")
		}, nil},
		{"a refused write that was seen", func(h *History) {
			h.Write("k", "1").Refused()
			h.Read("k").Saw("1")
		}, ErrViolated},
		{"a refused read says nothing", func(h *History) {
			h.Write("k", "1").Done()
			h.Read("k").Refused()
			h.Read("k")
		}, nil},
		{"a swap of what is there", func(h *History) {
			h.Swap("k", "", "1").Done()
			h.Swap("k", "1", "2").Done()
			h.Read("k").Saw("2")
		}, nil},
		{"two swaps of the same", func(h *History) {
			h.Swap("k", "", "1").Done()
			h.Swap("k", "", "2").Done()
		}, ErrViolated},
		{"a mismatch where there is none", func(h *History) {
			h.Swap("k", "", "1").Done()
			h.Swap("k", "1", "2").Mismatch()
		}, ErrViolated},
		{"a mismatch that an unknown swap explains", func(h *History) {
			h.Swap("k", "", "1")
			h.Swap("k", "", "2").Mismatch()
		}, nil},
		{"a mismatch that nothing explains", func(h *History) {
			h.Swap("k", "", "2").Mismatch()
			h.Swap("k", "", "1")
		}, ErrViolated},
		{"an unknown swap that cannot have been", func(h *History) {
			h.Swap("k", "", "1").Done()
			h.Swap("k", "", "2")
			h.Read("k").Saw("2")
		}, ErrViolated},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h History
			c.play(&h)
			if err := h.Check(time.Minute); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestARealRegisterIsLinearizableAndCounted(t *testing.T) {
	var h History
	var mu sync.Mutex
	values := map[string]string{}
	var clients sync.WaitGroup
	for c := range 8 {
		clients.Go(func() {
			for i := range 200 {
				key, value := fmt.Sprint(i/50), fmt.Sprint(c, " ", i)
				if (c+i)%2 == 0 {
					op := h.Write(key, value)
					mu.Lock()
					values[key] = value
					mu.Unlock()
					if i%20 != 0 { // else it is left open
						op.Done()
					}
					continue
				}
				op := h.Read(key)
				mu.Lock()
				got := values[key]
				mu.Unlock()
				op.Saw(got)
			}
		})
	}
	clients.Wait()
	if err := h.Check(time.Minute); err != nil {
		t.Error(err)
	}
	reads, writes, unknowns := h.Count()
	if reads != 800 || writes != 760 || unknowns != 40 {
		t.Errorf("%d reads, %d writes, %d unknown", reads, writes, unknowns)
	}
}

// Writes that all overlap can have come in more orders than can be tried in a moment.
func TestWithoutTimeNothingIsDecided(t *testing.T) {
	var h History
	var ops []*Op
	for i := range 40 {
		ops = append(ops, h.Write("k", fmt.Sprint(i)))
	}
	for _, op := range ops {
		op.Done()
	}
	h.Read("k").Saw("of none of them")
	if err := h.Check(0); !errors.Is(err, ErrUndecided) {
		t.Errorf("got %v, want it undecided", err)
	}
}
