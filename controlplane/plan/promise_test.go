package plan

import (
	"strings"
	"testing"
)

func TestQuotasThatPromiseMoreThanThereIs(t *testing.T) {
	// 45,000 work/s in all, 15,000 in a region: 2,700,000 and 900,000 tokens a minute.
	for name, tt := range map[string]struct {
		quota, tenant string
		drain         string
		want          string
	}{
		"within all capacity":          {quota: "limits: [{kind: total-tokens, perMinute: 2700000}]"},
		"beyond it":                    {quota: "limits: [{kind: total-tokens, perMinute: 2700001}]", want: "allows 2700001 total-tokens a minute, and the clusters that may serve them do about 2700000"},
		"input tokens":                 {quota: "limits: [{kind: input-tokens, perMinute: 2700001}]", want: "input-tokens"},
		"output tokens are more work":  {quota: "limits: [{kind: output-tokens, perMinute: 450001}]", want: "do about 450000"},
		"and within":                   {quota: "limits: [{kind: output-tokens, perMinute: 450000}]"},
		"requests can't be compared":   {quota: "limits: [{kind: requests, perMinute: 90000000}]"},
		"of a model":                   {quota: "model: m\n  limits: [{kind: total-tokens, perMinute: 2700001}]", want: "2700001"},
		"of an adapter":                {quota: "model: lora\n  limits: [{kind: total-tokens, perMinute: 2700001}]", want: "2700001"},
		"of a model that nobody has":   {quota: "model: x\n  limits: [{kind: total-tokens, perMinute: 2700001}]"},
		"within a region":              {quota: "limits: [{kind: total-tokens, perMinute: 900000}]", tenant: "residency: [eu]"},
		"beyond a region":              {quota: "limits: [{kind: total-tokens, perMinute: 900001}]", tenant: "residency: [eu]", want: "do about 900000"},
		"what is drained counts not":   {quota: "limits: [{kind: total-tokens, perMinute: 2400000}]", drain: "us-a", want: "do about 2100000"},
		"the second of several limits": {quota: "limits: [{kind: requests, perMinute: 1}, {kind: total-tokens, perMinute: 2700001}]", want: "2700001"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if tt.drain != "" {
				b.cluster(tt.drain, tt.drain[:2], b.capacity[tt.drain], "drained: true")
			}
			b.write("Tenant", "acme", "tier: top\n  "+tt.tenant)
			b.write("Quota", "q", "tenant: acme\n  "+tt.quota)
			b.report()
			got := Overpromised(Input{Resources: b.written, Signals: b.signals.Snapshot(b.now)})
			switch {
			case tt.want == "" && len(got) > 0:
				t.Errorf("warned: %+v", got)
			case tt.want != "" && (len(got) != 1 || !strings.Contains(got[0].Reason, tt.want) || got[0].Resource != "quotas/q" || got[0].Fix == "" || !strings.HasSuffix(got[0].Field, "].perMinute")):
				t.Errorf("got %+v, want %q", got, tt.want)
			}
		})
	}
}
