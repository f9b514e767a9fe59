package main

import (
	"strings"
	"testing"

	"anabranch/controlplane/state/statepb"
)

func TestCostBillsShowsDrift(t *testing.T) {
	s := begin(t).newest()
	if _, errs := s.do(0, "", "cost", "bills"); !strings.Contains(errs, "--aws-bills") {
		t.Errorf("where nobody asks: %s", errs)
	}
	const day = 24 * 3600
	for i := range int64(3) {
		s.money(&statepb.Command{Op: &statepb.Command_PutBilled{PutBilled: &statepb.PutBilled{Day: &statepb.BilledDay{
			DayUnixS: (i + 1) * day, Source: "the cloud", Estimate: i == 2, Incomplete: i == 1, LeftOut: []string{"us-b", "us-c"}[:i],
			Goods: []*statepb.BilledGoods{
				{Region: "us-east-1", Instance: "p5.48xlarge", BilledMicros: 1_320_000_000, CountedMicros: 1_200_000_000},
				{Region: "us-east-1", Instance: "p6-b200.48xlarge", BilledMicros: 30_000_000},
			},
		}}}})
	}
	out, errs := s.do(0, "", "cost", "bills", "--days", "2")
	want := []string{
		"DAY REGION INSTANCE BILLED COUNTED DRIFT",
		"~1970-01-04 us-east-1 p5.48xlarge $1320.00 $1200.00 +10.0%",
		"~1970-01-04 us-east-1 p6-b200.48xlarge $30.00 $0.00 -",
		"~1970-01-04 TOTAL $1350.00 $1200.00 +12.5%",
		"1970-01-03 us-east-1 p5.48xlarge $1320.00 $1200.00 +10.0%",
		"1970-01-03 us-east-1 p6-b200.48xlarge $30.00 $0.00 -",
		"1970-01-03 TOTAL $1350.00 $1200.00 +12.5%",
	}
	var got []string
	for _, line := range cells(out) {
		got = append(got, strings.Join(line, " "))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("shows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, note := range []string{"~ 1970-01-04: what was billed may still change", "1970-01-03: the account has not counted the whole day", "us-b, us-c"} {
		if !strings.Contains(errs, note) {
			t.Errorf("the notes lack %q:\n%s", note, errs)
		}
	}
	if out, _ := s.do(0, "", "cost", "bills", "--days", "1", "-o", "json"); strings.Count(out, `"day"`) != 1 || !strings.Contains(out, `"0.1`) && !strings.Contains(out, "0.12") {
		t.Errorf("as JSON:\n%s", out)
	}
	if _, errs := s.do(2, "", "cost", "bills", "--days", "0"); !strings.Contains(errs, "--days") {
		t.Errorf("of no days: %s", errs)
	}
}
