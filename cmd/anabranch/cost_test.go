package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
	"anabranch/costmodel/focus/focustest"
)

// money applies a command of the account.
func (s session) money(cmd *statepb.Command) {
	s.t.Helper()
	cmd.Format, cmd.AtUnixMs, cmd.Actor = state.Format, time.Now().UnixMilli(), &statepb.Actor{Name: "test"}
	if out := s.node.Apply(cmd); out.GetCode() != "" {
		s.t.Fatalf("%v: %v", cmd, out)
	}
}

// closing bills minutes of clusters.
func (s session) closing(minutes ...*statepb.MinuteBills) {
	s.t.Helper()
	s.money(&statepb.Command{Op: &statepb.Command_CloseMinutes{CloseMinutes: &statepb.CloseMinutes{Minutes: minutes}}})
}

// ledgered is a control plane whose account has two minutes, a gap of ten minutes between them: $1.00 of one cluster, a
// fifth of it idle, at an estimate; and another one whose price is not known.
func ledgered(t *testing.T) (session, time.Time) {
	t.Helper()
	s := begin(t).newest()
	at := time.Now().UTC().Truncate(time.Minute).Add(-20 * time.Minute)
	first := &statepb.MinuteBills{MinuteUnixS: at.Unix(), Bills: []*statepb.ClusterBill{
		{Cluster: "us-east-1-a", Region: "us-east-1", CostMicros: 1_000_000, CarbonMicros: 2000, Capacity: 10_000_000, Estimate: true},
		{Cluster: "eu-west-1-a", Region: "eu-west-1", Capacity: 1000, Unpriced: true},
	}}
	s.closing(first)
	line := func(tenant, model, cluster, region string, tokens int64) *statepb.CountedLine {
		return &statepb.CountedLine{
			Tenant: tenant, Model: model, Class: "interactive", Cluster: cluster, Region: region, Source: "us-east-1",
			Input: tokens, Output: tokens / 4, Succeeded: tokens / 1000, Failed: 1, Work: tokens,
		}
	}
	lines := []*statepb.CountedLine{
		line("acme", "meta-llama/Llama-3.1-8B", "us-east-1-a", "us-east-1", 6_000_000), line("globex", "meta-llama/Llama-3.1-8B", "us-east-1-a", "us-east-1", 1_500_000),
		line("globex", "llama-3.1-70b", "us-east-1-a", "us-east-1", 500_000), line("initech", "llama-3.1-70b", "eu-west-1-a", "eu-west-1", 1000),
	}
	s.money(&statepb.Command{Op: &statepb.Command_CountUsage{CountUsage: &statepb.CountUsage{
		Runs: []*statepb.UsageRun{{Run: "r/1", Sequence: 1}}, Minutes: []*statepb.CountedMinute{{MinuteUnixS: at.Unix(), Lines: lines}},
	}}})
	s.closing(&statepb.MinuteBills{MinuteUnixS: at.Add(11 * time.Minute).Unix()})
	return s, at
}

// cells are the words of each line of a table.
func cells(out string) (all [][]string) {
	for line := range strings.Lines(out) {
		all = append(all, strings.Fields(line))
	}
	return all
}

func TestCostShowsWhoPaysForWhat(t *testing.T) {
	s, at := ledgered(t)
	out, errs := s.do(0, "", "cost", "--by", "tenant,model")
	want := [][]string{
		{"TENANT", "MODEL", "COST", "SHARE", "IDLE", "TOKENS", "$/MTOK", "ANSWERS", "$/ANSWER"},
		{"acme", "meta-llama/Llama-3.1-8B", "~$0.60", "60.0%", "$0.00", "7.50M", "$0.08", "6.00k", "$0.0001"},
		{"(idle)", "(idle)", "~$0.20", "20.0%", "$0.20", "0", "-", "0", "-"},
		{"globex", "meta-llama/Llama-3.1-8B", "~$0.15", "15.0%", "$0.00", "1.88M", "$0.08", "1.50k", "$0.0001"},
		{"globex", "llama-3.1-70b", "~$0.05", "5.0%", "$0.00", "625k", "$0.08", "500", "$0.0001"},
		{"initech", "llama-3.1-70b", "$0.00+", "0.0%", "$0.00", "1.25k", "$0.00", "1", "$0.00"},
		{"TOTAL", "~$1.00+", "100.0%", "$0.20", "10.0M", "$0.08", "8.00k", "$0.0001"},
	}
	if got := cells(out); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got\n%s%q\nwant\n%q", out, got, want)
	}
	for line := range strings.Lines(out) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 100 {
			t.Errorf("a line is %d characters wide: %s", n, line)
		}
	}
	minute := func(after int) string { return at.Add(time.Duration(after) * time.Minute).Format("2006-01-02 15:04") }
	for _, note := range []string{
		"note: the account begins " + minute(0),
		"note: until " + minute(12) + ": later minutes are told once they are closed",
		"note: nothing was billed from " + minute(1) + " to " + minute(11),
		"note: ~ is at estimated prices; `anabranch apply` a RateCard",
		"note: + is at least: prices of clusters eu-west-1-a are not known; `anabranch apply` a RateCard for their GPUs",
	} {
		if !strings.Contains(errs, note) {
			t.Errorf("%q is not among\n%s", note, errs)
		}
	}
}

func TestCostByOtherFieldsAndTimes(t *testing.T) {
	s, at := ledgered(t)
	for args, want := range map[string]string{
		"--by cluster": "CLUSTER COST SHARE IDLE TOKENS $/MTOK ANSWERS $/ANSWER|us-east-1-a ~$1.00 100.0% $0.20 10.0M $0.08 8.00k $0.0001|eu-west-1-a $0.00+ 0.0% $0.00 1.25k $0.00 1 $0.00|TOTAL",
		"--by region,tenant --tenant acme --top 0": "TENANT REGION COST SHARE IDLE TOKENS $/MTOK ANSWERS $/ANSWER|acme us-east-1 ~$0.60 100.0%",
		"--top 1":                                         "TENANT COST SHARE IDLE TOKENS $/MTOK ANSWERS $/ANSWER|acme ~$0.60 60.0% $0.00 7.50M $0.08 6.00k $0.0001|(3 others) ~$0.40+ 40.0%",
		"--idle spread --cluster us-east-1-a":             "TENANT COST SHARE IDLE TOKENS $/MTOK ANSWERS $/ANSWER|acme ~$0.75 75.0% $0.00 7.50M $0.10 6.00k $0.000125|globex ~$0.25 25.0%",
		"--sort name --class interactive":                 "TENANT COST SHARE IDLE TOKENS $/MTOK ANSWERS $/ANSWER|acme ~$0.60 75.0%", // without idle time
		"--step hour --by source --source us-east-1":      "TIME (UTC) SOURCE COST SHARE IDLE TOKENS $/MTOK ANSWERS $/ANSWER|" + at.Format("2006-01-02 15:04") + " us-east-1 ~$0.80+ 100.0%",
		"--step day --by model --model llama-3.1-70b":     "TIME (UTC) MODEL COST SHARE IDLE TOKENS $/MTOK ANSWERS $/ANSWER|" + at.Format("2006-01-02") + " llama-3.1-70b ~$0.05+ 100.0%",
		"--region eu-west-1 --by class --stale":           "CLASS COST SHARE IDLE TOKENS $/MTOK ANSWERS $/ANSWER|interactive $0.00+ -",
		"-o wide --by tenant --tenant globex --since 31d": "TENANT COST SHARE IDLE TOKENS $/MTOK ANSWERS $/ANSWER WORK EGRESS CARBON INPUT CACHED OUTPUT FAILED|globex ~$0.20 100.0% $0.00 2.50M $0.08 2.00k $0.0001 $0.20 $0.00 $0.0004 2.00M 0 500k 2",
	} {
		out, _ := s.do(0, "", append([]string{"cost"}, strings.Fields(args)...)...)
		var lines []string
		for _, words := range cells(out) {
			lines = append(lines, strings.Join(words, " "))
		}
		if got := strings.Join(lines, "|"); !strings.HasPrefix(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", args, got, want)
		}
	}
}

func TestCostForPrograms(t *testing.T) {
	s, at := ledgered(t)
	out, errs := s.do(0, "", "cost", "--by", "region", "-o", "json")
	var c costAnswer
	if err := json.Unmarshal([]byte(out), &c); err != nil || errs != "" {
		t.Fatalf("%v %q", err, errs)
	}
	if len(c.Rows) != 2 || c.Rows[0].Region != "us-east-1" || c.Rows[0].PaidUSD != amountUSD(costmodel.Dollar) || len(c.Gaps) != 1 || !c.Begun.Equal(at) {
		t.Errorf("%+v", c)
	}
	if out, _ := s.do(0, "", "cost", "-o", "yaml"); !strings.Contains(out, "\npaidUSD: \"1.00\"\n") && !strings.Contains(out, "paidUSD: \"1.00\"") {
		t.Errorf("%s", out)
	}
	out, errs = s.do(0, "", "cost", "-o", "csv")
	if wrong := focustest.Check([]byte(out)); wrong != nil || errs != "" {
		t.Errorf("%v %q", wrong, errs)
	}
	_, rows, err := focustest.Rows(strings.NewReader(out))
	if err != nil || len(rows) != 5 || rows[0]["SubAccountId"] != "acme" || rows[0]["x_Model"] != "meta-llama/Llama-3.1-8B" {
		t.Errorf("%v %q", err, rows)
	}
	out, _ = s.do(0, "", "cost", "-o", "csv", "--by", "tenant", "--step", "minute", "--stale", "--tenant", "acme")
	if _, rows, err = focustest.Rows(strings.NewReader(out)); err != nil || len(rows) != 1 || rows[0]["ChargePeriodStart"] != at.Format("2006-01-02T15:04:05Z") || rows[0]["x_Model"] != "" {
		t.Errorf("%v %q", err, rows)
	}
}

func TestCostOfNothing(t *testing.T) {
	out, errs := begin(t).do(0, "", "cost")
	if out != "" || !strings.Contains(errs, "note: the account has not begun") {
		t.Errorf("%q %q", out, errs)
	}
	s, at := ledgered(t)
	out, errs = s.do(0, "", "cost", "--tenant", "nobody")
	if out != "" || !strings.Contains(errs, fmt.Sprintf("note: nothing was used or paid for from %s to ", at.Format("2006-01-02 15:04"))) ||
		!strings.Contains(errs, " of tenant nobody; names are those of `anabranch get tenants`\n") {
		t.Errorf("%q %q", out, errs)
	}
	_, errs = s.do(0, "", "cost", "--class", "batch", "--region", "mars,us-east-1", "--source", "mars")
	if !strings.Contains(errs, " of class batch, region mars or us-east-1, source mars; names are those of `anabranch get regions`\n") {
		t.Errorf("%q", errs)
	}
	_, errs = s.do(0, "", "cost", "--from", "1999-01-01", "--until", "1999-02-01")
	if !strings.Contains(errs, fmt.Sprintf("note: the account holds nothing of that time: it is from %s to ", at.Format("2006-01-02 15:04"))) {
		t.Errorf("%q", errs)
	}
}

func TestCostSaysWhatIsWrong(t *testing.T) {
	s := begin(t).newest()
	for args, want := range map[string]struct {
		code int
		says string
	}{
		"--by colour":                   {exitUsage, `--by: "colour" is unknown; choose among tenant, model, class, cluster, region, source`},
		"--by=":                         {exitUsage, "--by: nothing to tell rows apart by"},
		"--step week":                   {exitUsage, `--step: "week" is unknown; choose among none, minute, hour, day`},
		"--idle none":                   {exitUsage, `--idle: "none" is unknown`},
		"--sort price":                  {exitUsage, `--sort: "price" is unknown`},
		"--top 1001":                    {exitUsage, "--top: 1001 is out of range"},
		"-o xlsx":                       {exitUsage, "choose one of table, wide, json, yaml, csv"},
		"--since 1h --from 2026-11-01":  {exitRefused, "since and from say the same"},
		"--since forever":               {exitRefused, "such as 90m, 24h or 31d"},
		"--from 2999-01-01":             {exitRefused, "from is "},
		"--from 2026-11-30 --until now": {exitRefused, "until is "},
		"-o csv --step none":            {exitRefused, "use minute, hour or day"},
		"--tenant =cmd":                 {exitRefused, "tenant "},
		"extra":                         {exitUsage, "unknown command"},
	} {
		if _, errs := s.do(want.code, "", append([]string{"cost"}, strings.Fields(args)...)...); !strings.Contains(errs, want.says) {
			t.Errorf("%s: %q, want %q", args, errs, want.says)
		}
	}
}

func TestCostIsCompleted(t *testing.T) {
	s := begin(t)
	s.do(0, eu+"---\n"+acme, "apply", "-f", "-")
	for args, want := range map[string]string{
		"--by|":              "tenant\nmodel\nclass\ncluster\nregion\nsource\n",
		"--by|tenant,re":     "tenant,region\n",
		"--by|tenant,tenant": "",
		"--tenant|ac":        "acme\n",
		"--step|":            "none\nminute\nhour\nday\n",
		"--idle|":            "apart\nspread\n",
	} {
		out, _ := s.do(0, "", append([]string{cobra.ShellCompRequestCmd, "cost"}, strings.Split(args, "|")...)...)
		if got := out[:strings.LastIndex(out, ":")]; got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

func TestPricesOfUnitsHaveThreeDigits(t *testing.T) {
	for micros, want := range map[amountUSD]string{
		0: "$0.00", 7: "$0.000007", 249: "$0.000249", 1499: "$0.0015", 12_345: "$0.0123", 79_991: "$0.08", 123_456: "$0.123", 999_999: "$1.00", 2_345_678: "$2.35",
	} {
		if got := unitUSD(&micros); got != want {
			t.Errorf("%d: %s, want %s", micros, got, want)
		}
	}
	if got := unitUSD(nil); got != "-" {
		t.Errorf("none is %q", got)
	}
}

func TestManyGapsAreToldInShort(t *testing.T) {
	c := costAnswer{CompleteUntil: time.Now()}
	for range maxGapsShown + 4 {
		c.Gaps = append(c.Gaps, struct {
			From  time.Time `json:"from"`
			Until time.Time `json:"until"`
		}{})
	}
	c.LateAnswers, c.Folded = 1200, true
	all := strings.Join(c.notes(), "\n")
	if strings.Count(all, "nothing was billed") != maxGapsShown || !strings.Contains(all, "and 4 more gaps") || !strings.Contains(all, "1.20k answers were told too late") || !strings.Contains(all, "(other) is all") {
		t.Error(all)
	}
}
