package plan

import (
	"maps"
	"math"
	"testing"

	"anabranch/failover"
)

// probed is the fleet of newBench with 10 requests a second in us and none elsewhere, after a minute.
func probed(t *testing.T, given func(*bench)) *bench {
	b := newBench(t)
	b.perRequest = 300
	b.ask("us", 3000)
	if given != nil {
		given(b)
	}
	b.report()
	b.plan()
	b.after(30)
	return b
}

func TestWhoIsProbed(t *testing.T) {
	part := probeMost / 4
	tests := map[string]struct {
		given func(*bench)
		want  map[string]float64 // of clusters outside us
	}{
		"all that nobody else uses, three points in all": {
			nil, map[string]float64{"eu-a": part, "eu-b": part, "ap-a": part, "ap-b": part},
		},
		"a point each of two": {
			func(b *bench) { b.ask("ap", 3000) }, map[string]float64{"eu-a": 0.01, "eu-b": 0.01, "ap-a": 0, "ap-b": 0},
		},
		"none with too few requests": {
			func(b *bench) { b.perRequest = 3000 }, map[string]float64{"eu-a": 0, "eu-b": 0, "ap-a": 0, "ap-b": 0},
		},
		"none that is drained": {
			func(b *bench) { b.cluster("eu-a", "eu", 10_000, "drained: true") },
			map[string]float64{"eu-a": 0, "eu-b": 0.01, "ap-a": 0.01, "ap-b": 0.01},
		},
		"none that is evacuated or suspect": {
			func(b *bench) {
				b.state("eu-a", failover.Evacuated, 0)
				b.state("eu-b", failover.Suspect, 0)
			},
			map[string]float64{"eu-a": 0, "eu-b": 0, "ap-a": 0.01, "ap-b": 0.01},
		},
		"none while another ramps": {
			func(b *bench) { b.state("us-b", failover.Ramping, 0.25) },
			map[string]float64{"eu-a": 0, "eu-b": 0, "ap-a": 0, "ap-b": 0},
		},
		"none that the policy gives no weight": {
			func(b *bench) { b.write("TrafficPolicy", "p", "regions: [{region: eu, weight: 0}]") },
			map[string]float64{"eu-a": 0, "eu-b": 0, "ap-a": 0.01, "ap-b": 0.01},
		},
		"none outside the policy's residency": {
			func(b *bench) { b.write("TrafficPolicy", "p", "residency: [us, ap]") },
			map[string]float64{"eu-a": 0, "eu-b": 0, "ap-a": 0.01, "ap-b": 0.01},
		},
		"none where the policy never spills": {
			func(b *bench) { b.write("TrafficPolicy", "p", "spill: never") },
			map[string]float64{"eu-a": 0, "eu-b": 0, "ap-a": 0, "ap-b": 0},
		},
		"none elsewhere where latency is said to come first": {
			func(b *bench) { b.write("TrafficPolicy", "p", "objective: latency-first") },
			map[string]float64{"eu-a": 0, "eu-b": 0, "ap-a": 0, "ap-b": 0},
		},
		"none that is farther than requests may wait": {
			func(b *bench) { b.write("TrafficPolicy", "p", "ttftObjectiveMs: 400") },
			map[string]float64{"eu-a": 0.01, "eu-b": 0.01, "ap-a": 0, "ap-b": 0},
		},
		"no provider": {
			func(b *bench) {
				for _, name := range []string{"eu-a", "eu-b", "ap-a", "ap-b"} {
					b.remove("Cluster", name)
				}
				b.write("Cluster", "eu-p", "region: eu\n  type: provider\n  models: [m]\n  url: https://provider.example\n  priorWork: 1000")
			},
			map[string]float64{"eu-p": 0},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := probed(t, tt.given)
			shares, told := b.shares("us"), b.told("us")
			for c, want := range tt.want {
				if math.Abs(shares[c]-want) > quantum/2 {
					t.Errorf("%s has %v, want %v (%s)", c, shares[c], want, told[c])
				}
				if (told[c] == probing) != (want > 0) {
					t.Errorf("the reason of %s is %q", c, told[c])
				}
			}
		})
	}
}

// One demand probes, and goes on doing so although another could do it as well.
func TestOneDemandProbesASite(t *testing.T) {
	b := probed(t, func(b *bench) { b.ask("eu", 3000) })
	near(t, "of eu, which is nearer to ap than us", region(b.shares("eu"), "ap"), 0.02, quantum)
	near(t, "of us", region(b.shares("us"), "ap"), 0, 0)
	b.ask("eu", 600) // 120 requests a minute
	b.report()
	b.after(1)
	near(t, "of eu with less to do", region(b.shares("eu"), "ap"), 0.02, quantum)
	b.ask("eu", 100)
	b.report()
	b.after(1)
	near(t, "of eu with next to nothing", region(b.shares("eu"), "ap"), 0, 0)
	near(t, "of us then", region(b.shares("us"), "ap"), 0.02, quantum)
}

func TestAProbeEndsWhenItIsNotNeeded(t *testing.T) {
	b := probed(t, nil)
	before := b.shares("us")
	if b.after(30); !maps.Equal(b.shares("us"), before) {
		t.Errorf("nothing happened, and %v became %v", before, b.shares("us"))
	}
	b.ask("ap", 3000)
	b.report()
	b.after(1)
	near(t, "ap, which has traffic of its own", region(b.shares("us"), "ap"), 0, 0)
	near(t, "eu", region(b.shares("us"), "eu"), 0.02, quantum)
}

func TestHeldWeightsGetNoProbes(t *testing.T) {
	b := newBench(t)
	b.perRequest = 300
	b.report()
	b.plan()
	b.ask("us", 3000)
	b.report()
	b.frozen = true
	b.after(5)
	near(t, "while changes are frozen", region(b.shares("us"), "us"), 1, 0)
	b.frozen, b.warm = false, false
	b.after(5)
	near(t, "while the leader is not warm", region(b.shares("us"), "us"), 1, 0)
	b.warm = true
	b.after(1)
	near(t, "then", region(b.shares("us"), "us"), 0.97, quantum)
}
