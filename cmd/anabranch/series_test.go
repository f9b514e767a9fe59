package main

import (
	"strings"
	"testing"
)

func TestSeriesAreShownWithTheirGaps(t *testing.T) {
	s := begin(t)
	s.file("region.yaml", eu)
	s.do(0, "", "apply", "-f", "region.yaml")
	if out, _ := s.do(0, "", "series", "routersConnected"); !strings.Contains(out, "node n1 has recorded nothing yet") {
		t.Errorf("at first:\n%s", out)
	}
	if err := s.node.Server.Record(); err != nil {
		t.Fatal(err)
	}
	out, _ := s.do(0, "", "series", "routersConnected,saturation", "--last", "10m")
	if !strings.Contains(out, "routersConnected   eu-west-1   0       0      0      0") || !strings.Contains(out, "·▁") || !strings.Contains(out, "as node n1 has recorded since") || strings.Contains(out, "saturation") {
		t.Errorf("recorded:\n%s", out)
	}
	if out, _ := s.do(0, "", "series", "routersConnected", "--by", "fleet", "-o", "json"); !strings.Contains(out, "null") || !strings.Contains(out, `"metric": "routersConnected"`) {
		t.Errorf("%s", out)
	}
	s.do(exitRefused, "", "series", "colour")
	s.do(exitUsage, "", "series", "waiting", "--last", "2h")
	s.do(exitUsage, "", "series")
}

func TestSparklines(t *testing.T) {
	at := func(v float64) *float64 { return &v }
	for want, points := range map[string][]*float64{
		"▁▅█":                   {at(0), at(0.5), at(1)},
		"·█·":                   {nil, at(2), nil},
		"▁▁":                    {at(0), at(0)},
		strings.Repeat("█", 40): manyPoints(720, 3),
	} {
		most := 0.0
		for _, p := range points {
			if p != nil {
				most = max(most, *p)
			}
		}
		if got := sparkline(points, most); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := summary([]*float64{at(1), at(3), nil}); strings.Join(got[:4], " ") != "1 2 3 3" {
		t.Errorf("%v", got)
	}
	if got := summary([]*float64{at(1), nil, nil}); got[3] != "-" {
		t.Errorf("a value of long ago is the last: %v", got)
	}
	if got := summary([]*float64{nil}); strings.Join(got, " ") != "- - - - -" {
		t.Errorf("%v", got)
	}
}

func manyPoints(n int, v float64) (all []*float64) {
	for range n {
		all = append(all, &v)
	}
	return all
}
