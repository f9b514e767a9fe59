package quotas

import (
	"math/rand/v2"
	"testing"
)

func TestEventsComeByTimeAndThenAsPutIn(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var q queue
	type key struct {
		at int64
		n  int
	}
	var got []key
	for n := range 2000 {
		at := random.Int64N(100)
		q.put(at, func() { got = append(got, key{at, n}) })
		if n%3 == 0 && n > 1000 {
			q.put(at+200, func() { got = append(got, key{at + 200, n}) })
		}
	}
	for len(q.heap) > 0 {
		q.take().call()
	}
	if len(got) < 2300 {
		t.Fatalf("%d events came", len(got))
	}
	for i := 1; i < len(got); i++ {
		a, b := got[i-1], got[i]
		if a.at > b.at || a.at == b.at && a.n > b.n {
			t.Fatalf("%v came before %v", a, b)
		}
	}
}
