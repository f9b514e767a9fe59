package credential

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestErrorsNameThePlaceAndNoContent(t *testing.T) {
	w := newWorld(t, false)
	const secret = "hunter2"
	missing := filepath.Join(w.dir, "missing")
	bearer := func(path string) Spec { return Spec{Type: Bearer, File: path} }
	sigv4 := func(path string) Spec { return Spec{Type: SigV4, File: path} }
	big := w.write("big", strings.Repeat(secret, maxFile/len(secret)+1))
	lines := w.write("lines", secret+"\n"+secret)
	control := w.write("control", secret+"\x01"+secret)
	for name, c := range map[string]struct {
		spec Spec
		says string
	}{
		"missing":           {bearer(missing), missing},
		"empty":             {bearer(w.write("empty", " \n")), "does not hold one line"},
		"two lines":         {bearer(lines), lines},
		"a control":         {bearer(control), control},
		"large":             {bearer(big), big},
		"a folder":          {bearer(w.dir), "not a regular file"},
		"unnamed":           {bearer(""), "no file is named for the token"},
		"unknown type":      {Spec{Type: "basic", File: lines}, `type "basic"`},
		"no section":        {sigv4(lines), "default"},
		"no key id":         {sigv4(w.write("a", "[default]\naws_secret_access_key="+secret)), "aws_access_key_id"},
		"no secret":         {sigv4(w.write("b", "[default]\naws_access_key_id="+secret)), "aws_secret_access_key"},
		"a control in a":    {sigv4(w.write("c", "[default]\naws_access_key_id=a\naws_secret_access_key="+secret+"\x01")), "control"},
		"no setting":        {sigv4(w.write("d", "[default]\n"+secret)), "line 2"},
		"an open section":   {sigv4(w.write("e", "["+secret)), "line 1"},
		"no certificate":    {Spec{Type: MTLS, CertFile: missing, KeyFile: lines}, missing},
		"no key":            {Spec{Type: MTLS, CertFile: lines, KeyFile: missing}, missing},
		"not a certificate": {Spec{Type: MTLS, CertFile: lines, KeyFile: control}, lines},
		"key not named":     {Spec{Type: MTLS, CertFile: lines}, "no file is named for the key"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.For("eu-a", &c.spec)
			if err == nil || !strings.Contains(err.Error(), "cluster eu-a") || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v does not say %s", err, c.says)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("error %v holds the secret", err)
			}
		})
	}
	if strings.Contains(w.logs.String(), secret) {
		t.Errorf("the log holds the secret:\n%s", w.logs.String())
	}
}

func TestFilesMustLieBelowTheFolder(t *testing.T) {
	w := newWorld(t, true)
	outside := newWorld(t, false)
	theirs := outside.write("token", "theirs")
	inside := w.write("token", "ours")
	if err := os.Symlink(theirs, filepath.Join(w.dir, "out")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("token", filepath.Join(w.dir, "in")); err != nil {
		t.Fatal(err)
	}
	bearer := func(path string) *place {
		return cluster(Spec{Type: Bearer, File: path})
	}
	for _, path := range []string{inside, "token", "./token", filepath.Join(w.dir, "in")} {
		w.expect(bearer(path), "Bearer ours")
	}
	for _, path := range []string{
		theirs, "../" + filepath.Base(outside.dir) + "/token", filepath.Join(w.dir, "out"), "out",
		filepath.Join(w.dir, "..", filepath.Base(outside.dir), "token"), w.dir + "2/token",
	} {
		if got, err := w.authorization(bearer(path)); err == nil {
			t.Errorf("%s was read: %q", path, got)
		} else if !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("error %v does not name %s", err, path)
		}
	}
	gone := New(Options{Dir: filepath.Join(w.dir, "none")})
	if _, err := gone.For("eu-a", bearer("token").Auth); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func TestASecretThatOthersCanReadIsToldOnce(t *testing.T) {
	w := newWorld(t, false)
	path := w.write("token", "one")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	c := cluster(Spec{Type: Bearer, File: path})
	for _, token := range []string{"one", "two", "three"} {
		w.write("token", token)
		w.expect(c, "Bearer "+token)
		w.pass(lookEvery)
	}
	if n := strings.Count(w.logs.String(), "can be read by others"); n != 1 || !strings.Contains(w.logs.String(), path) {
		t.Errorf("told %d times:\n%s", n, w.logs.String())
	}
	own := cluster(Spec{Type: Bearer, File: w.write("own", "x")})
	w.expect(own, "Bearer x")
	if n := strings.Count(w.logs.String(), "can be read by others"); n != 1 {
		t.Error("told of a file that is its owner's alone")
	}
}

// Opening a pipe would wait for who writes to it.
func TestAPipeIsNotWaitedFor(t *testing.T) {
	for name, below := range map[string]bool{"anywhere": false, "below a folder": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, below)
			path := filepath.Join(w.dir, "pipe")
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() {
				_, err := w.authorization(cluster(Spec{Type: Bearer, File: path}))
				done <- err
			}()
			select {
			case err := <-done:
				if err == nil || !strings.Contains(err.Error(), "not a regular file") {
					t.Errorf("error %v", err)
				}
			case <-time.After(10 * time.Second):
				t.Error("it waits")
			}
		})
	}
}

// Whoever may write clusters gets no variable out of a process that was not meant for them.
func TestOnlyVariablesThatMayBeReadAre(t *testing.T) {
	t.Setenv("ANABRANCH_SECRET_GPU", "meant")
	t.Setenv("ANABRANCH_OTHER", "private")
	s := New(Options{
		Variable: func(name string) bool { return strings.HasPrefix(name, "ANABRANCH_SECRET_") },
		Logger:   slog.New(slog.DiscardHandler),
	})
	if c, err := s.For("eu-a", &Spec{Type: Bearer, Env: "ANABRANCH_SECRET_GPU"}); err != nil || c == nil {
		t.Errorf("one that may be read: %v, %v", c, err)
	}
	_, err := s.For("eu-a", &Spec{Type: Bearer, Env: "ANABRANCH_OTHER"})
	if err == nil || !strings.Contains(err.Error(), "none of those that may be read") || strings.Contains(err.Error(), "private") {
		t.Errorf("error %v", err)
	}
	if _, err := s.For("eu-a", &Spec{Type: SigV4, Env: "AWS", Region: "us-east-1", Service: "sagemaker"}); err == nil {
		t.Error("the keys of the process's own role were read")
	}
}
