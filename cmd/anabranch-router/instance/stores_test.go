package instance

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anabranch/api/credential"
	"anabranch/api/fleet"
	"anabranch/dataplane/table"
	"anabranch/ratelimit"
	"anabranch/ratelimit/redisbucket/redistest"
)

// regions is a table with quota stores.
func regions(specs map[fleet.RegionID]*table.QuotaStore) *table.Table {
	t := &table.Table{Regions: map[fleet.RegionID]*table.Region{"us-east-1": {ID: "us-east-1"}}}
	for id, spec := range specs {
		t.Regions[id] = &table.Region{ID: id, QuotaStore: spec}
	}
	return t
}

func TestStoresOfRegionsComeAndGo(t *testing.T) {
	own := ratelimit.NewLending(nil)
	s := newStores("us-east-1", own, newClocks(slog.New(slog.DiscardHandler)), credential.New(credential.Options{}), slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
		if err := s.close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	if s.Of("") != own || s.Of("eu-west-1") != nil {
		t.Fatal("what is there before any table")
	}
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := redistest.Start(t)
	conn, err := net.Dial("unix", server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("CONFIG SET requirepass secret\r\n")); err != nil {
		t.Fatal(err)
	}
	if answer, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.HasPrefix(answer, "+OK") {
		t.Fatalf("%q, %v", answer, err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	spec := table.QuotaStore{Addresses: []string{server.Addr}, PasswordFile: file}
	s.sync(regions(map[fleet.RegionID]*table.QuotaStore{"eu-west-1": &spec}))
	first := s.Of("eu-west-1")
	if first == nil {
		t.Fatal("the region has a store and it is not known")
	}
	ask := func() error {
		return first.LeaseAll(t.Context(), []ratelimit.In{{
			Org: "acme", Epoch: 1, Router: "r", Seq: 1, TTL: time.Second,
			Path: []ratelimit.Level{{Limit: ratelimit.Limit{ID: "x", Kind: ratelimit.Requests, Amount: 60, PeriodMs: 60_000, Burst: 60}, Want: 1}},
		}})[0].Err
	}
	deadline := time.Now().Add(20 * time.Second)
	for ask() != nil && time.Now().Before(deadline) { // a machine under load may take longer than a budget
	}
	if err := ask(); err != nil {
		t.Fatalf("lease: %v", err)
	}

	same := spec
	s.sync(regions(map[fleet.RegionID]*table.QuotaStore{"eu-west-1": &same}))
	if s.Of("eu-west-1") != first {
		t.Error("a store that is the same was connected to anew")
	}
	if err := os.WriteFile(file, []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.sync(regions(map[fleet.RegionID]*table.QuotaStore{"eu-west-1": &same}))
	if other := s.Of("eu-west-1"); other == nil || other == first {
		t.Error("the password is another and the connection is not")
	}
	s.sync(regions(nil))
	if s.Of("eu-west-1") != nil {
		t.Error("the store is gone and still known")
	}
	for ask() == nil && time.Now().Before(deadline) { // it is closed behind
	}
	if ask() == nil {
		t.Error("the connections of a store that is gone stay")
	}
}

func TestAStoreThatCannotBeMadeIsNone(t *testing.T) {
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	folder, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(elsewhere, []byte("hidden"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newStores("us-east-1", ratelimit.NewLending(nil), newClocks(logger), credential.New(credential.Options{Dir: folder, Logger: logger}), logger)
	here := []string{"127.0.0.1:1"}
	junk := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(junk, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ANABRANCH_TEST_PASSWORD", "hidden")
	for want, spec := range map[string]*table.QuotaStore{
		"no such file":               {Addresses: here, PasswordFile: filepath.Join(folder, "password")},
		"read token":                 {Addresses: here, PasswordFile: elsewhere}, // not below --secrets-dir
		"ANABRANCH_TEST_MISSING":     {Addresses: here, PasswordEnv: "ANABRANCH_TEST_MISSING"},
		"no certificates in PEM":     {Addresses: here, TLS: true, CAFile: junk, PasswordEnv: "ANABRANCH_TEST_PASSWORD"},
		"open /nowhere/cert":         {Addresses: here, TLS: true, CertFile: "/nowhere/cert", KeyFile: "/nowhere/key"},
		"redis addresses are empty:": {},
	} {
		log.Reset()
		s.sync(regions(map[fleet.RegionID]*table.QuotaStore{"eu-west-1": spec}))
		if s.Of("eu-west-1") != nil {
			t.Errorf("%s: there is a store", want)
		}
		if !strings.Contains(log.String(), want) || strings.Contains(log.String(), "hidden") {
			t.Errorf("log %q, want %q in it and no secret", log.String(), want)
		}
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}

func TestOptionsOfRedisNameTheFlag(t *testing.T) {
	for want, r := range map[string]Redis{
		"--redis-sentinel-master needs --redis":                          {Master: "m"},
		"--redis-cluster needs --redis":                                  {Cluster: true},
		"--redis-tls needs --redis":                                      {TLS: true},
		`--redis: "b" is not host:port`:                                  {Addresses: "a:1,b", Cluster: true},
		"--redis has 2 addresses":                                        {Addresses: "a:1,b:1"},
		"--redis-sentinel-master and --redis-cluster exclude each other": {Addresses: "a:1", Master: "m", Cluster: true},
		"--redis-ca-file needs --redis-tls":                              {Addresses: "a:1", CAFile: "/dev/null"},
		"--redis-ca-file: stat /nowhere: no such file or directory":      {Addresses: "a:1", TLS: true, CAFile: "/nowhere"},
	} {
		found := false
		for _, err := range r.validate() {
			found = found || strings.Contains(err.Error(), want)
		}
		if !found {
			t.Errorf("%+v: %v, want %q", r, r.validate(), want)
		}
	}
	for _, r := range []Redis{{}, {Addresses: "/run/redis.sock"}, {Addresses: "a:1,b:1", Cluster: true}, {Addresses: "a:1,b:1", Master: "m", TLS: true, Username: "u"}} {
		if err := r.validate(); len(err) > 0 {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

func TestThePasswordOfRedisIsReadForEachConnection(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	r := Redis{Addresses: "127.0.0.1:1", PasswordFile: file}
	if _, err := r.lender(); err == nil || !strings.Contains(err.Error(), "--redis-password-file") {
		t.Errorf("without the file: %v", err)
	}
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("at first")
	o, err := r.lender()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"first", "second"} {
		write(want)
		if got, err := o.PasswordFrom(); got != want || err != nil {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	r.PasswordFile = ""
	if o, err := r.lender(); err != nil || o.PasswordFrom != nil {
		t.Errorf("no password is wanted, and one is asked for, %v", err)
	}
}
