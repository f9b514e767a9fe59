package world

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTheTimelineGivesEventsInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var line timeline
		var waits []event // the slow and obvious way
		for range rapid.IntRange(1, 200).Draw(t, "operations") {
			if len(waits) == 0 || rapid.IntRange(0, 2).Draw(t, "push") > 0 {
				e := event{at: time.Duration(rapid.IntRange(0, 20).Draw(t, "at")), ref: uint32(len(waits))}
				line.push(e)
				e.seq = line.seq
				waits = append(waits, e)
				continue
			}
			slices.SortFunc(waits, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq)) })
			if line.next() != waits[0].at {
				t.Fatalf("the next is at %v, want %v", line.next(), waits[0].at)
			}
			if got := line.pop(); got != waits[0] {
				t.Fatalf("%+v, want %+v", got, waits[0])
			}
			waits = waits[1:]
		}
		if (line.next() == never) != (len(waits) == 0) {
			t.Fatalf("%d are left, the next is at %v", len(waits), line.next())
		}
	})
}

func TestTheScheduleKeepsTheFirstPodInFront(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var s schedule
		var pods []*pod
		for i := range rapid.IntRange(1, 30).Draw(t, "pods") {
			p := &pod{number: i, next: never}
			pods = append(pods, p)
			s.add(p)
		}
		for range rapid.IntRange(1, 100).Draw(t, "changes") {
			p := pods[rapid.IntRange(0, len(pods)-1).Draw(t, "pod")]
			p.next = time.Duration(rapid.IntRange(0, 10).Draw(t, "at"))
			s.fix(p)
			want := slices.MinFunc(pods, func(a, b *pod) int { return cmp.Or(cmp.Compare(a.next, b.next), cmp.Compare(a.number, b.number)) })
			if s[0] != want || s.next() != want.next {
				t.Fatalf("pod %d at %v is in front, want %d at %v", s[0].number, s.next(), want.number, want.next)
			}
			for i, p := range s {
				if p.place != i {
					t.Fatalf("pod %d believes to be at %d, and is at %d", p.number, p.place, i)
				}
			}
		}
	})
	if (schedule{}).next() != never {
		t.Error("an empty schedule has something to do")
	}
}

func TestLanesAreQueues(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var l lane[int]
		var want []int
		for i := range rapid.IntRange(1, 300).Draw(t, "operations") {
			if len(want) == 0 || rapid.IntRange(0, 4).Draw(t, "put") > 1 {
				*l.put(time.Duration(i)) = i
				want = append(want, i)
				continue
			}
			if last := len(want) - 1; *l.peek(last) != want[last] || l.size != len(want) {
				t.Fatalf("%d of %d at the end, want %d of %d", *l.peek(last), l.size, want[last], len(want))
			}
			at := l.next()
			if got := *l.take(); got != want[0] || at != time.Duration(got) {
				t.Fatalf("%d at %v, want %d", got, at, want[0])
			}
			want = want[1:]
		}
		if (l.next() == never) != (len(want) == 0) {
			t.Fatalf("%d are left, the next is at %v", len(want), l.next())
		}
	})
}

// A slot keeps what it held, so that its buffers can be used again.
func TestLanesKeepTheirBuffers(t *testing.T) {
	t.Parallel()
	var l lane[[]string]
	*l.put(1) = make([]string, 0, 5)
	l.take()
	for range 15 {
		l.put(2)
		l.take()
	}
	if got := cap(*l.put(3)); got != 5 {
		t.Errorf("after a turn of the ring the buffer has room for %d", got)
	}
}
