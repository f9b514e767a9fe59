package e2e

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"anabranch/api/identity"
	"anabranch/cmd/anabranch/pki"
)

// party is whoever has certificate files and tells of them at an address.
type party struct {
	metrics string
	files   identity.Files
	issue   func(*pki.Authority) (pki.Pair, error)
}

func (s *System) parties() []party {
	var out []party
	for _, n := range s.nodes {
		out = append(out, party{"http://" + n.at.HTTP + "/metrics", n.options.TLS, func(a *pki.Authority) (pki.Pair, error) {
			return a.Node(string(n.options.ID), time.Now())
		}})
	}
	for region, r := range s.routers {
		out = append(out, party{r.admin() + "/metrics", r.options.TLS, func(a *pki.Authority) (pki.Pair, error) {
			return a.Router(region, string(r.options.Router), time.Now())
		}})
	}
	return out
}

// rotate replaces the authority of all nodes and routers, and their certificates, as operators do:
// first all trust both, then all get new certificates, then nobody trusts the old one any more.
func (s *System) rotate() {
	s.t.Helper()
	old := s.authority
	next, err := pki.NewAuthority(time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	s.authority = next
	trust := func(p party, bundle ...*pki.Authority) error {
		var text []byte
		for _, a := range bundle {
			text = append(text, a.Pair().Cert...)
		}
		return os.WriteFile(p.files.CA, text, 0o600)
	}
	for i, step := range []func(party) error{
		func(p party) error { return trust(p, old, next) },
		func(p party) error {
			pair, err := p.issue(next)
			return errors.Join(err, os.WriteFile(p.files.Cert, pair.Cert, 0o600), os.WriteFile(p.files.Key, pair.Key, 0o600))
		},
		func(p party) error { return trust(p, next) },
	} {
		for _, p := range s.parties() {
			if err := step(p); err != nil {
				s.t.Fatal(err)
			}
		}
		want := fmt.Sprintf("anabranch_tls_reloads_total{outcome=\"renewed\",use=\"tls\"} %d\n", i+1)
		for _, p := range s.parties() {
			s.await(15*time.Second, p.files.Cert+" and what goes with it to be read again", func() error {
				if _, text := s.get(p.metrics); !strings.Contains(text, want) {
					return errNotYet
				}
				return nil
			})
		}
	}
}

// whole says what is not connected as it should be: nodes among each other, or routers to a node.
func (s *System) whole() error {
	var members struct {
		Items []struct {
			ID      string
			Healthy bool
		}
	}
	if err := s.admin.JSON(s.t.Context(), "/v1/controlplane/members", nil, &members); err != nil {
		return err
	}
	for _, m := range members.Items {
		if !m.Healthy {
			return fmt.Errorf("node %s is not healthy", m.ID)
		}
	}
	if len(members.Items) != len(s.nodes) {
		return fmt.Errorf("%d members", len(members.Items))
	}
	for region, r := range s.routers {
		if _, text := s.get(r.admin() + "/metrics"); !strings.Contains(text, "\nanabranch_router_control_connected 1\n") {
			return fmt.Errorf("the router of %s has no control plane", region)
		}
	}
	return nil
}
