package prefix

import (
	"fmt"
	"testing"
	"time"
)

// What a decision among so many endpoints costs for a prompt of so many tokens. In a shared cache
// each endpoint has it, whole or in part; in others one has, or none.
func BenchmarkMatch(b *testing.B) {
	for _, tokens := range []int{8_000, 100_000} {
		c := chain(1, tokens/256)
		for _, n := range []int{10, 100} {
			for name, deep := range map[string]func(i int) int{
				"none": func(int) int { return 0 }, "first": func(int) int { return 1 },
				"parts": func(i int) int { return i * 97 % len(c) }, "all": func(int) int { return len(c) },
			} {
				b.Run(fmt.Sprintf("%dtokens/%dholders/%s", tokens, n, name), func(b *testing.B) {
					x := crowded(n)
					holders := make([]*Holder, n)
					for i := range holders {
						holders[i] = x.NewHolder(uint64(i))
						x.Confirm(holders[i], c[:deep(i)], start)
					}
					b.ReportAllocs()
					for b.Loop() {
						for _, h := range holders {
							x.Match(h, c, start)
						}
					}
				})
			}
		}
	}
}

// crowded is an index as full as one in use.
func crowded(holders int) *Index {
	x := New(0, 0, start)
	for i := range DefaultEntries / 400 {
		x.Confirm(x.NewHolder(uint64(i%holders)), chain(uint64(i)+1<<32, 400), start)
	}
	return x
}

// What noting a prompt costs, one after another that nobody has.
func BenchmarkNote(b *testing.B) {
	x := crowded(100)
	h := x.NewHolder(1)
	for name, note := range map[string]func(*Holder, []uint64, time.Time){"reserve": x.Reserve, "confirm": x.Confirm} {
		for _, tokens := range []int{8_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%dtokens", name, tokens), func(b *testing.B) {
				b.ReportAllocs()
				c := chain(1, tokens/256)
				for i := 0; b.Loop(); i++ {
					for j := range c {
						c[j] += uint64(i)
					}
					note(h, c, start)
				}
			})
		}
	}
}
