package access

import (
	"strings"
	"testing"

	"anabranch/controlplane/policy"
)

func TestNoScopeSendsACredentialSomewhereElse(t *testing.T) {
	cluster := func(more string) *policy.Resource {
		if more == "" {
			return nil
		}
		return document(t, "Cluster c {region: eu, models: [a], "+more+"}")
	}
	const (
		pods = `endpoints: [{id: p, url: 'https://p'}, {id: q, url: 'https://q'}]`
		auth = `, auth: {type: bearer, file: token}`
	)
	for name, c := range map[string]struct {
		old, next string
		out       bool
	}{
		"a cluster without":             {"", pods, false},
		"a new one with":                {"", pods + auth, true},
		"one is added":                  {pods, pods + auth, true},
		"one is taken away":             {pods + auth, pods, false},
		"it is deleted":                 {pods + auth, "", false},
		"a drain":                       {pods + auth, pods + auth + ", drained: true", false},
		"another file":                  {pods + auth, pods + strings.Replace(auth, "token", "other", 1), true},
		"another type":                  {pods + auth, pods + `, auth: {type: mtls, certFile: token, keyFile: token}`, true},
		"a place more":                  {pods + auth, strings.Replace(pods, "]", ", {id: r, url: 'https://r'}]", 1) + auth, true},
		"a place less":                  {pods + auth, `endpoints: [{id: q, url: 'https://q'}]` + auth, false},
		"another place":                 {pods + auth, strings.Replace(pods, "//p", "//x", 1) + auth, true},
		"another place for events":      {pods + auth, strings.Replace(pods, "'https://p'", "'https://p', kvEventsURL: 'tcp://x:1'", 1) + auth, true},
		"a gateway":                     {"gatewayURL: 'https://g'" + auth, "gatewayURL: 'https://x'" + auth, true},
		"a gateway's metrics":           {"gatewayURL: 'https://g'" + auth, "gatewayURL: 'https://g', metricsURL: 'https://x'" + auth, true},
		"what is found":                 {"discovery: {kind: dns, name: pods.example}" + auth, "discovery: {kind: dns, name: evil.example}" + auth, true},
		"what is found, and drained":    {"discovery: {kind: dns, name: pods.example}" + auth, "discovery: {kind: dns, name: pods.example}, drained: true" + auth, false},
		"the same place in other words": {pods + auth, `endpoints: [{id: q, url: 'https://q'}, {id: other, url: 'https://p'}]` + auth, false},
	} {
		t.Run(name, func(t *testing.T) {
			problems := scope("regions eu").Within(cluster(c.old), cluster(c.next))
			if got := len(problems) == 1 && problems[0].Field == "spec.auth" && problems[0].Fix != ""; got != c.out || len(problems) > 1 {
				t.Errorf("%+v", problems)
			}
			if p := (Scope{}).Within(cluster(c.old), cluster(c.next)); p != nil {
				t.Errorf("a scope of everything: %+v", p)
			}
		})
	}
}
