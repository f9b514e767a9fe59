package store

import (
	"os"
	"testing"

	"anabranch/controlplane/state"
)

// testdata/format1.packed is a compressed command as the first build of format 1 put it into the log:
// a table of 2,000 clusters. It is never written again.
func TestACompressedCommandOfAnEarlierFormatIsApplied(t *testing.T) {
	data, err := os.ReadFile("testdata/format1.packed")
	if err != nil {
		t.Fatal(err)
	}
	l := newLone()
	l.apply(t, initCommand("c1"))
	if r := l.raw(t, data); r.err != nil || r.outcome.GetCode() != "" {
		t.Fatalf("got %+v, halted with %v", r, l.reason)
	}
	table := l.views.load().Table()
	if n := len(table.GetClusters()); n != 2000 || table.GetClusters()[1999].GetId() != "cluster-1999" {
		t.Errorf("%d clusters", n)
	}
	if e := l.views.load().Audit(1, 0); len(e) != 1 || e[0].GetAtUnixMs() != 7 || state.VerifyAudit(e) != nil {
		t.Errorf("audited as %v", e)
	}
}
