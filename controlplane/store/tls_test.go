package store

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"anabranch/api/fleet"
)

// rotating is a mux whose certificate and authorities a test changes.
type rotating struct {
	*mux
	id   fleet.NodeID
	held atomic.Pointer[tls.Config]
}

func startRotating(t *testing.T, id fleet.NodeID, c *tls.Config) *rotating {
	t.Helper()
	r := &rotating{id: id}
	r.held.Store(c)
	r.mux = startMux(t, hello{Cluster: "c", Node: id}, r.held.Load)
	return r
}

// take puts a certificate of by in force, and trust in what trusted have signed.
func (r *rotating) take(t *testing.T, by *authority, trusted ...*authority) {
	t.Helper()
	c := by.config(t, "anabranch://node/"+string(r.id))
	c.RootCAs = x509.NewCertPool()
	for _, a := range trusted {
		c.RootCAs.AddCert(a.cert)
	}
	c.ClientCAs = c.RootCAs
	r.held.Store(c)
}

// meet connects from one mux to the other.
func meet(t *testing.T, from, to *mux) (out, in net.Conn) {
	t.Helper()
	out, err := from.dial(t.Context(), kindRaft, to.at())
	if err != nil {
		t.Fatal(err)
	}
	in, err = to.raft.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return out, in
}

func TestAuthoritiesOfNodesAreReplacedWhileTheyRun(t *testing.T) {
	old, next := newAuthority(t), newAuthority(t)
	a := startRotating(t, "n1", old.config(t, "anabranch://node/n1"))
	b := startRotating(t, "n2", old.config(t, "anabranch://node/n2"))
	firstOut, firstIn := meet(t, a.mux, b.mux)
	for _, step := range []struct {
		by      *authority
		trusted []*authority
	}{{old, []*authority{old, next}}, {next, []*authority{old, next}}, {next, []*authority{next}}} {
		for _, r := range []*rotating{a, b} {
			r.take(t, step.by, step.trusted...)
			for _, ends := range [][2]*mux{{a.mux, b.mux}, {b.mux, a.mux}} {
				out, in := meet(t, ends[0], ends[1])
				_ = errors.Join(out.Close(), in.Close()) // closed by the other end, maybe
			}
		}
	}
	late := startRotating(t, "n3", old.config(t, "anabranch://node/n3"))
	late.take(t, old, old, next)
	if c, err := late.dial(t.Context(), kindRaft, a.at()); err == nil {
		t.Error("a certificate of the authority that was taken away is let in", c.Close())
	}
	if c, err := a.dial(t.Context(), kindRaft, late.at()); err == nil {
		t.Error("a node of the authority that was taken away is trusted", c.Close())
	}
	go func() { _, _ = io.WriteString(firstOut, "payload") }() // a failure shows at the other end
	if got, err := io.ReadAll(io.LimitReader(firstIn, 7)); string(got) != "payload" || err != nil {
		t.Errorf("over the connection from before: %q, %v", got, err)
	}
}

// What the owner of a configuration asks of peers is asked beside what the store asks.
func TestTheOwnersVerificationCounts(t *testing.T) {
	ca := newAuthority(t)
	for name, end := range map[string]string{"who accepts": "n1", "who dials": "n2"} {
		t.Run(name, func(t *testing.T) {
			asked := false
			with := func(id string) func() *tls.Config {
				c := ca.config(t, "anabranch://node/"+id)
				if id == end {
					c.VerifyConnection = func(s tls.ConnectionState) error {
						asked = len(s.PeerCertificates) == 1
						return errors.New("not today")
					}
				}
				return func() *tls.Config { return c }
			}
			server := startMux(t, hello{Cluster: "c", Node: "n1"}, with("n1"))
			client := startMux(t, hello{Cluster: "c", Node: "n2"}, with("n2"))
			if c, err := client.dial(t.Context(), kindRaft, server.at()); err == nil {
				t.Error("connected", c.Close())
			}
			if !asked {
				t.Error("the owner was not asked")
			}
		})
	}
}
