package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/signal"
)

// joined makes a router known to the node.
func (s session) joined(id, region string, applied uint64, connected bool, ack *routerpb.Ack) {
	o := signal.Observation{
		Node: "n1", Connected: connected, Received: time.Now(), Ack: ack,
		Hello: &routerpb.Hello{RouterId: id, Region: region, Version: "v2"},
	}
	if applied > 0 {
		o.Report = &routerpb.Report{AtUnixMs: 1, QuotaStoreOk: true, Applied: &routerpb.TableRef{Epoch: 1, Revision: applied}}
	}
	s.node.Signals.Put(o)
}

func TestGetRouters(t *testing.T) {
	s := begin(t)
	if out, _ := s.do(0, "", "get", "routers"); len(strings.Fields(out)) != 9 {
		t.Errorf("without any:\n%s", out)
	}
	s.joined("us-r1", "us", 0, true, nil)
	s.joined("eu-r1", "eu", 7, true, &routerpb.Ack{Table: &routerpb.TableRef{Revision: 8}, Code: "weights_sum", Field: "weights[0]"})
	s.joined("eu-r2", "eu", 8, false, &routerpb.Ack{Table: &routerpb.TableRef{Revision: 8}, Ok: true})
	out, _ := s.do(0, "", "get", "routers")
	var got []string
	for line := range strings.Lines(out) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"NAME REGION NODE CONNECTED TABLE ANSWER REPORT QUOTAS VERSION",
		"eu-r1 eu n1 yes 7 weights_sum at weights[0] 8 ",
		"eu-r2 eu n1 no 8 took 8 ",
		"us-r1 us n1 yes - - never - v2",
	}
	if len(got) != len(want) {
		t.Fatalf("got:\n%s", out)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) || !strings.HasSuffix(got[i], "v2") && i > 0 {
			t.Errorf("line %d is %q, want %q…", i, got[i], want[i])
		}
	}
	var one router
	out, _ = s.do(0, "", "get", "router", "eu-r1", "-o", "json")
	if err := json.Unmarshal([]byte(out), &one); err != nil || one.ID != "eu-r1" || one.Answer.Code != "weights_sum" {
		t.Errorf("one of them: %v\n%s", err, out)
	}
	if out, _ = s.do(0, "", "get", "router", "eu-r2"); strings.Count(out, "\n") != 2 {
		t.Errorf("one of them:\n%s", out)
	}
	if _, errs := s.do(exitFailed, "", "get", "router", "nobody"); !strings.Contains(errs, `router "nobody" is not known`) {
		t.Errorf("an unknown one: %s", errs)
	}
	if out, _ = s.do(0, "", "status"); !strings.Contains(out, "routers   3, 1 refused the last table, 1 not connected\n") {
		t.Errorf("status:\n%s", out)
	}
}

func TestAllPagesOfRoutersAreShown(t *testing.T) {
	s := begin(t)
	for i := range 620 { // more than a page
		s.joined(fmt.Sprintf("r%03d", i), "us", 1, true, nil)
	}
	var list struct{ Items []router }
	out, _ := s.do(0, "", "get", "routers", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Items) != 620 || list.Items[619].ID != "r619" {
		t.Errorf("%d routers, %v", len(list.Items), err)
	}
}

func TestRoutersThatAreBehindAreTold(t *testing.T) {
	if got := (&router{ID: "r", AppliedRevision: 3, Behind: true, Connected: true}).row(); got[4] != "3 (behind)" {
		t.Errorf("row %q", got)
	}
	if got := following([]router{{Connected: true, Behind: true}, {Connected: true}, {Behind: true}}); got != "3, 1 behind, 1 not connected" {
		t.Errorf("%q", got)
	}
}

func TestRoutersTellHowTheirQuotasAre(t *testing.T) {
	yes, no := true, false
	for want, r := range map[string]router{
		"-": {AgeMs: -1, QuotaStoreOK: &no}, "- ": {AgeMs: 5}, "ok": {QuotaStoreOK: &yes}, "store down": {QuotaStoreOK: &no}, "3 degraded": {QuotaStoreOK: &no, DegradedLimits: 3},
	} {
		if got := r.quotas(); got != strings.TrimSpace(want) {
			t.Errorf("%+v: %q, want %q", r, got, want)
		}
	}
	all := []router{{Connected: true, QuotaStoreOK: &no}, {Connected: true, QuotaStoreOK: &yes}, {Connected: true, AgeMs: -1, QuotaStoreOK: &no}, {Connected: true}}
	if got := following(all); got != "4, 1 without a quota store" {
		t.Errorf("%q", got)
	}
}
