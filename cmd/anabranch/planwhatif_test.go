package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"anabranch/api/fleet"
	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/plan"
)

func clusterNamed(i int) fleet.ClusterID { return fleet.ClusterID(fmt.Sprintf("c%02d", i)) }

func TestWhatIfCompares(t *testing.T) {
	s := planned(t, 4000)
	out, _ := s.do(0, "", "plan", "what-if", "--without", "eu-west-1", "--demand", "1.5x")
	for _, want := range []string{
		"There would be room for all; the busiest cluster, us-east-1-a, would be at 0.60 of what it can do",
		"work/s asked for 4k 6k", "distance in the mean 0 ms 80 ms", "eu-west-1-a 4k lost 0.40 -", "us-east-1-a 0 6k 0.00 0.60",
		"m, class interactive, from eu-west-1:", "us-east-1-a 0.00 % → 100.00 %", "all GPUs cost an hour $44.00 $20.00",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	for price, bill := range map[string]float64{"us-east-1=2x": 64, "2x": 88, "H100=0.5x": 22, "us-east-1=0": 24} {
		out, _ = s.do(0, "", "plan", "what-if", "--price", price, "-o", "json")
		var got client.WhatIfAnswer
		if err := json.Unmarshal([]byte(out), &got); err != nil || got.After.BillPerHour.USD != bill {
			t.Errorf("%s: %v %v, want %v", price, err, got.After.BillPerHour.USD, bill)
		}
	}
	out, _ = s.do(0, "", "plan", "what-if", "--price", "h100=9", "--price", "us-east-1-a=1", "--capacity", "us-east-1-a=2x", "-o", "json")
	var got client.WhatIfAnswer
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.After.BillPerHour.USD != 80 || got.Before.BillPerHour.USD != 44 || got.After.Sites[1].CapacityPerS != 20_000 {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestWhatIfSaysWhatIsLost(t *testing.T) {
	s := planned(t, 4000)
	out, _ := s.do(0, "", "plan", "what-if", "--without", "eu-west-1,us-east-1")
	if !strings.HasPrefix(out, "It would not be survived whole: nothing could serve 4k of 4k work/s.") || !strings.Contains(out, "stranded: m, class interactive, from eu-west-1, 4k work/s: all clusters") {
		t.Errorf("%s", out)
	}
	out, _ = s.do(0, "", "plan", "what-if", "--demand", "eu-west-1=9x", "--simulate")
	if !strings.HasPrefix(out, "There would be more to do than clusters can: ") || !strings.Contains(out, " over") || !strings.Contains(out, "no simulator") {
		t.Errorf("%s", out)
	}
	if out, _ = s.do(0, "", "plan", "what-if", "--capacity", "us-east-1-a=0.9x"); !strings.HasPrefix(out, "No share would move") {
		t.Errorf("%s", out)
	}
}

func TestWhatIfRefusesWhatItCantSuppose(t *testing.T) {
	s := planned(t, 1000)
	for _, tt := range []struct {
		code int
		args []string
		says string
	}{
		{exitRefused, []string{"--without", "uk"}, "eu-west-1, us-east-1"},
		{exitRefused, []string{"--without-cluster", "x"}, "eu-west-1-a, us-east-1-a"},
		{exitRefused, []string{"--price", "abacus=1"}, "use one of h100"},
		{exitRefused, []string{"--capacity", "x=2x"}, "eu-west-1-a, us-east-1-a"},
		{exitRefused, []string{"--demand", "uk=2x"}, "eu-west-1, us-east-1"},
		{exitUsage, nil, "give --without REGION"},
		{exitUsage, []string{"--price", "h100"}, "write CLUSTER=USD, REGION=USD or CLASS=USD"},
		{exitUsage, []string{"--price", "h100=0x"}, "or a factor, such as us-east-1=2x"},
		{exitUsage, []string{"--price", "=2x"}, "or a factor, such as us-east-1=2x"},
		{exitUsage, []string{"--price", "h100=dear"}, "write CLUSTER=USD, REGION=USD or CLASS=USD"},
		{exitUsage, []string{"--price", "h100=-1"}, "write CLUSTER=USD, REGION=USD or CLASS=USD"},
		{exitUsage, []string{"--demand", "double"}, "write 1.5x, or REGION=2x"},
		{exitUsage, []string{"--demand", "=2x"}, "write 1.5x, or REGION=2x"},
		{exitUsage, []string{"--demand", "-2x"}, "write 1.5x, or REGION=2x"},
		{exitUsage, []string{"--capacity", "us-east-1-a=0"}, "--without-cluster takes one away"},
		{exitUsage, []string{"--capacity", "0.5x"}, "write CLUSTER=0.5x"},
		{exitUsage, []string{"--demand", "NaNx"}, "write 1.5x, or REGION=2x"},
		{exitUsage, []string{"something"}, ""},
	} {
		if _, errs := s.do(tt.code, "", append([]string{"plan", "what-if"}, tt.args...)...); !strings.Contains(errs, tt.says) {
			t.Errorf("%q: %s", tt.args, errs)
		}
	}
}

func TestMoneyIsToldWithWhatIsKnownOfIt(t *testing.T) {
	for want, m := range map[string]plan.Money{
		"$1.50": {USD: 1.5}, "$1.50 estimate": {USD: 1.5, Estimate: true}, "$0.00 and what has no price": {Estimate: true, Unpriced: true},
	} {
		if got := money(m); got != want {
			t.Errorf("%+v is %q", m, got)
		}
	}
}
