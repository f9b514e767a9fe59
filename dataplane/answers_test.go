package dataplane

import (
	"io"
	"net/http"
	"testing"
)

func TestAMistakeThatThePlaceFindsSaysWhoFoundIt(t *testing.T) {
	mistaken := func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(rw, `{"error":{"code":400,"message":"List should have at least 1 item","param":"messages","type":"BadRequestError"}}`)
	}
	const ask = `{"model":"llama","messages":[]}`
	for origin, gateway := range map[string]bool{"endpoint": false, "cluster": true} {
		w := newWorld(t, []site{
			{id: "us-a", region: us, weight: 0, endpoints: []*stub{newStub(t, answers)}},
			{id: "eu-a", region: eu, weight: 1, gateway: gateway, endpoints: []*stub{newStub(t, mistaken)}},
		}, nil)
		for _, region := range []string{eu, us} { // the second by way of a peer
			r := w.ask(region, "acme", ask)
			if e := r.problem(t); r.status != 400 || e["origin"] != origin || e["code"] != "400" || e["param"] != "messages" {
				t.Errorf("%s of %s: %d %v", region, origin, r.status, e)
			}
		}
		w.idle()
	}
}

// The only legal cluster dies: from the first answer on clients are told when to come back, here and
// by way of a peer.
func TestWhereTheOnlyClusterIsDeadClientsAreToldToComeBack(t *testing.T) {
	w, here, there := two(t, nil)
	for _, s := range []*stub{here, there} {
		s.Close()
	}
	for _, region := range []string{eu, us} {
		r := w.ask(region, "acme", askWhole)
		e := r.problem(t)
		if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") != "1" || e["code"] != "connect_failed" {
			t.Errorf("%s: %d %v, Retry-After %q", region, r.status, e, r.header.Get("Retry-After"))
		}
	}
	w.idle()
}

func TestAPlaceThatSaysWhenItHasRoomIsQuoted(t *testing.T) {
	w, first, second := pair(t, nil)
	full := func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Retry-After", "7")
		http.Error(rw, "no", http.StatusServiceUnavailable)
	}
	first.does(full)
	second.does(full)
	if r := w.ask(us, "acme", askWhole); r.status != 503 || r.problem(t)["code"] != "upstream_error" || r.header.Get("Retry-After") != "7" {
		t.Errorf("%d %q, Retry-After %q", r.status, r.body, r.header.Get("Retry-After"))
	}
}

// Waiting does not bring back what an operator has drained.
func TestWhereAllIsDrainedNobodyIsToldToWait(t *testing.T) {
	s := newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, drained: true, endpoints: []*stub{s}},
		{id: "eu-a", region: eu, weight: 1, drained: true, endpoints: []*stub{s}},
	}, nil)
	r := w.ask(us, "acme", askWhole)
	if e := r.problem(t); r.status != 503 || e["code"] != "no_legal_target" || e["origin"] != "router" {
		t.Errorf("%d %v", r.status, e)
	}
	if after, told := r.header["Retry-After"]; told {
		t.Errorf("Retry-After %v", after)
	}
	if rec := w.record(us, r); len(rec.Removed) != 2 || rec.Removed[0].Reason != "drained" {
		t.Errorf("removed %+v", rec.Removed)
	}
}
