package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sealed "anabranch/api/order/signed"
	"anabranch/api/routerpb"
	"anabranch/controlplane/emergency"
	"anabranch/controlplane/rest"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state/statepb"
)

// alarmed is a session with a fleet of two regions, a node that takes orders signed by Ann, and her key in ann.pem.
func alarmed(t *testing.T) session {
	t.Helper()
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys")
	t.Setenv("ANABRANCH_EMERGENCY_KEY", "")
	other, err := sealed.Generate()
	if err != nil {
		t.Fatal(err)
	}
	public := other.Public().(ed25519.PublicKey) //nolint:forcetypeassert // package ed25519 says so
	if err := os.WriteFile(keys, []byte(sealed.Key{Name: "bob", Public: public}.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s := begin(t, func(o *rest.Options) {
		ring, err := sealed.OpenRing(keys)
		if err != nil {
			t.Fatal(err)
		}
		book, err := emergency.New(emergency.Options{
			Dir: dir, Keys: ring, View: o.View, Led: func() bool { return false }, Propose: o.Propose, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		o.Emergency = book
	})
	s.node.Apply(&statepb.Command{Format: 1, AtUnixMs: 1, Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 6}}})
	s.do(0, fleetOfTwo, "apply", "-f", "-")
	line, errs := s.do(0, "", "emergency", "keygen", "ann.pem", "--name", "ann", "--who", "Ann, on call")
	if !strings.Contains(line, " ann ") || !strings.Contains(errs, "private key in ann.pem") {
		t.Fatalf("keygen: %q, %q", line, errs)
	}
	if err := os.WriteFile(keys, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s session) orders() []rest.EmergencyOrder {
	s.t.Helper()
	out, _ := s.do(0, "", "emergency", "list", "-o", "json")
	var list struct{ Items []rest.EmergencyOrder }
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		s.t.Fatalf("%v in %s", err, out)
	}
	return list.Items
}

func TestOrdersAreGivenListedAndEnded(t *testing.T) {
	s := alarmed(t)
	if out, _ := s.do(0, "", "emergency", "list"); out != "no emergency orders\n" {
		t.Errorf("an empty list: %q", out)
	}
	table := &routerpb.Table{Regions: []*routerpb.Region{{Id: "us-east-1"}}, Clusters: []*routerpb.Cluster{{Id: "us-a", Region: "us-east-1"}}}
	s.node.Apply(&statepb.Command{Format: 1, Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: table}}})
	kept := s.node.View().Table().GetRef().GetRevision()
	for _, c := range []struct {
		args  []string
		order string
	}{
		{[]string{"evacuate", "us-east-1", "--for", "2h"}, "evacuate region/us-east-1"},
		{[]string{"emergency", "evacuate", "cluster/eu-a"}, "evacuate cluster/eu-a"},
		{[]string{"restore", "cluster/eu-a"}, "restore cluster/eu-a"},
		{[]string{"emergency", "stop-drills"}, "stop-drills"},
		{[]string{"emergency", "shed", "50"}, "shed 50"},
		{[]string{"emergency", "shed", "--", "-5"}, "shed -5"},
		{[]string{"emergency", "freeze"}, "freeze"},
		{[]string{"emergency", "revert", fmt.Sprint(kept)}, fmt.Sprintf("revert %d", kept)},
	} {
		args := append([]string{c.args[0]}, append([]string{"--reason", "INC-7", "--yes"}, c.args[1:]...)...)
		if c.args[0] == "emergency" {
			args = append(c.args[:2:2], append([]string{"--reason", "INC-7", "--yes"}, c.args[2:]...)...)
		}
		out, _ := s.do(0, "", args...)
		if !strings.Contains(out, ": "+c.order+" until 2") {
			t.Errorf("%v says %q", args, out)
		}
	}
	out, _ := s.do(0, "", "emergency", "list")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if got := strings.Fields(lines[0]); strings.Join(got, " ") != "ID ORDER ENDS IN ACTOR BY OBEYED REASON" || len(lines) != 8 { // the restore ended one
		t.Errorf("the list:\n%s", out)
	}
	for _, part := range []string{"evacuate region/us-east-1", "controlplane", "0 of 0", "INC-7", "shed 50 (overruled by "} {
		if !strings.Contains(out, part) {
			t.Errorf("the list does not say %q:\n%s", part, out)
		}
	}
	if yaml, _ := s.do(0, "", "emergency", "list", "-o", "yaml"); !strings.Contains(yaml, "target: region/us-east-1\n") {
		t.Errorf("as YAML:\n%s", yaml)
	}
	for _, o := range s.orders() {
		if out, _ := s.do(0, "", "emergency", "cancel", o.ID, "--reason", "over"); out != "order "+o.ID+" ended\n" {
			t.Errorf("cancel says %q", out)
		}
	}
	if left := s.orders(); len(left) != 0 {
		t.Errorf("left are %+v", left)
	}
	if _, errs := s.do(exitRefused, "", "emergency", "cancel", "4711"); !strings.Contains(errs, "not_found") {
		t.Errorf("an order that is not there: %s", errs)
	}
}

func TestWhatAnOrderDoesIsShownAndAskedFor(t *testing.T) {
	s := alarmed(t)
	for in, code := range map[string]int{"y\n": 0, "YES\n": 0, "n\n": exitFailed, "": exitFailed} {
		out, errs := s.do(code, in, "evacuate", "us-east-1", "--reason", "x")
		if !strings.Contains(out, "evacuate region/us-east-1 until ") || !strings.Contains(out, "that is us-a, with 0% of the traffic now") || !strings.Contains(out, "1 of 2 clusters are left") {
			t.Errorf("it shows %q", out)
		}
		if code != 0 && !strings.Contains(errs, "nothing was ordered") {
			t.Errorf("to %q it says %q", in, errs)
		}
	}
	if n := len(s.orders()); n != 2 {
		t.Errorf("%d orders hold", n)
	}
	if out, _ := s.do(exitFailed, "", "evacuate", "mars", "--reason", "x"); !strings.Contains(out, "there is no cluster in region/mars") {
		t.Errorf("it shows %q", out)
	}
}

func TestMistakesWithEmergenciesNameTheFix(t *testing.T) {
	s := alarmed(t)
	s.file("open.pem", "x")
	if err := os.Chmod("open.pem", 0o644); err != nil { //nolint:gosec // what must be refused
		t.Fatal(err)
	}
	s.file("bad.pem", "x")
	s.file("lost.pem.counter", "many")
	s.do(0, "", "emergency", "keygen", "lost.pem", "--name", "lost")
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no reason":         {[]string{"evacuate", "us-east-1", "--yes"}, exitFailed, "--reason is missing"},
		"no target":         {[]string{"evacuate", "--reason", "x"}, exitUsage, "accepts 1 arg"},
		"a crooked target":  {[]string{"evacuate", "US EAST", "--reason", "x", "--yes"}, exitFailed, "is no name: give a cluster or a region"},
		"no such region":    {[]string{"evacuate", "mars", "--reason", "x", "--yes"}, exitRefused, `there is no region "mars"`},
		"no duration":       {[]string{"emergency", "freeze", "--reason", "x", "--for", "long", "--yes"}, exitFailed, "write it like 30m or 2h"},
		"over a day":        {[]string{"emergency", "freeze", "--reason", "x", "--for", "25h", "--yes"}, exitFailed, "at most 24h"},
		"no revision":       {[]string{"emergency", "revert", "newest", "--reason", "x", "--yes"}, exitFailed, "write it like 41, or 2/41"},
		"a table not kept":  {[]string{"emergency", "revert", "999", "--reason", "x", "--yes"}, exitRefused, "table 999 is not kept"},
		"no priority":       {[]string{"emergency", "shed", "low", "--reason", "x", "--yes"}, exitFailed, "batch is -10, best-effort 0"},
		"beyond the top":    {[]string{"emergency", "shed", "101", "--reason", "x", "--yes"}, exitFailed, "at most 100"},
		"no key":            {[]string{"emergency", "freeze", "--reason", "x", "--yes", "--key", "none.pem"}, exitFailed, "none.pem"},
		"a key for all":     {[]string{"emergency", "freeze", "--reason", "x", "--yes", "--key", "open.pem"}, exitFailed, "open.pem"},
		"no key in it":      {[]string{"emergency", "freeze", "--reason", "x", "--yes", "--key", "bad.pem"}, exitFailed, "bad.pem"},
		"a counter lost":    {[]string{"emergency", "freeze", "--reason", "x", "--yes", "--key", "lost.pem"}, exitFailed, "lost.pem.counter holds no counter: remove it"},
		"a key over a key":  {[]string{"emergency", "keygen", "ann.pem", "--name", "ann"}, exitFailed, "is there already"},
		"a key of nobody":   {[]string{"emergency", "keygen", "new.pem"}, exitFailed, "--name"},
		"a holder of lines": {[]string{"emergency", "keygen", "new.pem", "--name", "a", "--who", "x\ny"}, exitFailed, "--who"},
		"a who for a name":  {[]string{"emergency", "keygen", "new.pem", "--who", "ann"}, exitFailed, "--name"},
		"a crooked holder":  {[]string{"emergency", "keygen", "new.pem", "--name", "a b"}, exitFailed, "would not be read as it is written"},
		"an unknown order":  {[]string{"emergency", "explode"}, exitUsage, "explode"},
		"an unknown format": {[]string{"emergency", "list", "-o", "xml"}, exitUsage, "xml"},
	} {
		t.Run(name, func(t *testing.T) {
			s := session{t, s.node}
			if _, errs := s.do(c.code, "", c.args...); !strings.Contains(errs, c.says) {
				t.Errorf("it says %q, want %q", errs, c.says)
			}
		})
	}
	if _, err := os.Stat("new.pem"); err == nil {
		t.Error("a key that was refused is left")
	}
}

func TestOrdersAreSignedWithAKey(t *testing.T) {
	s := alarmed(t)
	t.Setenv("ANABRANCH_TOKEN", "") // a signature is enough
	out, _ := s.do(0, "", "evacuate", "us-east-1", "--reason", "x", "--yes", "--key", "ann.pem")
	first := id(t, out)
	t.Setenv("ANABRANCH_EMERGENCY_KEY", "ann.pem")
	out, errs := s.do(0, "", "emergency", "stop-drills", "--reason", "x", "--yes", "--server", s.node.URL+",http://127.0.0.1:1")
	if id(t, out) == first || !strings.Contains(errs, "taken by "+s.node.URL+", and not by all that were asked") {
		t.Errorf("the second: %q, %q", out, errs)
	}
	if _, errs = s.do(exitUnreachable, "", "emergency", "stop-drills", "--reason", "x", "--yes", "--server", "http://127.0.0.1:1"); !strings.Contains(errs, "can't be reached") {
		t.Errorf("no node at all: %q", errs)
	}
	s.do(0, "", "emergency", "cancel", first)
	t.Setenv("ANABRANCH_TOKEN", "viewer-token")
	if list := s.orders(); len(list) != 1 || list[0].Door != "signed" || list[0].Actor != "ann" || list[0].Kind != "stop-drills" {
		t.Errorf("the list is %+v", list)
	}
	if _, errs = s.do(exitRefused, "", "emergency", "cancel", "sffffffffffff-1"); !strings.Contains(errs, "a key takes back its own orders only") {
		t.Errorf("another's order: %s", errs)
	}
	s.file("eve/keys", "")
	s.do(0, "", "emergency", "keygen", "eve.pem", "--name", "eve")
	if _, errs = s.do(exitRefused, "", "emergency", "freeze", "--reason", "x", "--yes", "--key", "eve.pem"); !strings.Contains(errs, "is not known here: add its public half") {
		t.Errorf("a stranger: %s", errs)
	}
}

func TestACounterIsUsedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k")
	now := time.UnixMilli(1000)
	var got []uint64
	for _, at := range []time.Time{now, now, now.Add(-time.Hour), now.Add(time.Second)} {
		n, err := count(path, at)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, n)
	}
	if fmt.Sprint(got) != "[1000 1001 1002 2000]" {
		t.Errorf("counters %v", got)
	}
	if err := os.Remove(path + ".counter"); err != nil {
		t.Fatal(err)
	}
	if n, err := count(path, now.Add(2*time.Second)); err != nil || n != 3000 {
		t.Errorf("without the file it is %d, %v", n, err)
	}
	if _, err := count(filepath.Join(t.TempDir(), "none", "k"), now); err == nil {
		t.Error("a counter that can't be kept is used")
	}
}

// TestOrdersAreSeenInListsAndTheStatus: in the status, at regions and clusters, and how many routers obey.
func TestOrdersAreSeenInListsAndTheStatus(t *testing.T) {
	s := alarmed(t)
	if out, _ := s.do(0, "", "get", "clusters"); strings.Contains(out, "EMERGENCY") {
		t.Errorf("without an order:\n%s", out)
	}
	out, _ := s.do(0, "", "evacuate", "us-east-1", "--reason", "INC-7", "--yes")
	name := id(t, out)
	s.node.Signals.Put(signal.Observation{
		Hello:  &routerpb.Hello{RouterId: "us-1", Region: "us-east-1"},
		Report: &routerpb.Report{Orders: &routerpb.OrderSignal{Held: []*routerpb.HeldOrder{{Id: name}}}}, Received: time.Now(), Connected: true,
	})
	for args, want := range map[string][]string{
		"get regions":    {"EMERGENCY ORDER", "evacuate region/us-east-1 by admin until "},
		"get clusters":   {"EMERGENCY ORDER", "evacuate region/us-east-1 by admin until ", "order " + name},
		"status":         {"EMERGENCY evacuate region/us-east-1 by admin until ", "INC-7"},
		"emergency list": {"1 of 1"},
	} {
		out, _ := s.do(0, "", strings.Fields(args)...)
		for _, part := range want {
			if !bytes.Contains([]byte(out), []byte(part)) {
				t.Errorf("%s does not say %q:\n%s", args, part, out)
			}
		}
	}
	regions, _ := s.do(0, "", "get", "regions")
	for line := range strings.Lines(regions) {
		if strings.HasPrefix(line, "eu-west-1") && strings.Contains(line, "evacuate") {
			t.Errorf("a region that is not evacuated: %s", line)
		}
	}
}
