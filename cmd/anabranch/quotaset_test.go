package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/audit"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// newest has the node use all that its program can.
func (s session) newest() session {
	s.t.Helper()
	out := s.node.Apply(&statepb.Command{
		Format: state.Format, AtUnixMs: time.Now().UnixMilli(), Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: state.Format}},
	})
	if out.GetCode() != "" {
		s.t.Fatal(out)
	}
	return s
}

// quotaSpec is a Quota as it was written.
func (s session) quotaSpec(name string) string {
	s.t.Helper()
	out, _ := s.do(0, "", "get", "quota", name, "-o", "json")
	var r struct{ Spec json.RawMessage }
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		s.t.Fatal(err)
	}
	var spec policy.QuotaSpec
	if err := json.Unmarshal(r.Spec, &spec); err != nil {
		s.t.Fatal(err)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func TestQuotaSetCreatesAndChanges(t *testing.T) {
	s := begin(t).newest()
	s.do(0, eu+"---\n"+acme, "apply", "-f", "-")
	for _, step := range []struct {
		args string
		says string
		spec string
	}{
		{
			"set q --tenant acme --total-tokens 1M:2M --requests 600 --concurrent 20", "quotas/q created\n",
			`{"tenant":"acme","limits":[{"kind":"requests","perMinute":600},{"kind":"total-tokens","perMinute":1000000,"burst":2000000},{"kind":"concurrent-requests","max":20}]}`,
		},
		{"set q --requests 600", "quotas/q unchanged\n", ""},
		{
			"set q --requests 900 --dry-run", "quotas/q configured (dry run)\n  spec.limits[0].perMinute: 600 → 900\n", "",
		},
		{
			"set q --requests 900 --reason more", "quotas/q configured\n",
			`{"tenant":"acme","limits":[{"kind":"requests","perMinute":900},{"kind":"total-tokens","perMinute":1000000,"burst":2000000},{"kind":"concurrent-requests","max":20}]}`,
		},
		{
			"set q --remove concurrent-requests,requests --total-tokens 2M --burst 4M --shadow --degraded open --overrun cut", "quotas/q configured\n",
			`{"tenant":"acme","limits":[{"kind":"total-tokens","perMinute":2000000,"burst":4000000}],"degraded":"open","shadow":true,"overrun":"cut"}`,
		},
		{
			"set q --shadow=false --degraded share --overrun finish", "quotas/q configured\n",
			`{"tenant":"acme","limits":[{"kind":"total-tokens","perMinute":2000000,"burst":4000000}],"degraded":"share","overrun":"finish"}`,
		},
		{
			"set spend --organization acme --usd-per-day 50 --usd-per-month 900.5 --time-zone Europe/Berlin --warn-at 50,95", "quotas/spend created\n",
			`{"organization":"acme","limits":[{"kind":"money-per-day","usd":50,"timeZone":"Europe/Berlin","warnAt":[50,95]},{"kind":"money-per-month","usd":900.5,"timeZone":"Europe/Berlin","warnAt":[50,95]}]}`,
		},
		{
			"set spend --usd-per-day 60", "quotas/spend configured\n",
			`{"organization":"acme","limits":[{"kind":"money-per-day","usd":60,"timeZone":"Europe/Berlin","warnAt":[50,95]},{"kind":"money-per-month","usd":900.5,"timeZone":"Europe/Berlin","warnAt":[50,95]}]}`,
		},
	} {
		args := strings.Fields(step.args)
		name := args[1]
		before := ""
		if step.spec == "" {
			before = s.quotaSpec(name)
		}
		out, _ := s.do(0, "", append([]string{"quota"}, args...)...)
		if !strings.HasPrefix(out, step.says) {
			t.Errorf("%s says %q, want %q", step.args, out, step.says)
		}
		want := step.spec
		if want == "" {
			want = before
		}
		if got := s.quotaSpec(name); got != want {
			t.Errorf("%s makes\n%s, want\n%s", step.args, got, want)
		}
	}
	// Labels stay.
	s.do(0, strings.Replace(quota, "name: acme}", "name: labelled, labels: {team: a}}", 1), "apply", "-f", "-")
	s.do(0, "", "quota", "set", "labelled", "--requests", "70")
	if out, _ := s.do(0, "", "get", "quota", "labelled", "-o", "yaml"); !strings.Contains(out, "team: a\n") {
		t.Errorf("labels are gone:\n%s", out)
	}
}

func TestQuotaSetTellsWhatIsWrong(t *testing.T) {
	s := begin(t).newest()
	s.do(0, eu+"---\n"+acme, "apply", "-f", "-")
	s.do(0, "", "quota", "set", "q", "--tenant", "acme", "--requests", "600")
	before := s.quotaSpec("q")
	for args, want := range map[string]struct {
		code int
		says string
	}{
		"set":                                                {exitUsage, "accepts 1 arg"},
		"set new --requests 600":                             {exitUsage, "say whose requests count with --tenant or --organization"},
		"set new --tenant acme":                              {exitUsage, "would have no limit: give one, such as --total-tokens 1M"},
		"set q --requests many":                              {exitUsage, `--requests: "many" is no amount`},
		"set q --requests 99999999999999999":                 {exitUsage, "is too large"},
		"set q --requests 600:0":                             {exitUsage, `--requests: "0" is no amount`},
		"set q --requests 1e3":                               {exitUsage, "such as 600, 1.5k, 2M or 1G"},
		"set q --concurrent -1":                              {exitUsage, "--concurrent: "},
		"set q --burst 100":                                  {exitUsage, "--burst: there is no rate beside it"},
		"set q --burst x --requests 7":                       {exitUsage, "--burst: "},
		"set q --requests 6:7 --burst 9":                     {exitUsage, "requests has a burst already"},
		"set q --input-tokens 1 --output-tokens 2 --burst 9": {exitUsage, "there are several rates of tokens"},
		"set q --time-zone Europe/Berlin":                    {exitUsage, "there is none: give --usd-per-day"},
		"set q --remove total-tokens":                        {exitUsage, `there is no limit of "total-tokens"; there are requests`},
		"set q --remove requests":                            {exitUsage, "anabranch delete quota q"},
		"set q --remove requests --requests 7":               {exitUsage, "--remove: requests is given by another flag"},
		"set q --degraded maybe":                             {exitFailed, "spec.degraded (--degraded)"},
		"set q --overrun maybe":                              {exitFailed, "spec.overrun (--overrun)"},
		"set q --organization works":                         {exitFailed, "spec.organization"},
		"set q --usd-per-day 5 --time-zone Mars/Base":        {exitFailed, "timeZone"},
		"set new --tenant nobody --requests 6":               {exitRefused, "nobody"},
		"set q --requests 7 --break-glass=":                  {exitFailed, "--break-glass needs a reason"},
	} {
		if _, errs := s.do(want.code, "", append([]string{"quota"}, strings.Fields(args)...)...); !strings.Contains(errs, want.says) {
			t.Errorf("%s: %q, want %q", args, errs, want.says)
		}
	}
	if got := s.quotaSpec("q"); got != before {
		t.Errorf("something has changed: %s", got)
	}
}

// The trail tells who changed which limit from what to what, and why.
func TestTheTrailTellsOfChangedLimits(t *testing.T) {
	s := begin(t).newest()
	s.do(0, eu+"---\n"+acme, "apply", "-f", "-")
	s.do(0, "", "quota", "set", "q", "--tenant", "acme", "--requests", "600", "--concurrent", "20")
	s.do(0, "", "quota", "set", "q", "--requests", "900", "--shadow", "--reason", "contract renewed", "--token", "operator-token")
	s.do(exitRefused, "", "quota", "set", "q", "--requests", "7", "--token", "viewer-token")
	var list struct{ Items []audit.Entry }
	out, _ := s.do(0, "", "audit", "list", "--kind", "quota", "--name", "q", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Items) != 3 {
		t.Fatalf("%v: %s", err, out)
	}
	if denied := list.Items[0]; denied.Action != "denied" || denied.Actor != "viewer" {
		t.Errorf("who may not: %+v", denied)
	}
	e := list.Items[1]
	if e.Actor != "operator" || e.Reason != "contract renewed" || e.Action != "update" || len(e.Changes) != 2 {
		t.Fatalf("got %+v", e)
	}
	for i, want := range []audit.Change{{Field: "spec.limits[0].perMinute", From: "600", To: "900"}, {Field: "spec.shadow", From: "", To: "true"}} {
		if e.Changes[i] != want {
			t.Errorf("change %d is %+v, want %+v", i, e.Changes[i], want)
		}
	}
	out, _ = s.do(0, "", "history", "quota", "q", "--diff")
	if !strings.Contains(out, "spec.limits[0].perMinute") || !strings.Contains(out, "operator") {
		t.Errorf("history:\n%s", out)
	}
}

// What somebody else has changed meanwhile is not lost.
func TestQuotaSetKeepsWhatOthersChangedMeanwhile(t *testing.T) {
	s := begin(t).newest()
	s.do(0, eu+"---\n"+acme+"---\n"+quota, "apply", "-f", "-")
	meddled := false
	s.node.Before(func(cmd *statepb.Command) {
		if cmd.GetPut() == nil || meddled {
			return
		}
		meddled = true
		s.node.Apply(&statepb.Command{Format: 1, Op: &statepb.Command_Put{Put: &statepb.Put{
			Kind: "Quota", Name: "acme", Doc: []byte(`{"spec":{"tenant":"acme","limits":[{"kind":"requests","perMinute":7}]}}`), AnyRevision: true,
		}}})
	})
	if _, errs := s.do(exitRefused, "", "quota", "set", "acme", "--requests", "900"); !strings.Contains(errs, "412") {
		t.Errorf("errors: %s", errs)
	}
	if got := s.quotaSpec("acme"); !strings.Contains(got, `"perMinute":7`) {
		t.Errorf("it has become %s", got)
	}
}

func TestQuotaSetWaitsForApprovalWhereItIsNeeded(t *testing.T) {
	s := begin(t).newest()
	s.do(0, eu+"---\n"+acme+"---\n"+quota+`---
apiVersion: anabranch/v1
kind: SafetyRule
metadata: {name: two-people}
spec: {approval: {kinds: [Quota]}}
`, "apply", "-f", "-")
	out, _ := s.do(0, "", "quota", "set", "acme", "--requests", "900", "--token", "operator-token")
	if !strings.Contains(out, "quotas/acme proposed as ") {
		t.Errorf("says %q", out)
	}
	if got := s.quotaSpec("acme"); !strings.Contains(got, `"perMinute":60`) {
		t.Errorf("it has become %s", got)
	}
	if out, _ = s.do(0, "", "quota", "set", "acme", "--requests", "900", "--break-glass", "they pay"); !strings.HasPrefix(out, "quotas/acme configured\n") {
		t.Errorf("with the glass broken: %q", out)
	}
}

func TestProblemsNameTheFlagBesideTheField(t *testing.T) {
	in := []policy.Problem{{Field: "spec.tenant", Reason: "r"}, {Field: "spec.limits[0].perMinute", Reason: "r"}}
	out := byFlag(in)
	if out[0].Field != "spec.tenant (--tenant)" || out[1].Field != in[1].Field || in[0].Field != "spec.tenant" {
		t.Errorf("%+v of %+v", out, in)
	}
	if text := client.Fields(out); !strings.Contains(text, "--tenant") {
		t.Errorf("shown as %s", text)
	}
}
