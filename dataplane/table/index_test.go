package table

import (
	"fmt"
	"math/bits"
	"net/http"
	"testing"

	"pgregory.net/rapid"

	"anabranch/api/routerpb"
)

func TestASetHoldsWhatWasPutIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		put := rapid.SliceOfDistinct(rapid.IntRange(0, 300), rapid.ID[int]).Draw(t, "put")
		var s set
		for _, i := range put {
			s = s.with(i).with(i)
		}
		n := 0
		for w := range 8 {
			n += bits.OnesCount64(s.word(w))
		}
		if n != len(put) {
			t.Fatalf("%d are in it, %d were put", n, len(put))
		}
		for _, i := range put {
			if s.word(i/64)&(1<<(i%64)) == 0 {
				t.Fatalf("%d is not in it", i)
			}
		}
	})
}

// More names of headers than are told apart: all rules are found all the same, the first that fits.
func TestMoreHeadersThanAreToldApart(t *testing.T) {
	pb := good()
	const rules = 3 * maxHeaders
	for i := range rules {
		pb.Rules = append(pb.Rules, &routerpb.Rule{Id: fmt.Sprint("p", i), Class: "interactive", Match: []*routerpb.Match{
			{Headers: []*routerpb.HeaderMatch{{Name: fmt.Sprint("x-", i), Value: "v"}}},
		}})
	}
	tab := build(t, pb)
	if got := len(tab.index.headers); got != maxHeaders {
		t.Errorf("%d headers are told apart", got)
	}
	model, _, _ := tab.Model("llama")
	for i := range rules {
		header := http.Header{}
		header.Set(fmt.Sprint("x-", i), "v")
		if i+1 < rules {
			header.Set(fmt.Sprint("x-", i+1), "v")
		}
		if r := tab.Rule(model, nil, "/", header); r == nil || r.Policy != fmt.Sprint("p", i) {
			t.Fatalf("header %d finds %+v", i, r)
		}
	}
	if r := tab.Rule(model, nil, "/", http.Header{"X-None": {"v"}}); r != nil {
		t.Errorf("found %+v", r)
	}
}

// A policy may be known by another region's router and not here, or the other way round.
func TestRulesOfAnotherTable(t *testing.T) {
	tab := build(t, ruled())
	if tab.RuleOf("") != nil || tab.RuleOf("newer") != nil {
		t.Error("found what is not there")
	}
	if r := tab.RuleOf("all"); r.Arm("") != nil || r.Arm("stable") != nil {
		t.Error("a rule without a split has arms")
	}
}
