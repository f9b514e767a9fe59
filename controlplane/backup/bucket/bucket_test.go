package bucket

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"anabranch/controlplane/backup"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// loopback is a bucket in a store of the test.
func loopback(t *testing.T, target string) (*store, *Bucket) {
	t.Helper()
	empty := filepath.Join(t.TempDir(), "none")
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "key-of-this-test", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "", "AWS_REGION": "", "AWS_DEFAULT_REGION": "",
		"AWS_CONFIG_FILE": empty, "AWS_SHARED_CREDENTIALS_FILE": empty, "AWS_EC2_METADATA_DISABLED": "true", "AWS_MAX_ATTEMPTS": "1",
	} {
		t.Setenv(name, value)
	}
	s := startStore(t)
	b, err := New(t.Context(), Options{URL: target, Endpoint: s.url})
	if err != nil {
		t.Fatal(err)
	}
	return s, b
}

func put(t *testing.T, b *Bucket, name, text string) {
	t.Helper()
	if err := b.Put(t.Context(), name, strings.NewReader(text), int64(len(text))); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsPutIsListedAndDeleted(t *testing.T) {
	for target, prefix := range map[string]string{"s3://b": "", "s3://b/": "", "s3://b/control/plane/": "control/plane/"} {
		t.Run(target, func(t *testing.T) {
			s, b := loopback(t, target)
			want := []string{"a", "b", "c", "d", "e"}
			for _, name := range want {
				put(t, b, name, "content of "+name)
			}
			if got := s.keys(); len(got) != 5 || got[0] != prefix+"a" || string(s.objects[prefix+"a"]) != "content of a" {
				t.Errorf("the store has %v", got)
			}
			s.mu.Lock()
			s.objects[prefix+"deeper/x"] = nil
			s.mu.Unlock()
			got, err := b.Names(t.Context())
			if err != nil || !slices.Equal(got, want) || s.lists != 3 {
				t.Errorf("listed %v in %d pages, %v", got, s.lists, err)
			}
			if err := b.Delete(t.Context(), "c"); err != nil {
				t.Error(err)
			}
			if got, err = b.Names(t.Context()); err != nil || !slices.Equal(got, []string{"a", "b", "d", "e"}) {
				t.Errorf("then %v, %v", got, err)
			}
		})
	}
}

func TestRefusalsAreErrors(t *testing.T) {
	s, b := loopback(t, "s3://b/p")
	s.set(403)
	if err := b.Put(t.Context(), "a", strings.NewReader("x"), 1); err == nil || !strings.Contains(err.Error(), "AccessDenied") {
		t.Errorf("put: %v", err)
	}
	if _, err := b.Names(t.Context()); err == nil || !strings.Contains(err.Error(), "AccessDenied") {
		t.Errorf("list: %v", err)
	}
	if err := b.Delete(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "AccessDenied") {
		t.Errorf("delete: %v", err)
	}
	s.set(0)
	broken := iotest.ErrReader(os.ErrClosed)
	if err := b.Put(t.Context(), "a", unseekable{broken}, 1); err == nil || len(s.keys()) > 0 {
		t.Errorf("an archive that can't be read: %v, %v", err, s.keys())
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := b.Names(ended); err == nil {
		t.Error("listed after the end")
	}
	if strings.Contains(b.String(), "secret") || b.String() != "s3://b/p" {
		t.Errorf("called %s", b)
	}
}

type unseekable struct {
	r interface{ Read([]byte) (int, error) }
}

func (u unseekable) Read(p []byte) (int, error)     { return u.r.Read(p) }
func (u unseekable) Seek(int64, int) (int64, error) { return 0, nil }

// A schedule brings backups there that can be restored from, and removes old ones.
func TestAScheduleKeepsBackupsInABucket(t *testing.T) {
	s, b := loopback(t, "s3://b/backups")
	v, _, err := state.Apply(state.Empty(), 1, &statepb.Command{Format: state.Format, Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c-1"}}})
	if err != nil {
		t.Fatal(err)
	}
	schedule, err := backup.New(backup.Options{
		Places: []backup.Place{b}, Interval: backup.MinInterval, Keep: 2, Scratch: t.TempDir(),
		Leading: func() bool { return true }, ReadBarrier: func(context.Context) error { return nil }, View: func() *state.View { return v },
		Node: "n1", Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- schedule.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	var first string
	deadline, look := time.After(30*time.Second), time.NewTicker(10*time.Millisecond)
	defer look.Stop()
	for { // until the first has been removed
		keys := s.keys()
		if len(keys) > 0 && first == "" {
			first = keys[0]
		}
		if len(keys) == 2 && keys[0] != first {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("the store has %v, the first was %s", keys, first)
		case <-look.C:
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, text := range s.objects {
		if m, back, err := backup.Read(bytes.NewReader(text)); err != nil || !state.Equal(v, back) || !strings.HasSuffix(key, backup.Name(m)) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestOptionsSayWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{URL: "b/p"}, "s3://bucket/prefix"},
		{Options{URL: "https://b/p"}, "s3://bucket/prefix"},
		{Options{URL: "s3:///p"}, "s3://bucket/prefix"},
		{Options{URL: "s3://key:secret@b/p"}, "s3://bucket/prefix"},
		{Options{URL: "s3://b", Endpoint: "minio:9000"}, "https://host:port"},
		{Options{URL: "s3://b", Endpoint: "https://key:secret@h"}, "https://host:port"},
	} {
		_, err := New(t.Context(), c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
	_, b := loopback(t, "s3://b")
	if _, err := New(t.Context(), Options{URL: "s3://b"}); err == nil || !strings.Contains(err.Error(), "AWS_REGION") {
		t.Errorf("no region: %v", err)
	}
	if other, err := New(t.Context(), Options{URL: "s3://b/x", Region: "eu-west-1"}); err != nil || other.String() == b.String() {
		t.Errorf("%v, %v", other, err)
	}
}
