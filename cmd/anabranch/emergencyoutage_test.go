package main

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	orders "anabranch/api/order"
	sealed "anabranch/api/order/signed"
	"anabranch/api/routerpb"
	"anabranch/controlplane/audit"
)

// within is how soon routers are to obey an order that the node they are connected to has taken; a test fails at three
// times that.
const within = 2 * time.Second

// TestOrdersWithoutAQuorum is the night for which signed orders are there: two of three nodes are dead.
func TestOrdersWithoutAQuorum(t *testing.T) {
	if testing.Short() {
		t.Skip("whole systems are not started with -short")
	}
	s := beginOutage(t)
	s.nodes[1].stop(t)
	s.nodes[2].stop(t)
	left, home := s.urls[0], []string{"emergency", "--server", s.urls[0]}
	s.until(20*time.Second, "all routers to come to the node that is left", func() error { return s.connected("n1", 2) })
	cli := func(code int, args ...string) (string, string) {
		t.Helper()
		return s.do(code, "", append(home[:1:1], append(args, home[1:]...)...)...)
	}

	t.Run("what is no good order is refused, and told why", func(t *testing.T) { s.refuses(t, left) })

	// To all nodes, as the runbook says: those that are dead are told of, and stop nothing.
	began := time.Now()
	out, errs := s.do(0, "", "emergency", "evacuate", "us", "--reason", "power is failing", "--for", "1h", "--key", "ann.pem", "--yes")
	if !strings.Contains(errs, "taken by "+left+", and not by all") {
		t.Errorf("the dead nodes are not told of: %s", errs)
	}
	evacuation := id(t, out)
	s.until(3*within, "both routers to leave us", func() error { return errors.Join(s.served("us", "eu"), s.served("eu", "eu")) })
	t.Logf("routers obeyed %v after the command began (goal: %v)", time.Since(began).Round(time.Millisecond), within)
	s.until(5*time.Second, "the order to be told of", func() error {
		if out, _ := cli(0, "list"); !strings.Contains(out, evacuation) || !strings.Contains(out, "2 of 2") {
			return errors.New(out)
		}
		return nil
	})

	// Each ends on its own clock.
	out, _ = cli(0, "shed", "100", "--reason", "half is lost", "--for", "2s", "--key", "ann.pem", "--yes")
	short := id(t, out)
	s.until(3*within, "requests to be shed", func() error {
		if status, _, body, err := s.ask("eu"); err != nil || status == http.StatusOK {
			return errors.Join(err, fmt.Errorf("%d %s", status, body))
		}
		return nil
	})
	s.until(2*time.Second+2*time.Second, "the order to end by itself", func() error { return s.served("eu", "eu") })
	if out, _ = cli(0, "list"); strings.Contains(out, short) {
		t.Errorf("an order is listed that is over:\n%s", out)
	}

	// The order outlives the node that took it, and holds while nobody is there.
	again := s.sign(s.ann, &routerpb.SignedPayload{Counter: 9, Order: s.order(orders.StopDrills, "").Proto()})
	s.post(t, left, again, http.StatusCreated)
	s.nodes[0].stop(t)
	if err := s.served("us", "eu"); err != nil {
		t.Errorf("with no node at all: %v", err)
	}
	s.routers["us"].stop(t)
	s.routers["us"].start(t)
	s.until(3*within, "a router to obey over a restart, from its disk", func() error { return s.served("us", "eu") })
	s.nodes[0].start(t)
	s.until(5*time.Second, "the node to answer", func() error {
		return s.call(http.MethodGet, left+"/v1/emergency/signed", "", http.StatusOK, new(map[string]any))
	})
	s.post(t, left, again, http.StatusOK) // it has it

	// It takes orders though it has no state before there is a quorum. Of two that conflict the one that keeps more on
	// holds, whoever gave it, and when.
	out, _ = cli(0, "restore", "us", "--reason", "power is back", "--key", "bob.pem", "--yes")
	restore := id(t, out)
	s.until(20*time.Second, "routers to come to the node again, and use us", func() error { return errors.Join(s.served("us", "us"), s.served("eu", "eu")) })
	out, _ = cli(0, "evacuate", "us", "--reason", "again", "--key", "ann.pem", "--yes")
	if !strings.Contains(out, "order "+restore+" holds instead") {
		t.Errorf("an evacuation that comes after a restore is not said to be overruled:\n%s", out)
	}

	// With a quorum again, what was ordered stands in the trail: once, though two nodes were given it, and again.
	twice := s.sign(s.ann, &routerpb.SignedPayload{Counter: 77, Order: s.order(orders.Freeze, "").Proto()})
	s.post(t, left, twice, http.StatusCreated)
	s.nodes[1].start(t)
	s.until(20*time.Second, "a quorum", s.quorum)
	s.post(t, s.urls[1], twice, 0)
	told := []string{evacuation, restore, short, sealed.ID(keyOf(s.ann), 9), sealed.ID(keyOf(s.ann), 77)}
	t.Logf("all were in the audit trail after %v", s.until(30*time.Second, "all to be in the audit trail", func() error { return s.missing(told) }))
	s.nodes[2].start(t)
	s.until(20*time.Second, "all nodes", s.quorum)
	for _, at := range s.urls {
		s.post(t, at, twice, 0)
	}
	s.entered(t, told...)

	// The quorum takes back what was signed.
	s.do(0, "", "emergency", "cancel", restore, "--reason", "over")
	s.do(0, "", "emergency", "cancel", sealed.ID(keyOf(s.ann), 77))
	s.until(3*within, "the later evacuation to hold, which nothing overrules now", func() error { return s.served("us", "eu") })
}

// connected says why not so many routers are connected to a node.
func (s *outage) connected(node string, want int) error {
	var list struct {
		Items []struct {
			Node      string
			Connected bool
		}
	}
	if err := s.call(http.MethodGet, s.urls[0]+"/v1/routers", "", 200, &list); err != nil {
		return err
	}
	n := 0
	for _, r := range list.Items {
		if r.Connected && r.Node == node {
			n++
		}
	}
	if n != want {
		return fmt.Errorf("%d of %v", n, list.Items)
	}
	return nil
}

// refuses sends what is wrong in each way that can be told without a quorum.
func (s *outage) refuses(t *testing.T, at string) {
	t.Helper()
	_, errs := s.do(exitRefused, "", "emergency", "freeze", "--reason", "x", "--yes", "--server", at)
	for _, way := range []string{"There is no quorum", "anabranch emergency freeze --reason", "--key FILE", "anabranch-router order freeze"} {
		if !strings.Contains(errs, way) {
			t.Errorf("without a key and a quorum the way out %q is not told:\n%s", way, errs)
		}
	}
	s.do(0, "", "emergency", "keygen", "eve.pem", "--name", "eve")
	if _, errs = s.do(exitRefused, "", "emergency", "evacuate", "us", "--reason", "x", "--yes", "--key", "eve.pem", "--server", at); !strings.Contains(errs, "is not known here: add its public half") {
		t.Errorf("a key that nobody trusts: %s", errs)
	}
	if _, errs = s.do(exitRefused, "", "emergency", "evacuate", "mars", "--reason", "x", "--yes", "--key", "ann.pem", "--server", at); !strings.Contains(errs, `has no region "mars"`) {
		t.Errorf("an order for nothing: %s", errs)
	}
	good := s.sign(s.ann, &routerpb.SignedPayload{Counter: 5, Order: s.order(orders.StopDrills, "").Proto()})
	s.post(t, at, good, http.StatusCreated)
	other := s.sign(s.ann, &routerpb.SignedPayload{Counter: 5, Order: s.order(orders.Freeze, "").Proto()})
	if text := s.post(t, at, other, http.StatusConflict); !strings.Contains(text, "Counter 5") {
		t.Errorf("a counter that was used: %s", text)
	}
	unknown := s.sign(s.ann, &routerpb.SignedPayload{Counter: 6, Order: s.order("explode", "").Proto()})
	if text := s.post(t, at, unknown, http.StatusUnprocessableEntity); !strings.Contains(text, `Kind \"explode\" is not known`) {
		t.Errorf("an order that nobody knows: %s", text)
	}
	foreign := s.sign(s.ann, &routerpb.SignedPayload{ClusterId: "elsewhere", Counter: 7, Order: s.order(orders.Freeze, "").Proto()})
	if text := s.post(t, at, foreign, http.StatusForbidden); !strings.Contains(text, "sign it for this one") {
		t.Errorf("an order for another control plane: %s", text)
	}
	cancel := s.sign(s.ann, &routerpb.SignedPayload{Counter: 8, Cancel: sealed.ID(keyOf(s.ann), 5)})
	s.post(t, at, cancel, http.StatusCreated)
	if text := s.post(t, at, good, http.StatusConflict); !strings.Contains(text, "taken back") {
		t.Errorf("an order that was taken back, played again: %s", text)
	}
}

// order is one that holds for an hour.
func (s *outage) order(kind orders.Kind, target string) *orders.Order {
	now := time.Now()
	return &orders.Order{Kind: kind, Target: target, Actor: "-", Reason: "test", At: now, Expires: now.Add(time.Hour)}
}

// post gives a signed message to a node and wants a status; 0: that it is taken. It returns the answer.
func (s *outage) post(t *testing.T, at, body string, want int) string {
	t.Helper()
	resp, err := http.Post(at+"/v1/emergency/signed", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	text := slurp(t, resp)
	if want == 0 && resp.StatusCode < 300 {
		return text
	}
	if resp.StatusCode != want {
		t.Errorf("POST to %s: %d %s, want %d", at, resp.StatusCode, text, want)
	}
	return text
}

// missing names orders that are not in the trail yet.
func (s *outage) missing(ids []string) error {
	trail := s.trail()
	for _, id := range ids {
		if !slices.ContainsFunc(trail, func(e audit.Entry) bool { return e.Name == id }) {
			return fmt.Errorf("%s is not among %d entries", id, len(trail))
		}
	}
	return nil
}

// entered wants each order in the trail once.
func (s *outage) entered(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		n := 0
		for _, e := range s.trail() {
			if e.Name == id {
				n++
				if e.Action != "create" || e.Role != "emergency" || !strings.Contains(e.Reason, "taken without quorum at") {
					t.Errorf("entry of %s: %+v", id, e)
				}
			}
		}
		if n != 1 {
			t.Errorf("order %s stands %d times in the audit trail, want once", id, n)
		}
	}
}

// id is the name of the order that a command gave.
func id(t *testing.T, out string) string {
	t.Helper()
	_, rest, ok := strings.Cut(out, "order ")
	name, _, ok2 := strings.Cut(rest, ":")
	if !ok || !ok2 {
		t.Fatalf("no order in %q", out)
	}
	return name
}

func keyOf(private ed25519.PrivateKey) string {
	return sealed.KeyID(private.Public().(ed25519.PublicKey)) //nolint:forcetypeassert // it is
}
