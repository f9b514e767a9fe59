package dev

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/cmd/anabranch/dev/child"
	"anabranch/cmd/anabranch/dev/seed"
)

// heard keeps what a supervisor says, and wakes whoever waits for a line.
type heard struct {
	mu   sync.Mutex // guards text and wake
	text bytes.Buffer
	wake chan struct{}
}

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.wake != nil {
		close(h.wake)
		h.wake = nil
	}
	return h.text.Write(b)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

// wait until it has said the text.
func (h *heard) wait(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(60 * time.Second)
	for {
		h.mu.Lock()
		if strings.Contains(h.text.String(), text) {
			h.mu.Unlock()
			return
		}
		if h.wake == nil {
			h.wake = make(chan struct{})
		}
		wake := h.wake
		h.mu.Unlock()
		select {
		case <-wake:
		case <-deadline:
			t.Fatalf("never said %q:\n%s", text, h)
		}
	}
}

// live runs a played supervisor until the returned stop, which the test must call.
func live(t *testing.T) (*supervisor, *heard, func() error) {
	t.Helper()
	said := &heard{}
	s := played(t, said)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx, seed.Loopback(), "hello") }()
	said.wait(t, "\nready\n")
	return s, said, sync.OnceValue(func() error { cancel(); return <-ended })
}

func stateOf(t *testing.T, s *supervisor, id string) State {
	t.Helper()
	for _, st := range s.states(t.Context()) {
		if (Unit{Kind: st.Kind, Name: st.Name}).ID() == id {
			return st
		}
	}
	t.Fatalf("no unit %s", id)
	return State{}
}

func TestFleetComesUpInOrderAndEndsWithNothingLeft(t *testing.T) {
	s, said, stop := live(t)
	record, err := s.folder.Load()
	if err != nil {
		t.Fatal(err)
	}
	pids := []int{record.Redis.PID, record.ControlPlane[0].PID, record.Clusters[0].PID, record.Routers[0].PID}
	for i, pid := range pids {
		if pid == 0 || !running(pid) {
			t.Errorf("pid %d of dev.json is %d, which does not run", i, pid)
		}
	}
	if err := stop(); err != nil {
		t.Errorf("run = %v", err)
	}
	for _, pid := range pids {
		if running(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
	at := -1
	for _, want := range []string{
		"redis ", "control plane is led by n1", "seeded: 20 of 20 resources created", "router-us ", "hello", "ready",
		"ending", "all ended",
	} {
		now := strings.Index(said.String(), want)
		if now < at {
			t.Errorf("%q is missing or too early:\n%s", want, said)
		}
		at = now
	}
	if _, err := s.folder.Status(t.Context()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("status after the end = %v", err)
	}
}

// running says whether a process runs that is not just waiting to be reaped.
func running(pid int) bool {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	_, state, _ := strings.Cut(string(b), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}

func TestBreakAndHealARegionWithItsRouter(t *testing.T) {
	s, _, stop := live(t)
	done, err := s.folder.Break(t.Context(), Order{Kind: "region", Name: "us", WithRouter: true})
	if err != nil || len(done) != 2 {
		t.Fatalf("break = %q, %v", done, err)
	}
	for _, id := range []string{"cluster-us-a", "router-us"} {
		if st := stateOf(t, s, id); st.State != "broken" || !strings.Contains(st.Reason, "signal: killed") {
			t.Errorf("%s is %+v", id, st)
		}
	}
	if st := stateOf(t, s, "redis"); st.State != "up" {
		t.Errorf("redis is %+v", st)
	}
	before, err := s.folder.Load()
	if err != nil {
		t.Fatal(err)
	}
	done, err = s.folder.Break(t.Context(), Order{Kind: "cluster", Name: "us-a"})
	if err != nil || !slices.Equal(done, []string{"cluster-us-a was not running"}) {
		t.Errorf("second break = %q, %v", done, err)
	}
	if done, err = s.folder.Heal(t.Context(), Order{Kind: "region", Name: "us"}); err != nil || len(done) != 2 {
		t.Fatalf("heal = %q, %v", done, err)
	}
	after, err := s.folder.Load()
	if err != nil {
		t.Fatal(err)
	}
	if after.Clusters[0].PID == before.Clusters[0].PID || !running(after.Clusters[0].PID) || !running(after.Routers[0].PID) {
		t.Errorf("dev.json after heal: clusters %+v routers %+v", after.Clusters, after.Routers)
	}
	if after.ControlPlane[0].PID != before.ControlPlane[0].PID {
		t.Error("heal of a region restarted the control plane")
	}
	if done, err = s.folder.Heal(t.Context(), Order{Kind: "all"}); err != nil || !strings.Contains(done[0], "nothing") {
		t.Errorf("second heal = %q, %v", done, err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestBreakTheLeaderAndRedis(t *testing.T) {
	s, _, stop := live(t)
	for _, o := range []Order{{Kind: "redis"}, {Kind: "controlplane", Name: "leader"}} {
		if _, err := s.folder.Break(t.Context(), o); err != nil {
			t.Errorf("break %s: %v", o.Kind, err)
		}
	}
	_, err := s.folder.Break(t.Context(), Order{Kind: "controlplane", Name: "leader"})
	if err == nil || !strings.Contains(err.Error(), errNoLeader.Error()) {
		t.Errorf("break of no leader = %v", err)
	}
	done, err := s.folder.Heal(t.Context(), Order{Kind: "controlplane", Name: "leader"})
	if err != nil || len(done) != 1 || !strings.HasPrefix(done[0], "started controlplane-n1") {
		t.Errorf("heal = %q, %v", done, err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestFaultsAreSetShownAndTakenAway(t *testing.T) {
	s, _, stop := live(t)
	for _, o := range []Order{
		{Kind: "endpoint", Name: "us-a/e1"},
		{Kind: "endpoint", Name: "us-a/e2", Fault: "slow", Factor: 3, Ratio: 0.5},
	} {
		if _, err := s.folder.Break(t.Context(), o); err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
	}
	st, err := s.folder.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Faults) != 2 || st.Faults["us-a/e1"] != "refuse" || st.Faults["us-a/e2"] != "slow" {
		t.Errorf("faults %v", st.Faults)
	}
	if _, err := s.folder.Heal(t.Context(), Order{Kind: "endpoint", Name: "us-a/e1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.folder.Heal(t.Context(), Order{Kind: "cluster", Name: "us-a"}); err != nil {
		t.Fatal(err)
	}
	if st, err = s.folder.Status(t.Context()); err != nil || len(st.Faults) != 0 {
		t.Errorf("faults after heal %v, %v", st.Faults, err)
	}
	log := child.Tail(s.folder.Log("cluster-us-a"), 50)
	at := 0
	for _, want := range []string{
		`POST  {"endpoint":"e1","fault":"refuse"}`,
		`POST  {"endpoint":"e2","fault":"slow","factor":3,"ratio":0.5}`,
		`DELETE endpoint=e1`, `DELETE endpoint=`,
	} {
		i := strings.Index(log[at:], want)
		if i < 0 {
			t.Fatalf("model server was not told %s:\n%s", want, log)
		}
		at += i + len(want)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestAFaultOnADeadClusterNamesTheWayOut(t *testing.T) {
	s, _, stop := live(t)
	if _, err := s.folder.Break(t.Context(), Order{Kind: "cluster", Name: "us-a"}); err != nil {
		t.Fatal(err)
	}
	_, err := s.folder.Break(t.Context(), Order{Kind: "endpoint", Name: "us-a/e1"})
	if err == nil || !strings.Contains(err.Error(), "heal cluster us-a") {
		t.Errorf("fault on a dead cluster = %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestAChildThatDiesIsToldAndNotRestarted(t *testing.T) {
	s, said, stop := live(t)
	_ = get(t.Context(), s.units[3].Address+"/die") // it dies before it answers
	said.wait(t, "! router-us (pid ")
	if st := stateOf(t, s, "router-us"); st.State != "dead" || !strings.Contains(st.Reason, "exit status 3") {
		t.Errorf("router is %+v", st)
	}
	if !strings.Contains(said.String(), "anabranch dev heal router us") {
		t.Errorf("no way out is named:\n%s", said)
	}
	if _, err := s.folder.Heal(t.Context(), Order{Kind: "router", Name: "us"}); err != nil {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestStartFailsWithReasonAndLogAndLeavesNothing(t *testing.T) {
	said := &heard{}
	s := played(t, said)
	s.units[2].Command.Env = append(os.Environ(), roleVariable+"=fail us-a")
	err := s.run(t.Context(), seed.Loopback(), "hello")
	if err == nil {
		t.Fatal("run succeeded")
	}
	for _, want := range []string{"cluster-us-a did not come up", "exit status 7", "disk of us-a is full", "cluster-us-a.log"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
	for _, u := range s.units {
		if p := s.process(u); p != nil && p.Status().Running {
			t.Errorf("%s is left", u.ID())
		}
	}
	if strings.Contains(said.String(), "\nready\n") {
		t.Error("said ready")
	}
}

func TestBeingToldToEndWhileStartingIsNoFailure(t *testing.T) {
	said := &heard{}
	s := played(t, said)
	s.units[3].Ready = "http://" + address(t) // never answers
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx, seed.Loopback(), "hello") }()
	said.wait(t, "seeded")
	if _, err := s.folder.Break(t.Context(), Order{Kind: "redis"}); err == nil || !strings.Contains(err.Error(), "starting") {
		t.Errorf("break while starting = %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("run = %v", err)
	}
}

func TestOrdersThatMakeNoSenseChangeNothing(t *testing.T) {
	s, _, stop := live(t)
	for _, c := range []struct {
		act  func(context.Context, Order) ([]string, error)
		o    Order
		want string
	}{
		{s.folder.Break, Order{Kind: "all"}, "can only be healed"},
		{s.folder.Heal, Order{Kind: "cluster", Name: "us-a", Fault: "slow"}, "do not name one"},
		{s.folder.Break, Order{Kind: "region", Name: "mars"}, "choose one of us"},
	} {
		if _, err := c.act(t.Context(), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
	for _, st := range s.states(t.Context()) {
		if st.State != "up" {
			t.Errorf("%+v", st)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestSupervisorSocketIsTheUsersOnly(t *testing.T) {
	s, _, stop := live(t)
	info, err := os.Stat(string(s.folder))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("state folder: %v, %v", info.Mode(), err)
	}
	var r reply
	err = s.folder.ask(t.Context(), http.MethodPost, "/break", "not an order", &r)
	if err == nil || !strings.Contains(err.Error(), "cannot unmarshal") {
		t.Errorf("nonsense = %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
