package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

type parsed struct {
	listen string
	peers  []string
	wait   time.Duration
}

func fill(t *testing.T, args []string, file string) (p parsed, err error) {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.StringVar(&p.listen, "listen", ":8100", "")
	flags.StringSliceVar(&p.peers, "peers", nil, "")
	flags.DurationVar(&p.wait, "drain-wait", time.Minute, "")
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	path := ""
	if file != "" {
		path = filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p, Fill(flags, "ANABRANCH_TEST_", path)
}

func TestAFlagBeatsTheEnvironmentBeatsTheFile(t *testing.T) {
	file := "listen: file:1\ndrain-wait: 3s\npeers: [a, b]\n"
	t.Setenv("ANABRANCH_TEST_LISTEN", "env:1")

	for _, c := range []struct {
		name, file, want string
		args             []string
	}{
		{name: "default", want: "env:1"},
		{name: "file under environment", file: file, want: "env:1"},
		{name: "flag on top", file: file, args: []string{"--listen", "flag:1"}, want: "flag:1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := fill(t, c.args, c.file)
			if err != nil {
				t.Fatal(err)
			}
			if p.listen != c.want {
				t.Errorf("listen = %q, want %q", p.listen, c.want)
			}
			if c.file != "" && (p.wait != 3*time.Second || len(p.peers) != 2 || p.peers[1] != "b") {
				t.Errorf("from the file: wait %v, peers %v", p.wait, p.peers)
			}
		})
	}
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	t.Setenv("ANABRANCH_TEST_DRAIN_WAIT", "soon")
	_, err := fill(t, nil, "lisen: x\n")
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`unknown key "lisen"`, "ANABRANCH_TEST_DRAIN_WAIT", "--drain-wait"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not name %q:\n%v", want, err)
		}
	}
	if _, err := fill(t, nil, "listen: a\nlisten: b\n"); err == nil {
		t.Error("a key that stands twice was taken")
	}
	if err := Fill(pflag.NewFlagSet("", pflag.ContinueOnError), "X_", filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing file was taken")
	}
}

func TestVariable(t *testing.T) {
	if got := Variable("ANABRANCH_", "tls-cert"); got != "ANABRANCH_TLS_CERT" {
		t.Error(got)
	}
}
