package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"anabranch/cmd/anabranch/client"
)

// supervisor carries out orders on a fleet that runs.
type supervisor struct {
	*fleet
	started time.Time

	orders sync.Mutex // one order at a time

	state  sync.Mutex // guards what follows
	phase  string     // starting, ready, stopping
	faults map[string]string
}

func (s *supervisor) enter(phase string) {
	s.state.Lock()
	defer s.state.Unlock()
	s.phase = phase
}

// Status is what `anabranch dev status` tells.
type Status struct {
	PID     int       `json:"pid"`
	Phase   string    `json:"phase"`
	Started time.Time `json:"started"`
	// Leader is the node that leads; empty: nobody, or nobody says.
	Leader string  `json:"leader"`
	Units  []State `json:"units"`
	// Faults that are set, by CLUSTER/ENDPOINT or CLUSTER.
	Faults map[string]string `json:"faults"`
}

func (s *supervisor) status(ctx context.Context, pid int) Status {
	st := Status{PID: pid, Started: s.started, Units: s.states(ctx), Faults: map[string]string{}}
	if leader, err := s.leader(ctx); err == nil {
		st.Leader = leader
	}
	s.state.Lock()
	defer s.state.Unlock()
	st.Phase = s.phase
	for at, fault := range s.faults {
		st.Faults[at] = fault
	}
	return st
}

// api is a client of the control plane with the admin's token.
func (f *fleet) api(reason string) *client.Client {
	c := &client.Client{Token: f.record.Tokens.Admin, Reason: reason, HTTP: &http.Client{Timeout: 2 * probeTimeout}}
	for _, n := range f.record.ControlPlane {
		c.Servers = append(c.Servers, n.HTTP)
	}
	return c
}

// leader asks the nodes that run who leads.
func (f *fleet) leader(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var members struct {
		Items []struct {
			ID     string `json:"id"`
			Leader bool   `json:"leader"`
		} `json:"items"`
	}
	if err := f.api("").JSON(ctx, "/v1/controlplane/members", nil, &members); err != nil {
		return "", fmt.Errorf("%w: %w", errNoLeader, err)
	}
	for _, m := range members.Items {
		if m.Leader && slices.ContainsFunc(f.units, func(u Unit) bool { return u.Kind == KindNode && u.Name == m.ID && f.running(u) }) {
			return m.ID, nil
		}
	}
	return "", errNoLeader
}

// begin lets one order through while the fleet is ready.
func (s *supervisor) begin() (end func(), err error) {
	s.orders.Lock()
	s.state.Lock()
	phase := s.phase
	s.state.Unlock()
	if phase != phaseReady {
		s.orders.Unlock()
		return nil, fmt.Errorf("the fleet is %s; wait until it is ready", phase)
	}
	return s.orders.Unlock, nil
}

// breakdown does what the order says and tells what it did.
func (s *supervisor) breakdown(ctx context.Context, o Order) ([]string, error) {
	end, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	if o.Kind == "endpoint" && o.Fault == "" {
		o.Fault = DefaultFault
	}
	if o.Kind == "all" {
		return nil, errors.New(`kind "all" can only be healed; to end everything use "anabranch dev stop"`)
	}
	p, err := resolve(o, s.units, s.record, func() (string, error) { return s.leader(ctx) })
	if err != nil {
		return nil, err
	}
	if o.Fault != "" {
		return s.setFault(ctx, p, o)
	}
	done, err := s.kill(p.units)
	s.forgetFaults(p.units)
	for _, d := range done {
		s.say("- %s", d)
	}
	return done, err
}

// heal starts what is down of the order's units, and takes faults away.
func (s *supervisor) heal(ctx context.Context, o Order) ([]string, error) {
	end, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	if o.Fault != "" {
		return nil, errors.New("heal takes all faults away; do not name one")
	}
	if o.Kind == "region" {
		o.WithRouter = true
	}
	if o.Kind == "controlplane" && o.Name == "leader" {
		o.Name = "all" // the one that led is the one that is down
	}
	p, err := resolve(o, s.units, s.record, nil)
	if err != nil {
		return nil, err
	}
	if o.Kind == "endpoint" {
		return s.clearFaults(ctx, p.cluster, p.endpoint)
	}
	var done []string
	var down []Unit
	for _, u := range p.units {
		if !s.running(u) {
			down = append(down, u)
			continue
		}
		if u.Kind == KindCluster && s.hasFaults(u.Name) {
			cleared, err := s.clearFaults(ctx, u.Name, "")
			if err != nil {
				return done, err
			}
			done = append(done, cleared...)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, healWithin)
	defer cancel()
	if err := s.start(ctx, down); err != nil {
		return done, err
	}
	for _, u := range down {
		done = append(done, fmt.Sprintf("started %s (pid %d)", u.ID(), s.process(u).Status().PID))
	}
	if len(done) == 0 {
		done = []string{"nothing of it was down or had a fault"}
	}
	return done, nil
}

// healWithin bounds how long started units may take to come up.
const healWithin = 45 * time.Second

// admin is the URL of a cluster's admin page.
func (f *fleet) admin(cluster string) string {
	for _, c := range f.record.Clusters {
		if c.ID == cluster {
			return c.Admin
		}
	}
	return ""
}

func (s *supervisor) setFault(ctx context.Context, p plan, o Order) ([]string, error) {
	fault := map[string]any{"endpoint": p.endpoint, "fault": o.Fault}
	if o.Factor > 0 {
		fault["factor"] = o.Factor
	}
	if o.Ratio > 0 {
		fault["ratio"] = o.Ratio
	}
	body, err := json.Marshal(fault)
	if err != nil {
		return nil, err
	}
	if err := s.tell(ctx, http.MethodPost, p.cluster, "/faults", body); err != nil {
		return nil, err
	}
	at := strings.TrimSuffix(p.cluster+"/"+p.endpoint, "/")
	s.state.Lock()
	s.faults[at] = o.Fault
	s.state.Unlock()
	s.say("- fault %s set on %s", o.Fault, at)
	return []string{fmt.Sprintf("set fault %s on %s", o.Fault, at)}, nil
}

func (s *supervisor) clearFaults(ctx context.Context, cluster, endpoint string) ([]string, error) {
	query := url.Values{"endpoint": {endpoint}}
	if err := s.tell(ctx, http.MethodDelete, cluster, "/faults?"+query.Encode(), nil); err != nil {
		return nil, err
	}
	at := strings.TrimSuffix(cluster+"/"+endpoint, "/")
	s.state.Lock()
	for fault := range s.faults {
		if fault == at || strings.HasPrefix(fault, at+"/") {
			delete(s.faults, fault)
		}
	}
	s.state.Unlock()
	return []string{"took all faults from " + at}, nil
}

// tell sends to the admin page of a cluster.
func (s *supervisor) tell(ctx context.Context, method, cluster, path string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.admin(cluster)+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	h := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := h.Do(req)
	if err != nil {
		return fmt.Errorf("faults of %s: %w; if it is down, `anabranch dev heal cluster %s`", cluster, err, cluster)
	}
	defer func() { _ = resp.Body.Close() }() // the status says all
	if resp.StatusCode >= http.StatusMultipleChoices {
		var b bytes.Buffer
		if _, err := b.ReadFrom(http.MaxBytesReader(nil, resp.Body, 4096)); err != nil {
			return fmt.Errorf("faults of %s: %s", cluster, resp.Status)
		}
		return fmt.Errorf("faults of %s: %s: %s", cluster, resp.Status, strings.TrimSpace(b.String()))
	}
	return nil
}

func (s *supervisor) hasFaults(cluster string) bool {
	s.state.Lock()
	defer s.state.Unlock()
	for at := range s.faults {
		if at == cluster || strings.HasPrefix(at, cluster+"/") {
			return true
		}
	}
	return false
}

// forgetFaults of processes that are gone: a new one has none.
func (s *supervisor) forgetFaults(us []Unit) {
	s.state.Lock()
	defer s.state.Unlock()
	for _, u := range us {
		for at := range s.faults {
			if u.Kind == KindCluster && (at == u.Name || strings.HasPrefix(at, u.Name+"/")) {
				delete(s.faults, at)
			}
		}
	}
}
