package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"anabranch/api/identity"
	"anabranch/cmd/anabranch-router/instance"
	"anabranch/dataplane/discover"
)

// run parses a command line and returns the options that it comes to.
func run(t *testing.T, args ...string) (instance.Options, string, error) {
	t.Helper()
	var got instance.Options
	cmd := command(func(_ context.Context, o instance.Options) error {
		got = o
		return nil
	})
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return got, out.String(), err
}

var required = []string{"--router-id", "r1", "--region", "eu-west-1", "--data-dir", "/tmp/x"}

func TestDefaults(t *testing.T) {
	o, _, err := run(t, required...)
	if err != nil {
		t.Fatal(err)
	}
	if o.Listen != ":8100" || o.PeerListen != ":8300" || o.AdminListen != "127.0.0.1:8200" || o.DrainWithin != 15*time.Minute || o.DrainDelay != 0 {
		t.Errorf("options %+v", o)
	}
	if o.Router != "r1" || o.Region != "eu-west-1" || o.Logger == nil {
		t.Errorf("options %+v", o)
	}
}

func TestAFlagBeatsAVariableBeatsAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "router.yaml")
	text := "listen: :1\nadmin-listen: :1\npeer-listen: :1\ncontrolplane: [127.0.0.1:1, 127.0.0.1:2]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ANABRANCH_ROUTER_LISTEN", ":2")
	t.Setenv("ANABRANCH_ROUTER_ADMIN_LISTEN", ":2")
	t.Setenv("ANABRANCH_ROUTER_DRAIN_DELAY", "7s")
	o, _, err := run(t, append(required, "--config", file, "--listen", ":3")...)
	if err != nil {
		t.Fatal(err)
	}
	if o.DrainDelay != 7*time.Second {
		t.Errorf("a drain delay of %s", o.DrainDelay)
	}
	if o.Listen != ":3" || o.AdminListen != ":2" || o.PeerListen != ":1" || len(o.ControlPlane) != 2 {
		t.Errorf("options %+v", o)
	}
}

func TestMistakesNameTheFlagAndTheFix(t *testing.T) {
	file := filepath.Join(t.TempDir(), "router.yaml")
	if err := os.WriteFile(file, []byte("lisen: :1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		says []string
	}{
		"nothing given":   {[]string{}, []string{"--router-id", "--region", "--data-dir"}},
		"an unknown flag": {append(required, "--lisen", ":1"), []string{"--lisen"}},
		"an unknown key":  {append(required, "--config", file), []string{"lisen", "router.yaml"}},
		"no file":         {append(required, "--config", file+"x"), []string{"router.yamlx"}},
		"no port":         {append(required, "--listen", "8100"), []string{"--listen", "8100"}},
		"half of TLS":     {append(required, "--tls-cert", "x"), []string{"--tls-key", "--tls-ca"}},
		"half of front":   {append(required, "--listen-cert", "x"), []string{"--listen-key"}},
		"no TLS abroad":   {append(required, "--controlplane", "10.0.0.1:7110"), []string{"--controlplane", "--tls-cert"}},
		"a log level":     {append(required, "--log-level", "loud"), []string{"--log-level", "debug"}},
		"a log format":    {append(required, "--log-format", "xml"), []string{"--log-format", "json"}},
		"negative drain":  {append(required, "--drain", "-1s"), []string{"--drain"}},
		"negative delay":  {append(required, "--drain-delay", "-1s"), []string{"--drain-delay"}},
		"an argument":     {append(required, "extra"), []string{"extra"}},
		"a crooked name":  {[]string{"--router-id", "R 1", "--region", "eu", "--data-dir", "x"}, []string{"--router-id", "lower-case"}},
		"no such folder":  {append(required, "--discovery-dir", file), []string{"--discovery-dir", file}},
		"a plain door":    {append(required, "--rls-listen", ":8081"), []string{"--rls-listen", "--rls-cert"}},
		"redis":           {append(required, "--redis", "localhost"), []string{"--redis"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := run(t, c.args...)
			if err == nil {
				t.Fatal("taken")
			}
			for _, text := range c.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not name %s", err, text)
				}
			}
		})
	}
}

func TestTheDoorForEnvoyIsPassedOn(t *testing.T) {
	o, _, err := run(t, required...)
	if err != nil || o.RLSListen != "" || !o.RLS.Empty() || !slices.Equal(o.RLSDomains, []string{"anabranch"}) {
		t.Errorf("without flags: %q, %+v, %v, %v", o.RLSListen, o.RLS, o.RLSDomains, err)
	}
	t.Setenv("ANABRANCH_ROUTER_RLS_DOMAIN", "edge,mesh")
	o, _, err = run(t, append(required, "--rls-listen", ":8081", "--rls-cert", "c", "--rls-key", "k", "--rls-ca", "a")...)
	if err != nil || o.RLSListen != ":8081" || o.RLS != (identity.Files{Cert: "c", Key: "k", CA: "a"}) || !slices.Equal(o.RLSDomains, []string{"edge", "mesh"}) {
		t.Errorf("with flags: %q, %+v, %v, %v", o.RLSListen, o.RLS, o.RLSDomains, err)
	}
}

func TestWhereEndpointsAreDiscoveredIsPassedOn(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("ANABRANCH_ROUTER_DISCOVERY_DIR", dir)
	o, _, err := run(t, required...)
	if err != nil || o.DiscoveryDir != dir {
		t.Errorf("options %+v, %v", o, err)
	}
	was := kubernetes
	defer func() { kubernetes = was }()

	kubernetes = nil
	if _, _, err := run(t, append(required, "--kubeconfig", "x")...); err == nil || !strings.Contains(err.Error(), "-tags kubernetes") {
		t.Errorf("a lean binary takes --kubeconfig: %v", err)
	}
	finder := struct{ discover.Finder }{}
	kubernetes = func(kubeconfig string, logger *slog.Logger) (map[string]discover.Finder, error) {
		if kubeconfig != "x" || logger == nil {
			t.Errorf("asked with %q, %v", kubeconfig, logger)
		}
		return map[string]discover.Finder{"hand": finder}, nil
	}
	if o, _, err = run(t, append(required, "--kubeconfig", "x")...); err != nil || o.Finders["hand"] != finder {
		t.Errorf("options %+v, %v", o, err)
	}
	kubernetes = func(string, *slog.Logger) (map[string]discover.Finder, error) {
		return nil, errors.New("no such context")
	}
	if _, _, err := run(t, append(required, "--kubeconfig", "x")...); err == nil || !strings.Contains(err.Error(), "no such context") {
		t.Errorf("error %v", err)
	}
}

func TestHelpAndVersion(t *testing.T) {
	_, out, err := run(t, "--help")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"--controlplane", "ANABRANCH_ROUTER_DATA_DIR", "SIGTERM", ":8100"} {
		if !strings.Contains(out, text) {
			t.Errorf("--help has no %s", text)
		}
	}
	if _, out, err := run(t, "--version"); err != nil || !strings.Contains(out, version) {
		t.Errorf("%q, %v", out, err)
	}
}
