package main

import (
	"strings"
	"testing"

	"anabranch/cmd/anabranch/dev/seed"
	"anabranch/controlplane/policy"
)

const demoPrices = `apiVersion: anabranch/v1
kind: Region
metadata: {name: us-east-1}
---
apiVersion: anabranch/v1
kind: TrafficPolicy
metadata: {name: ` + seed.Policy + `}
spec: {class: interactive, failover: {timeScale: 0.05}}
---
apiVersion: anabranch/v1
kind: RateCard
metadata: {name: ` + seed.RateCard + `, labels: {of: seed}}
spec: {gpus: [{class: a100-80, region: us-east-1, usdPerHour: 3.4}, {class: h100, region: us-east-1, usdPerHour: 6.88}, {class: h100, region: eu-west-1, usdPerHour: 7, estimate: true}]}
`

func TestAPriceOfTheDemonstrationIsChanged(t *testing.T) {
	s := begin(t)
	s.do(0, demoPrices, "apply", "-f", "-")
	card := func() []policy.GPUPrice {
		r, _ := s.node.View().Get(policy.KindRateCard, seed.RateCard)
		if r.Metadata.Labels["of"] != "seed" {
			t.Error("the card has lost its labels")
		}
		return r.Spec.(*policy.RateCardSpec).GPUs
	}
	out, _ := s.do(0, "", "dev", "price", "us-east-1", "30", "--class", "h100")
	if !strings.HasPrefix(out, "h100 in us-east-1: $30.00 for a GPU-hour instead of $6.88\npolicy default goes by latency alone") {
		t.Errorf("told: %s", out)
	}
	if got := card(); len(got) != 3 || got[0].USDPerHour != 3.4 || got[1].USDPerHour != 30 || got[2].USDPerHour != 7 || !got[2].Estimate {
		t.Errorf("the card has %+v", got)
	}
	out, _ = s.do(0, "", "dev", "price", "us-east-1", "2", "--objective", "cost-leaning")
	if !strings.HasPrefix(out, "policy default is cost-leaning now: traffic goes by that at once\na100-80 in us-east-1: $2.00") || !strings.Contains(out, "instead of $30.00\npolicy default goes by cost (0.75 of 1): `anabranch plan explain") {
		t.Errorf("told: %s", out)
	}
	r, _ := s.node.View().Get(policy.KindTrafficPolicy, seed.Policy)
	if p := r.Spec.(*policy.TrafficPolicySpec); p.CostPreference != 0.75 || p.Failover.TimeScale != 0.05 {
		t.Errorf("the policy is %+v", p)
	}
	if got := card(); got[0].USDPerHour != 2 || got[1].USDPerHour != 2 {
		t.Errorf("the card has %+v", got)
	}
	for args, want := range map[string]string{
		"us-east-1 free":                     `"free" is no amount`,
		"us-east-1 7 --objective miserly":    `--objective: "miserly" is unknown; choose one of latency-first, latency-leaning, balanced`,
		"us-east-1 7 --class h100 --class x": "",
		"us-east-1":                          "accepts 2 arg",
	} {
		code := exitUsage
		if want == "" {
			code, want = exitFailed, "has no price for that; it has a100-80 in us-east-1, h100 in us-east-1, h100 in eu-west-1"
		}
		if _, errs := s.do(code, "", append([]string{"dev", "price"}, strings.Fields(args)...)...); !strings.Contains(errs, want) {
			t.Errorf("%s: %s", args, errs)
		}
	}
	if got := card(); got[0].USDPerHour != 2 {
		t.Errorf("what was refused has left the card with %+v", got)
	}
}

func TestTheSeedHasWhatDevPriceChanges(t *testing.T) {
	keys := map[string]string{}
	for _, tenant := range seed.Tenants() {
		keys[tenant] = strings.Repeat("0", 64)
	}
	docs, err := seed.Documents(seed.Layout{}, keys)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kind: TrafficPolicy\nmetadata:\n  name: " + seed.Policy + "\n", "kind: RateCard\nmetadata:\n  name: " + seed.RateCard + "\n"} {
		if !strings.Contains(string(docs), want) {
			t.Errorf("the seed lacks %q", want)
		}
	}
}
