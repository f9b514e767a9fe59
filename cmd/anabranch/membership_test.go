package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestMembersAreShownWithAllThatIsKnown(t *testing.T) {
	s := begin(t)
	out, _ := s.do(0, "", "controlplane", "members")
	var got []string
	for line := range strings.Lines(out) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := "NODE ADDRESS VOTER LEADER HEALTH APPLIED BEHIND HEARD VERSION LEVEL\n" +
		"n1 127.0.0.1:7120 yes yes healthy 1 0 0s test 2\n" +
		"n2 127.0.0.1:7121 yes no unhealthy 0 3 4.2s - -"
	if strings.Join(got, "\n") != want {
		t.Errorf("members\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	if short, _ := s.do(0, "", "members"); short != out {
		t.Errorf("the short form says\n%s", short)
	}
}

func TestMembersComeAndGo(t *testing.T) {
	s := begin(t)
	if out, _ := s.do(0, "", "controlplane", "join", "n4", "127.0.0.1:7124", "--reason", "more"); !strings.HasPrefix(out, "n4 is a member at 127.0.0.1:7124; it votes once") {
		t.Errorf("join: %q", out)
	}
	var m member
	out, _ := s.do(0, "", "controlplane", "join", "n4", "127.0.0.1:7125", "-o", "json") // it has moved
	if err := json.Unmarshal([]byte(out), &m); err != nil || m.Address != "127.0.0.1:7125" || m.LastContactMs != -1 {
		t.Errorf("join -o json: %v %s", err, out)
	}
	if out, _ = s.do(0, "", "controlplane", "members"); !strings.Contains(out, "never") {
		t.Errorf("members after a join:\n%s", out)
	}
	if out, _ = s.do(0, "", "controlplane", "remove", "n4"); out != "n4 is no member any more\n" {
		t.Errorf("remove: %q", out)
	}
	if out, _ = s.do(0, "", "controlplane", "transfer", "n2"); out != "n2 leads\n" {
		t.Errorf("transfer: %q", out)
	}
	if out, _ = s.do(0, "", "controlplane", "transfer", "-o", "yaml"); out != "leader: n1\n" {
		t.Errorf("transfer -o yaml: %q", out)
	}
	if out, _ = s.do(0, "", "controlplane", "remove", "n2", "--force"); out != "n2 is no member any more\n" {
		t.Errorf("remove --force: %q", out)
	}
}

func TestJoinWaitsForTheVote(t *testing.T) {
	s := begin(t)
	_, errs := s.do(exitFailed, "", "controlplane", "join", "n4", "127.0.0.1:7124", "--wait", "--timeout", "100ms", "--interval", "10ms")
	if !strings.Contains(errs, "n4 was added and does not vote yet") || !strings.Contains(errs, "0 entries behind, healthy: no") {
		t.Errorf("errors: %s", errs)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick, deadline := time.NewTicker(time.Millisecond), time.After(30*time.Second); ; {
			select {
			case <-tick.C:
				if s.node.Promote("n5") {
					tick.Stop()
					return
				}
			case <-deadline:
				return
			}
		}
	}()
	if out, _ := s.do(0, "", "controlplane", "join", "n5", "127.0.0.1:7127", "--wait", "--timeout", "30s", "--interval", "10ms"); out != "n5 is a member at 127.0.0.1:7127 and votes\n" {
		t.Errorf("join --wait: %q", out)
	}
	<-done
}

func TestRefusedChangesOfTheMembershipSayWhy(t *testing.T) {
	s := begin(t)
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a third voter":      {[]string{"remove", "n2"}, exitRefused, "too_few_voters"},
		"a stranger":         {[]string{"remove", "n9"}, exitRefused, "HTTP 404"},
		"a taken address":    {[]string{"join", "n4", "127.0.0.1:7121"}, exitRefused, "address_taken"},
		"no port":            {[]string{"join", "n4", "localhost"}, exitRefused, "address: is not host:port"},
		"no address":         {[]string{"join", "n4"}, exitUsage, "accepts 2 arg"},
		"to a stranger":      {[]string{"transfer", "n9"}, exitRefused, "HTTP 404"},
		"two successors":     {[]string{"transfer", "n1", "n2"}, exitUsage, "accepts at most 1"},
		"not the admin":      {[]string{"transfer", "--token", "operator-token"}, exitRefused, "this needs admin"},
		"odd format":         {[]string{"transfer", "-o", "xml"}, exitUsage, "choose one of"},
		"nobody to be asked": {[]string{"remove", "n2", "--server", "http://127.0.0.1:1"}, exitUnreachable, "connection refused"},
	} {
		if _, errs := s.do(c.code, "", append([]string{"controlplane"}, c.args...)...); !strings.Contains(errs, c.want) {
			t.Errorf("%s: error lacks %q: %s", name, c.want, errs)
		}
	}
}
