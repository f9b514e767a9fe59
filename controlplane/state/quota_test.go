package state

import (
	"testing"

	"anabranch/controlplane/state/statepb"
)

func document(kind, name, spec string) *statepb.Command {
	return command(&statepb.Put{Kind: kind, Name: name, Doc: []byte(`{"spec":` + spec + `}`), AnyRevision: true})
}

// While a replica may be of a build that does not look at quotas, none does.
func TestQuotasAreJudgedOnceAllReplicasDo(t *testing.T) {
	h := start(t)
	for _, cmd := range []*statepb.Command{
		document("Region", "us", `{}`), document("Model", "llama", `{"adapters":["legal"]}`), document("Tenant", "acme", `{}`),
	} {
		if out := h.do(cmd); out.GetCode() != "" {
			t.Fatal(out)
		}
	}
	adapter := document("Quota", "q", `{"tenant":"acme","model":"legal","limits":[{"kind":"requests","perMinute":1}]}`)
	if out := h.do(adapter); out.GetCode() != "" {
		t.Fatalf("at level 1: %v", out)
	}
	h.do(command(&statepb.Delete{Kind: "Quota", Name: "q"}))
	h.do(raise(4))
	if out := h.do(adapter); out.GetCode() != CodeInvalid || out.GetField() != "spec.model" {
		t.Errorf("at level 4: %v", out)
	}
	for _, tt := range []struct {
		cmd   *statepb.Command
		field string
	}{
		{document("Quota", "q", `{"organization":"group","limits":[{"kind":"money-per-day","usd":1}]}`), "spec.organization"},
		{document("Tenant", "acme", `{"organization":"group"}`), ""},
		{document("Quota", "q", `{"organization":"group","homeRegion":"us","limits":[{"kind":"money-per-day","usd":1}]}`), "spec.homeRegion"},
		{document("Region", "us", `{"quotaStore":{"addresses":["redis.us:6379"]}}`), ""},
		{document("Quota", "q", `{"organization":"group","homeRegion":"us","limits":[{"kind":"money-per-day","usd":1}]}`), ""},
		{document("Region", "us", `{}`), "spec.quotaStore"},
		{document("Tenant", "acme", `{}`), "spec.organization"},
		{command(&statepb.Delete{Kind: "Region", Name: "us"}), "metadata.name"},
		{command(&statepb.Delete{Kind: "Tenant", Name: "acme"}), "metadata.name"},
	} {
		out := h.do(tt.cmd)
		if out.GetField() != tt.field || (out.GetCode() == "") != (tt.field == "") {
			t.Errorf("%v: %v, want %q", tt.cmd, out, tt.field)
		}
	}
}

func TestWhatLeasesNeedIsFormat4(t *testing.T) {
	for cmd, want := range map[*statepb.Command]uint32{
		document("Tenant", "a", `{"tier":"top"}`):                                                           1,
		document("Tenant", "a", `{"organization":"o"}`):                                                     4,
		document("Region", "us", `{"quotaStore":{"addresses":["a:1"]}}`):                                    4,
		document("Quota", "q", `{"tenant":"a","limits":[{"kind":"requests","perMinute":1}]}`):               1,
		document("Quota", "q", `{"tenant":"a","shadow":true,"limits":[{"kind":"requests","perMinute":1}]}`): 4,
		document("Quota", "q", `{"tenant":"a","limits":[{"kind":"money-per-month","usd":1}]}`):              4,
		command(&statepb.Delete{Kind: "Quota", Name: "q"}):                                                  1,
	} {
		if got := FormatOf(cmd); got != want {
			t.Errorf("%v needs %d, want %d", cmd, got, want)
		}
	}
}
