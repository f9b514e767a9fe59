package workload

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write testdata/golden.txt anew")

// TestWorkloadsAreTheSameEverywhere holds every kind of workload to what it was when its figures were
// published. A change here makes all of those incomparable.
func TestWorkloadsAreTheSameEverywhere(t *testing.T) {
	var b bytes.Buffer
	tell := func(name string, list []Request) {
		fmt.Fprintf(&b, "%s\n", name)
		for _, r := range list {
			last := uint64(0)
			if n := len(r.Blocks); n > 0 {
				last = r.Blocks[n-1]
			}
			fmt.Fprintf(&b, "  %d at %v %s/%s %s %d: session %x, %d+%d tokens, %d blocks to %x\n",
				r.ID, r.At.Round(time.Microsecond), r.Region, r.Tenant, r.Model, r.Priority, r.Session, r.PromptTokens, r.OutputTokens, len(r.Blocks), last)
		}
	}
	for _, c := range specs {
		tell(c.name, take(t, c.spec(1), 6, 100*time.Millisecond))
	}
	tell("Mooncake", drain(t, mooncake(t, string(load(t, "mooncake.jsonl")), TraceOptions{Seed: 1, Grid: 3 * time.Second, Thin: 0.5}), 6, 0))
	azure, err := Azure(bytes.NewReader(load(t, "azure.csv")), TraceOptions{Seed: 1, Regions: []Origin{{Region: "us"}, {Region: "eu"}}})
	if err != nil {
		t.Fatal(err)
	}
	tell("Azure", drain(t, azure, 6, 0))
	tell("ServeGen", drain(t, servegen(t, TraceOptions{Seed: 1}), 6, 0))
	fmt.Fprintf(&b, "text\n  %s\n", Text(Request{ID: 1, PromptTokens: 20, Blocks: []uint64{1}}))
	if *update {
		if err := os.WriteFile("testdata/golden.txt", b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want := load(t, "golden.txt"); !bytes.Equal(b.Bytes(), want) {
		t.Errorf("workloads have changed; got\n%s\nwant\n%s", b.Bytes(), want)
	}
}
