package dev

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"anabranch/cmd/anabranch/dev/seed"
)

func demonstration(t *testing.T) []Unit {
	t.Helper()
	return units(FolderName, whole(t), seed.Loopback(), binaries{"bin/anabranch", "bin/anabranch-controlplane", "bin/anabranch-router", "redis-server"})
}

func TestCommandsAreAsWritten(t *testing.T) {
	var b strings.Builder
	for _, u := range demonstration(t) {
		fmt.Fprintf(&b, "%s\n  %s", u.ID(), u.Command.Path)
		for _, a := range u.Command.Args {
			if strings.HasPrefix(a, "--") {
				b.WriteString("\n   ")
			}
			if a == "" {
				a = `""`
			}
			b.WriteString(" " + a)
		}
		fmt.Fprintf(&b, "\n  at %s, ready %s, log %s\n", u.Address, u.Ready, u.Command.Log)
	}
	want, err := os.ReadFile(filepath.Join("testdata", "commands.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != b.String() {
		t.Errorf("commands are not as in testdata:\n%s", b.String())
	}
}

// Where orders are given is below the folder that the router is started with.
func TestOnlyRoutersTakeOrders(t *testing.T) {
	for _, u := range demonstration(t) {
		want := ""
		if at := slices.Index(u.Command.Args, "--data-dir"); u.Kind == KindRouter {
			want = filepath.Join(u.Command.Args[at+1], "router.sock")
		}
		if u.Orders != want {
			t.Errorf("%s takes orders at %q, want %q", u.ID(), u.Orders, want)
		}
	}
}

func TestNoTwoUnitsShareAPortAndNoSecretIsAnArgument(t *testing.T) {
	r := whole(t)
	by := map[string]string{}
	for _, u := range demonstration(t) {
		for _, p := range u.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s listens at %s, which is not loopback", u.ID(), p)
			}
			if other, ok := by[p]; ok {
				t.Errorf("%s and %s both want %s", u.ID(), other, p)
			}
			by[p] = u.ID()
		}
		line := strings.Join(append(u.Command.Args, u.Command.Env...), " ")
		for _, secret := range []string{r.Tokens.Admin, r.Tenants["acme"].Key} {
			if strings.Contains(line, secret) {
				t.Errorf("%s is given a secret where others can see it", u.ID())
			}
		}
	}
	for _, port := range []int{7100, 7101, 7102, 7110, 7111, 7112, 7120, 7121, 7122, 7379, 8101, 8102, 8103, 8201, 8202, 8203, 8301, 8302, 8303, 9101, 9201, 9301, 19101, 19204, 19304} {
		if by[fmt.Sprintf("127.0.0.1:%d", port)] == "" {
			t.Errorf("nobody listens at documented port %d", port)
		}
	}
}

func TestEnvironmentKeepsEverythingButOurOwnVariables(t *testing.T) {
	got := environment([]string{"PATH=/bin", "ANABRANCH_SERVER=x", "HOME=/root", "ANABRANCH_ROUTER_REDIS=y"})
	if want := []string{"PATH=/bin", "HOME=/root"}; !slices.Equal(got, want) {
		t.Errorf("environment %v, want %v", got, want)
	}
}

func TestMissingProgramsAreNamedWithTheWayOut(t *testing.T) {
	found := func(string) (string, error) { return "/usr/bin/redis-server", nil }
	missing := func(string) (string, error) { return "", errors.New("not on the path") }
	dir := t.TempDir()
	self := filepath.Join(dir, "anabranch")
	if _, err := siblings(self, found); err == nil || !strings.Contains(err.Error(), "anabranch-controlplane is missing; `make build`") {
		t.Errorf("no control plane: %v", err)
	}
	for _, name := range []string{"anabranch-controlplane", "anabranch-router"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := siblings(self, found); err == nil {
		t.Error("a file that is no program is taken")
	}
	for _, name := range []string{"anabranch-controlplane", "anabranch-router"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	_, err := siblings(self, missing)
	if err == nil || !strings.Contains(err.Error(), "make deps") || !strings.Contains(err.Error(), "apt-get install redis-server") {
		t.Errorf("no redis: %v", err)
	}
	b, err := siblings(self, found)
	if err != nil || b.router != filepath.Join(dir, "anabranch-router") || b.redis != "/usr/bin/redis-server" {
		t.Errorf("siblings = %+v, %v", b, err)
	}
}

func TestPageNamesWhatAUserNeeds(t *testing.T) {
	r := whole(t)
	got := page(Options{Folder: FolderName, Program: "bin/anabranch"}, r)
	for _, want := range []string{
		"http://127.0.0.1:7100 (`bin/anabranch console` prints a link", "http://127.0.0.1:8103 (ap-northeast-1)", "key-globex (globex, standard)",
		".anabranch/data/eu-west-1-r1/router.sock (eu-west-1)", "legal-lora", ".anabranch/dev.json", "curl -i http://127.0.0.1:8101/v1/chat/completions -H 'Authorization: Bearer key-acme'",
		"bin/anabranch dev load", "bin/anabranch dev break region us-east-1", "bin/anabranch dev heal region us-east-1",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("page lacks %q:\n%s", want, got)
		}
	}
	for _, secret := range []string{r.Tokens.Admin, r.Tokens.Operator, r.Tokens.Approver, r.Tokens.Viewer} {
		if strings.Contains(got, secret) {
			t.Error("page shows a token")
		}
	}
}
