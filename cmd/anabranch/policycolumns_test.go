package main

import (
	"encoding/json"
	"strings"
	"testing"

	"anabranch/controlplane/policy"
)

func TestColumnsTellWhatHolds(t *testing.T) {
	for doc, want := range map[string]string{
		"TrafficPolicy plain {}": "interactive; 0; -; -; -; -; 2000; latency first; allowed",
		"TrafficPolicy canary {models: [m], priority: 5, match: [{tenants: [acme, globex], headers: [{name: x-team, value: search}]}, {paths: [/v1/emb*]}], split: [{name: stable, weight: 95}, {name: new, weight: 5, model: n}]}": "canary; 5; m; acme|globex+x-team=search or /v1/emb*; split stable=95:new=5; -; 2000; latency first; allowed",
		"TrafficPolicy tame {class: slow, spill: never, clusters: [a, b], residency: [eu], rewrite: {model: n}, shadow: {percent: 2.5, model: o}, hedge: {}, rescue: true, pickMode: prefix-hash}":                                  "slow; 0; -; -; ask for n, pin to a|b, keep in eu, copy 2.5%, pick by prefix-hash, hedge, rescue; -; 2000; latency first; never",
		"TrafficPolicy off {match: [{headers: [{name: a, type: present}, {name: b, value: x, type: prefix}]}], hedge: {enabled: false}, regions: [{region: us, weight: 0}, {region: eu, maxShare: 0.25}]}":                          "off; 0; -; a+b=x*; -; us=0,eu≤25%; 2000; latency first; allowed",

		"Cluster c {region: us, models: [m], discovery: {kind: dns, name: pool}}":                                                                           "us; endpoints; m; dns pool; -; no",
		"Cluster c {region: us, models: [m], endpoints: [{id: a, url: 'http://a', class: x}], discovery: {kind: inferencepool, namespace: ml, name: pool}}": "us; endpoints; m; 1 + inferencepool ml/pool; -; no",
		"Cluster c {region: us, models: [m], type: router}":                                                                                                 "us; router; m; the region's routers; -; no",
		"Cluster c {region: us, models: [m], type: provider, url: 'https://api', drained: true}":                                                            "us; provider; m; https://api; -; yes",
	} {
		kind, rest, _ := strings.Cut(doc, " ")
		name, spec, _ := strings.Cut(rest, " ")
		rs, problems := policy.ParseAll([]byte("{apiVersion: anabranch/v1, kind: " + kind + ", metadata: {name: " + name + "}, spec: " + spec + "}"))
		if len(problems) > 0 {
			t.Fatalf("%s: %v", doc, problems)
		}
		raw, err := json.Marshal(rs[0].Spec)
		if err != nil {
			t.Fatal(err)
		}
		got, err := columnsOf(rs[0].Kind, name, raw)
		if text := strings.Join(got, "; "); err != nil || text != want || len(got) != len(headers[rs[0].Kind]) {
			t.Errorf("%s\ngot  %s, %v\nwant %s", doc, text, err, want)
		}
	}
}
