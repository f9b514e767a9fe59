package dev

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"anabranch/cmd/anabranch/dev/seed"
)

// whole is the record of the demonstration with secrets and ports that do not change.
func whole(t *testing.T) *Record {
	t.Helper()
	r := &Record{Tokens: TokensRecord{"token-admin", "token-operator", "token-approver", "token-viewer"}}
	r.Tenants = map[string]TenantRecord{"acme": {Key: "key-acme"}, "globex": {Key: "key-globex"}, "initech": {Key: "key-initech"}}
	r.lay(seed.Loopback())
	r.fillSecrets()
	if err := r.chooseAdmins(func(string) bool { return true }); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRecordHasItsDocumentedShape(t *testing.T) {
	got, err := json.MarshalIndent(whole(t).withPIDs(func(kind Kind, name string) int { return len(string(kind)) + len(name) }), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join("testdata", "dev.json"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(want)) != string(got) {
		t.Errorf("dev.json is not as in testdata:\n%s", got)
	}
}

func TestSecretsSurviveARestart(t *testing.T) {
	f := newFolder(t)
	first, err := f.loadOrNew(seed.Loopback())
	if err != nil {
		t.Fatal(err)
	}
	second, err := f.loadOrNew(seed.Loopback())
	if err != nil {
		t.Fatal(err)
	}
	if first.Tokens != second.Tokens || first.Tenants["acme"] != second.Tenants["acme"] {
		t.Error("tokens or keys have changed")
	}
	tokens := []string{first.Tokens.Admin, first.Tokens.Operator, first.Tokens.Approver, first.Tokens.Viewer}
	for tenant, tier := range seed.Tiers {
		if first.Tenants[tenant].Tier != tier {
			t.Errorf("%s has tier %q, want %q", tenant, first.Tenants[tenant].Tier, tier)
		}
		tokens = append(tokens, first.Tenants[tenant].Key)
	}
	seen := map[string]bool{}
	for _, s := range tokens {
		if s == "" || seen[s] {
			t.Errorf("secret %q is empty or used twice", s)
		}
		seen[s] = true
	}
}

func TestAFolderWhoseSecretsAreLostIsRefused(t *testing.T) {
	f := newFolder(t)
	if err := os.Mkdir(f.data("n1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := f.loadOrNew(seed.Loopback()); err == nil || !strings.Contains(err.Error(), "tokens are lost; remove the folder") {
		t.Errorf("data without dev.json: %v", err)
	}
	if err := os.WriteFile(f.RecordPath(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.loadOrNew(seed.Loopback()); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("damaged dev.json: %v", err)
	}
}

func TestAdminPortsAreFreeAndKept(t *testing.T) {
	r := &Record{Clusters: []ClusterRecord{{ID: "a"}, {ID: "b", Admin: "http://127.0.0.1:9403"}, {ID: "c"}, {ID: "d", Admin: "http://127.0.0.1:9500"}}}
	taken := map[string]bool{"127.0.0.1:9401": true, "127.0.0.1:9500": true}
	if err := r.chooseAdmins(func(addr string) bool { return !taken[addr] }); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"9402", "9403", "9404", "9405"} {
		if got := r.Clusters[i].Admin; got != "http://127.0.0.1:"+want {
			t.Errorf("cluster %s: %s, want port %s", r.Clusters[i].ID, got, want)
		}
	}
	none := &Record{Clusters: []ClusterRecord{{ID: "a"}}}
	if err := none.chooseAdmins(func(string) bool { return false }); err == nil || !strings.Contains(err.Error(), "cluster a") {
		t.Errorf("no free port: %v", err)
	}
}

func TestRouterIsFoundByRegion(t *testing.T) {
	r := whole(t)
	if router, ok := r.Router("eu-west-1"); !ok || router.HTTP != "http://127.0.0.1:8102" {
		t.Errorf("%+v, %v", router, ok)
	}
	if _, ok := r.Router("mars"); ok {
		t.Error("mars has a router")
	}
}
