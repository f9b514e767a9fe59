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
