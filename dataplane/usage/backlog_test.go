package usage

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/api/fleet"
)

// minutes is a backlog with so many minutes from a time on, of some tenants each.
func minutes(start int64, n, tenants int, b backlog) *backlog {
	for i := range n {
		used := map[Key]Use{}
		for j := range tenants {
			used[key(fmt.Sprint("t", j))] = Use{Input: 1}
		}
		b.add(start+60*int64(i), used)
		b.shrink()
	}
	return &b
}

func (b *backlog) shape() (out string) {
	for _, v := range b.all {
		out += fmt.Sprintf("%d+%d:%d ", v.start/60, (v.end-v.start)/60, len(v.lines))
	}
	return out
}

func (b *backlog) input() (sum int64) {
	for _, v := range b.all {
		for _, u := range v.lines {
			sum += u.Input
		}
	}
	return sum
}

func TestTheOldestIsPutTogetherFirst(t *testing.T) {
	for name, c := range map[string]struct {
		n, tenants int
		b          backlog
		want       string
	}{
		"all fits":                            {3, 2, backlog{maxLines: 6, maxIntervals: 3}, "0+1:2 1+1:2 2+1:2 "},
		"minutes of one hour":                 {5, 2, backlog{maxLines: 6, maxIntervals: 9}, "0+3:2 3+1:2 4+1:2 "},
		"by their number":                     {5, 1, backlog{maxLines: 99, maxIntervals: 2}, "0+4:1 4+1:1 "},
		"of each hour for itself":             {125, 1, backlog{maxLines: 99, maxIntervals: 4}, "0+60:1 60+60:1 120+4:1 124+1:1 "},
		"hours of a day":                      {185, 1, backlog{maxLines: 99, maxIntervals: 3}, "0+180:1 180+4:1 184+1:1 "},
		"days, if there is no other way":      {2885, 1, backlog{maxLines: 2, maxIntervals: 9}, "0+2884:1 2884+1:1 "},
		"tenants last, and not of the newest": {5, 3, backlog{maxLines: 4, maxIntervals: 9}, "0+4:1 4+1:3 "},
		"of the newest too":                   {5, 3, backlog{maxLines: 2, maxIntervals: 9}, "0+4:1 4+1:1 "},
		"and no more than that":               {2, 3, backlog{maxLines: 1, maxIntervals: 9}, "0+1:1 1+1:1 "},
	} {
		t.Run(name, func(t *testing.T) {
			b := minutes(0, c.n, c.tenants, c.b)
			if got := b.shape(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if got := b.input(); got != int64(c.n*c.tenants) {
				t.Errorf("%d of %d are left", got, c.n*c.tenants)
			}
		})
	}
}

func TestWhatWasPutTogetherIsTold(t *testing.T) {
	b := minutes(0, 5, 1, backlog{maxLines: 99, maxIntervals: 3})
	got := b.take(240, maxMessage)
	if len(got) != 2 || got[0].GetMinuteUnixS() != 0 || got[0].GetMinutes() != 3 || got[0].GetLines()[0].GetInput() != 3 || got[1].GetMinutes() != 0 {
		t.Errorf("taken %v", got)
	}
	b.add(60, map[Key]Use{key("t0"): {Input: 9}}) // a clock that went back
	if got := b.shape(); got != "1+1:1 4+1:1 " {
		t.Errorf("left %s", got)
	}
}

func TestAMessageTellsOfAnHourAtMost(t *testing.T) {
	b := minutes(0, 150, 1, backlog{maxLines: 999, maxIntervals: 999})
	for i, want := range []int{60, 60, 30, 0} {
		if got := b.take(150*60, maxMessage); len(got) != want || want > 0 && got[0].GetMinuteUnixS() != int64(i)*3600 {
			t.Errorf("message %d tells of %d minutes, want %d: %v", i, len(got), want, got)
		}
	}
}

// However much there is of whatever keys, nothing is lost, what is kept stays within its bounds as long as
// it can be put together, and messages within theirs.
func TestNothingIsLostInTheBacklog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := backlog{maxLines: rapid.IntRange(1, 200).Draw(t, "lines"), maxIntervals: rapid.IntRange(2, 20).Draw(t, "intervals")}
		most := rapid.IntRange(1, 2000).Draw(t, "bytes")
		var in, out, at, last int64
		take := func(before int64) {
			size := 0
			taken := b.take(before, most)
			for _, m := range taken {
				if m.GetMinuteUnixS()%60 != 0 || len(m.GetLines()) == 0 || m.GetMinuteUnixS() < last && m.GetMinuteUnixS() != at {
					t.Fatalf("minute %v", m)
				}
				for _, l := range m.GetLines() {
					out += l.GetInput()
				}
				size += proto.Size(m)
			}
			if len(taken) > 0 && size > most+200 {
				t.Fatalf("%d bytes at once", size)
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			at += 60 * rapid.Int64Range(0, 700).Draw(t, "later")
			used := map[Key]Use{}
			for range rapid.IntRange(0, 12).Draw(t, "used") {
				k := key(fmt.Sprint("t", rapid.IntRange(0, 40).Draw(t, "tenant")))
				k.Cluster = fleet.ClusterID(fmt.Sprint("c", rapid.IntRange(0, 1).Draw(t, "cluster")))
				n := rapid.Int64Range(1, 100).Draw(t, "input")
				used[k] = used[k].plus(Use{Input: n})
				in += n
			}
			b.add(at, used)
			b.shrink()
			if len(b.all) > max(b.maxIntervals, 2) || b.lines > max(b.maxLines, 4) {
				t.Fatalf("%d lines in %d intervals are kept, of %d and %d", b.lines, len(b.all), b.maxLines, b.maxIntervals)
			}
			lines := 0
			for i, v := range b.all {
				lines += len(v.lines)
				if v.end <= v.start || i > 0 && v.start < b.all[i-1].end {
					t.Fatalf("out of order: %s", b.shape())
				}
			}
			if lines != b.lines {
				t.Fatalf("%d lines are counted as %d", lines, b.lines)
			}
			if rapid.Bool().Draw(t, "take") {
				take(at)
			}
		}
		for len(b.all) > 0 {
			take(at + 60)
		}
		if in != out {
			t.Fatalf("%d of %d came out", out, in)
		}
	})
}
