package instance

import (
	"io"
	"testing"

	"anabranch/api/routerpb"
)

// What a stream used that a router waited for before it ended, in the minute that was running, is told before
// the router goes.
func TestTheLastUseIsToldBeforeARouterGoes(t *testing.T) {
	f := newFixture(t)
	f.usage = make(chan *routerpb.UsageReport, 16)
	n := f.start(f.options())
	n.eventually("it is ready", n.ready)
	res := n.stream()
	defer res.Body.Close()
	n.stop()
	f.release <- struct{}{}
	if body, err := io.ReadAll(res.Body); string(body) != content+content+finish+done || err != nil {
		t.Errorf("body %q, %v", body, err)
	}
	if err := n.ended(); err != nil {
		t.Errorf("Run: %v", err)
	}
	var used routerpb.UsageLine
	for len(f.usage) > 0 {
		for _, m := range (<-f.usage).GetMinutes() {
			for _, l := range m.GetLines() {
				if l.GetTenant() != "acme" || l.GetModel() != "llama" || l.GetCluster() != "eu-a" {
					t.Errorf("line %v", l)
				}
				used.Output += l.GetOutput()
				used.Succeeded += l.GetSucceeded()
			}
		}
	}
	if used.GetSucceeded() != 1 || used.GetOutput() != 2 {
		t.Errorf("%d answers of %d tokens are told", used.GetSucceeded(), used.GetOutput())
	}
}
