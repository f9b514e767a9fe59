package dataplane

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/dataplane/proxy"
	"anabranch/ratelimit"
)

// purse is a reservation out of so many tokens.
type purse struct {
	has, reserved int64
	cuts          bool
	asked         []int64
	why           string
	counts        []int // more, debt, cut
}

func (p *purse) Grow(output int64) bool {
	p.asked = append(p.asked, output)
	if output > p.has {
		return false
	}
	p.reserved = max(p.reserved, output)
	return true
}

func (p *purse) Cut(output int64) (ratelimit.Limit, bool) {
	return ratelimit.Limit{ID: "q", Kind: ratelimit.Money}, p.cuts && output > p.has
}

func (p *purse) Reserved() (input, output int64) { return 10, p.reserved }

// stream passes so many tokens one by one, each taking so long, and tells at which of them it was asked, and
// at which it was cut off; 0: it wasn't.
func (p *purse) stream(tokens int64, each time.Duration) (asked []int64, cut int64) {
	now := time.Unix(1000, 0)
	var u topUp
	counts, err := newTopUps(prometheus.NewRegistry())
	if err != nil {
		panic(err) // it is a fresh registry
	}
	defer func() {
		for _, c := range []prometheus.Counter{counts.more, counts.debt, counts.cut} {
			p.counts = append(p.counts, int(testutil.ToFloat64(c)))
		}
	}()
	u.begin(p, func() time.Time { return now }, counts)
	var a proxy.Attempt
	u.watch(&a)
	reserve := a.Reserve
	for n := int64(1); n <= tokens; n++ {
		now = now.Add(each)
		if n <= reserve {
			continue
		}
		asked = append(asked, n)
		next, problem := a.Passed(n)
		if problem != nil {
			p.why = problem.Code
			return asked, n
		}
		reserve = next
	}
	return asked, 0
}

func TestAStreamThatPassesItsReserve(t *testing.T) {
	for name, c := range map[string]struct {
		purse    purse
		tokens   int64
		each     time.Duration
		asked    []int64
		reserved int64
		cut      int64
		counts   []int
	}{
		"stays within it":                         {purse{has: 1000, reserved: 256}, 256, 0, nil, 256, 0, []int{0, 0, 0}},
		"grows by 64, then by a quarter":          {purse{has: 1e6, reserved: 100}, 600, 0, []int64{101, 166, 231, 296, 371, 464, 581}, 726, 0, []int{7, 0, 0}},
		"takes less where a quarter is not there": {purse{has: 1100, reserved: 1000}, 1064, 0, []int64{1001}, 1065, 0, []int{1, 0, 0}},
		"goes on into debt":                       {purse{has: 256, reserved: 256}, 400, 0, []int64{257, 322, 387}, 256, 0, []int{0, 3, 0}},
		"is cut off after a while": {
			purse{has: 256, reserved: 256, cuts: true}, 1000, 20 * time.Millisecond, []int64{257, 274, 291}, 256, 291, []int{0, 0, 1},
		},
	} {
		asked, cut := c.purse.stream(c.tokens, c.each)
		if cut > 0 && c.purse.why != proxy.TypeBudget {
			t.Errorf("%s: it ends with %s", name, c.purse.why)
		}
		if !slices.Equal(c.purse.counts, c.counts) {
			t.Errorf("%s: counted %v, want %v", name, c.purse.counts, c.counts)
		}
		if !slices.Equal(asked, c.asked) || cut != c.cut || c.purse.reserved != c.reserved {
			t.Errorf("%s: asked at %v, cut at %d, %d reserved; want %v, %d, %d", name, asked, cut, c.purse.reserved, c.asked, c.cut, c.reserved)
		}
	}
}

// TestAStreamWaitsForWhatIsOnItsWay lets tokens come from the quota store a little late: nothing is cut off.
func TestAStreamWaitsForWhatIsOnItsWay(t *testing.T) {
	p := &purse{has: 256, reserved: 256, cuts: true}
	now := time.Unix(1000, 0)
	var u topUp
	counts, err := newTopUps(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	u.begin(p, func() time.Time { return now }, counts)
	next, cut := u.passed(257)
	if cut != nil || next > 257+leastTopUp {
		t.Fatalf("up to %d, %v", next, cut)
	}
	now, p.has = now.Add(topUpWithin-time.Millisecond), 10_000
	if next, cut = u.passed(next + 1); cut != nil || next < 300 || p.reserved != next {
		t.Fatalf("up to %d of %d, %v", next, p.reserved, cut)
	}
	// What lacks the next time is waited for as long.
	p.has = 0
	now = now.Add(time.Hour)
	if _, cut = u.passed(next + 1); cut != nil {
		t.Errorf("cut off at once: %v", cut)
	}
}

func TestNobodyCountsWhereNothingIsCharged(t *testing.T) {
	var a proxy.Attempt
	new(topUp).watch(&a)
	if a.Passed != nil {
		t.Error("a stream is asked of")
	}
}
