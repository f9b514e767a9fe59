package identity

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// leaf makes a certificate, changed as a test wants it (nil: not), and gives PEM.
func (a *authority) leaf(who Identity, change func(*x509.Certificate)) (cert, key []byte) {
	a.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		URIs: []*url.URL{who.URI()}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(template)
	}
	a.sign(template, a.cert, a.key, "leaf")
	return a.read("leaf.pem"), a.read("leaf.key")
}

func (a *authority) read(name string) []byte {
	a.t.Helper()
	b, err := os.ReadFile(filepath.Join(a.dir, name))
	if err != nil {
		a.t.Fatal(err)
	}
	return b
}

// ca is the authority's own certificate.
func (a *authority) ca() []byte { return a.read("ca.pem") }

// party has files that a test changes.
type party struct {
	t *testing.T
	Files
	*Live
}

func newParty(t *testing.T, a *authority, who Identity) *party {
	t.Helper()
	dir := t.TempDir()
	p := &party{t: t, Files: Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CA: filepath.Join(dir, "ca.crt")}}
	p.put(p.CA, a.ca())
	p.certify(a, who)
	p.Live = open(t, p.Files)
	return p
}

func (p *party) put(path string, parts ...[]byte) {
	p.t.Helper()
	if err := os.WriteFile(path, bytes.Join(parts, nil), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *party) certify(a *authority, who Identity) {
	p.t.Helper()
	cert, key := a.leaf(who, nil)
	p.put(p.Cert, cert)
	p.put(p.Key, key)
}

// settle looks twice, and gives what the second look says.
func (p *party) settle() (Verdict, error) {
	p.t.Helper()
	if first, err := p.Check(time.Now()); first != Current && first != Changing || err != nil {
		p.t.Errorf("the first look at a change said %d already, %v", first, err)
	}
	return p.Check(time.Now())
}

// renew settles what must be taken.
func (p *party) renew() {
	p.t.Helper()
	if v, err := p.settle(); v != Renewed || err != nil {
		p.t.Fatalf("not renewed: %d, %v", v, err)
	}
}

// serial is that of the certificate that a handshake shows.
func (p *party) serial() *big.Int { return p.Config().Certificates[0].Leaf.SerialNumber }

func TestFilesThatChange(t *testing.T) {
	ours, next := newAuthority(t), newAuthority(t)
	for _, c := range []struct {
		name   string
		change func(*party)
		want   Verdict
		says   string
	}{
		{"not at all", func(*party) {}, Current, ""},
		{"written again as they were", func(p *party) { p.put(p.CA, ours.ca()) }, Current, ""},
		{"a new certificate", func(p *party) { p.certify(ours, Node("n1")) }, Renewed, ""},
		{"one more authority", func(p *party) { p.put(p.CA, ours.ca(), next.ca()) }, Renewed, ""},
		{"text between authorities", func(p *party) { p.put(p.CA, []byte("# ours\n"), ours.ca(), []byte("# next\n"), next.ca()) }, Renewed, ""},
		{"everything of another authority", func(p *party) { p.certify(next, Node("n1")); p.put(p.CA, next.ca()) }, Renewed, ""},
		{"another key", func(p *party) { _, key := ours.leaf(Node("n1"), nil); p.put(p.Key, key) }, Refused, "tls.key"},
		{"no key", func(p *party) { p.put(p.Key) }, Refused, "tls.key"},
		{"no certificate", func(p *party) { p.put(p.Cert, []byte("nothing")) }, Refused, "no PEM certificate"},
		{"half a certificate", func(p *party) { cert, _ := ours.leaf(Node("n1"), nil); p.put(p.Cert, cert[:len(cert)/2]) }, Refused, "1 of 1 PEM blocks"},
		{"half a bundle", func(p *party) { p.put(p.CA, ours.ca(), next.ca()[:200]) }, Refused, "1 of 2 PEM blocks"},
		{"a bundle with a hole", func(p *party) { p.put(p.CA, next.ca()[:200], ours.ca()) }, Refused, "PEM blocks"},
		{"no authority", func(p *party) { p.put(p.CA) }, Refused, "ca.crt: no PEM certificate"},
		{"a file too many bytes long", func(p *party) { p.put(p.CA, make([]byte, maxFile+1)) }, Refused, "larger than"},
		{"a file that is gone", func(p *party) { _ = os.Remove(p.Key) }, Refused, "no such file"},
		{"a certificate that has ended", func(p *party) { p.special(ours, Node("n1"), -2*time.Hour, -time.Minute) }, Refused, "has ended"},
		{"a certificate of tomorrow", func(p *party) { p.special(ours, Node("n1"), 24*time.Hour, 48*time.Hour) }, Refused, "begins at"},
		{"somebody else's certificate", func(p *party) { p.certify(ours, Node("n2")) }, Refused, "is of anabranch://node/n2, this is anabranch://node/n1"},
		{"a certificate of nobody", func(p *party) {
			cert, key := ours.leaf(Node("n1"), func(c *x509.Certificate) { c.URIs = nil })
			p.put(p.Cert, cert)
			p.put(p.Key, key)
		}, Refused, ErrNone.Error()},
		{"the certificate before its authority", func(p *party) { p.certify(next, Node("n1")) }, Refused, "none of the authorities"},
		{"the authority taken away before the certificate", func(p *party) { p.put(p.CA, next.ca()) }, Refused, "none of the authorities"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newParty(t, ours, Node("n1"))
			before := p.Config()
			c.change(p)
			got, err := p.settle()
			if got != c.want || (err != nil) != (c.want == Refused) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%d, %v, want %d with %q", got, err, c.want, c.says)
			}
			after := p.Config()
			if same := after.Certificates[0].Leaf.Equal(before.Certificates[0].Leaf) && after.RootCAs.Equal(before.RootCAs); same == (c.want == Renewed) {
				t.Errorf("in force is what was before: %v", same)
			}
			if c.want != Refused {
				return
			}
			if again, err := p.Check(time.Now()); again != Refused || err == nil {
				t.Errorf("the next look says %d, %v", again, err)
			}
			p.put(p.CA, ours.ca())
			p.certify(ours, Node("n1"))
			p.renew()
		})
	}
}

// special certifies who from and to so long after now.
func (p *party) special(a *authority, who Identity, from, to time.Duration) {
	p.t.Helper()
	cert, key := a.leaf(who, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = time.Now().Add(from), time.Now().Add(to) })
	p.put(p.Cert, cert)
	p.put(p.Key, key)
}

func TestACertificateOfTomorrowIsTakenTomorrow(t *testing.T) {
	a := newAuthority(t)
	a.cert.NotAfter = time.Now().Add(72 * time.Hour)
	p := newParty(t, a, Node("n1"))
	p.put(p.CA, a.ca())
	p.special(a, Node("n1"), 10*time.Minute, time.Hour)
	if v, _ := p.settle(); v != Refused {
		t.Fatalf("%d", v)
	}
	if v, err := p.Check(time.Now().Add(11 * time.Minute)); v != Renewed || err != nil {
		t.Errorf("%d, %v", v, err)
	}
}

// Whoever was started with what is not quite right may be given the like: nothing gets worse.
func TestWhatWasWrongAtTheStartMayStaySo(t *testing.T) {
	ours, other := newAuthority(t), newAuthority(t)
	p := newParty(t, ours, Node("n1"))
	p.special(other, Identity{}, -2*time.Hour, -time.Hour)
	p.Live = open(t, p.Files)
	if p.Ends().After(time.Now()) {
		t.Fatal("it has not ended")
	}
	p.certify(other, Node("n1"))
	p.renew()
	if p.Ends().Before(time.Now()) {
		t.Error("the good one is not in force")
	}
}

func TestFilesThatAreBeingWrittenAreLeftInPeace(t *testing.T) {
	a := newAuthority(t)
	p := newParty(t, a, Node("n1"))
	before := p.serial()
	cert, key := a.leaf(Node("n1"), nil)
	look := func(want Verdict) {
		t.Helper()
		if v, err := p.Check(time.Now()); v != want || err != nil {
			t.Fatalf("%d, %v, want %d", v, err, want)
		}
	}
	p.put(p.Cert, cert[:100])
	look(Changing)
	p.put(p.Cert, cert)
	look(Changing)
	p.put(p.Key, key)
	look(Changing)
	if p.serial().Cmp(before) != 0 {
		t.Error("taken already")
	}
	look(Renewed)
	look(Current)
}

// Kubernetes swaps a link above all files at once.
func TestAFolderThatIsSwappedByALink(t *testing.T) {
	a := newAuthority(t)
	dir := t.TempDir()
	fill := func(version string) {
		sub := filepath.Join(dir, version)
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		cert, key := a.leaf(Node("n1"), nil)
		for name, b := range map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": a.ca()} {
			if err := os.WriteFile(filepath.Join(sub, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		link := filepath.Join(dir, "new")
		if err := errors.Join(os.Symlink(version, link), os.Rename(link, filepath.Join(dir, "data"))); err != nil {
			t.Fatal(err)
		}
	}
	fill("1")
	at := func(name string) string { return filepath.Join(dir, "data", name) }
	p := &party{t: t, Files: Files{Cert: at("tls.crt"), Key: at("tls.key"), CA: at("ca.crt")}}
	p.Live = open(t, p.Files)
	before := p.serial()
	fill("2")
	p.renew()
	if p.serial().Cmp(before) == 0 {
		t.Error("the old certificate is shown")
	}
}

func TestWhenAuthoritiesEnd(t *testing.T) {
	now := time.Now()
	long, short, over := newAuthority(t), newAuthority(t), newAuthority(t)
	for a, in := range map[*authority]time.Duration{long: 3 * time.Hour, short: 2 * time.Hour, over: -time.Minute} {
		a.cert, a.key = a.sign(&x509.Certificate{
			SerialNumber: big.NewInt(1), NotAfter: now.Add(in), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		}, nil, nil, "ca")
	}
	p := newParty(t, long, Node("n1"))
	p.put(p.CA, over.ca(), long.ca(), short.ca())
	p.renew()
	for at, want := range map[time.Duration]*authority{0: short, 150 * time.Minute: long, 4 * time.Hour: long} {
		if got := p.AuthorityEnds(now.Add(at)); !got.Equal(want.cert.NotAfter) {
			t.Errorf("in %s: %s, want %s", at, got, want.cert.NotAfter)
		}
	}
	front := open(t, Files{Cert: p.Cert, Key: p.Key})
	if !front.AuthorityEnds(now).IsZero() {
		t.Error("a server that asks for no certificates has an authority")
	}
}

// The step-by-step way from one authority to the next, with a handshake each way between each two.
func TestAuthoritiesAreReplacedWithoutAFailedHandshake(t *testing.T) {
	old, next := newAuthority(t), newAuthority(t)
	a, b := newParty(t, old, Node("a")), newParty(t, old, Node("b"))
	server := map[*party]*tls.Config{a: a.Server(KindNode), b: b.Server(KindNode)} // for good
	meet := func(step string) {
		t.Helper()
		for _, ends := range [][2]*party{{a, b}, {b, a}} {
			serverErr, clientErr := handshake(t, server[ends[0]], dialling(ends[1].Config(KindNode)))
			if serverErr != nil || clientErr != nil {
				t.Fatalf("%s: server %v, client %v", step, serverErr, clientErr)
			}
		}
	}
	meet("before")
	for _, step := range []struct {
		name string
		do   func(*party, Identity)
	}{
		{"both authorities", func(p *party, _ Identity) { p.put(p.CA, old.ca(), next.ca()) }},
		{"certificates of the new one", func(p *party, who Identity) { p.certify(next, who) }},
		{"the new one only", func(p *party, _ Identity) { p.put(p.CA, next.ca()) }},
	} {
		step.do(a, Node("a"))
		a.renew()
		meet(step.name + " here")
		step.do(b, Node("b"))
		b.renew()
		meet(step.name + " there")
	}
	late := newParty(t, old, Node("c"))
	late.put(late.CA, old.ca(), next.ca())
	late.renew()
	if serverErr, _ := handshake(t, server[a], dialling(late.Config(KindNode))); serverErr == nil {
		t.Error("a certificate of the authority that was taken away is let in")
	}
	if _, clientErr := handshake(t, late.Server(KindNode), dialling(a.Config(KindNode))); clientErr == nil {
		t.Error("a server of the authority that was taken away is trusted")
	}
}

func TestNamesAndAddressesOfServersAreVerified(t *testing.T) {
	a := newAuthority(t)
	server, client := newParty(t, a, Node("n1")), newParty(t, a, Router("eu", "r1"))
	for name, ok := range map[string]bool{"127.0.0.1": true, "localhost": true, "127.0.0.2": false, "elsewhere": false} {
		config := client.Config(KindNode)
		config.ServerName = name
		if _, err := handshake(t, server.Server(KindRouter), config); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A session begun when an authority was trusted must not outlive that trust.
func TestNoSessionIsResumed(t *testing.T) {
	a, next := newAuthority(t), newAuthority(t)
	server, client := newParty(t, a, Node("n1")), newParty(t, a, Router("eu", "r1"))
	config := dialling(client.Config(KindNode))
	config.SessionTicketsDisabled = false
	config.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	resumed := false
	verify := config.VerifyConnection
	config.VerifyConnection = func(s tls.ConnectionState) error {
		resumed = resumed || s.DidResume
		return verify(s)
	}
	listener := server.Server(KindRouter)
	for range 2 {
		if serverErr, clientErr := handshake(t, listener, config); serverErr != nil || clientErr != nil {
			t.Fatal(serverErr, clientErr)
		}
	}
	if resumed {
		t.Error("a session was resumed")
	}
	server.put(server.CA, next.ca())
	server.certify(next, Node("n1"))
	server.renew()
	config.RootCAs.AppendCertsFromPEM(next.ca())
	if serverErr, _ := handshake(t, listener, config); serverErr == nil {
		t.Error("the client of an authority that was taken away is let in")
	}
}

// TestWithoutAnAuthorityNobodyIsTrusted: crypto/tls would take those of the system instead.
func TestWithoutAnAuthorityNobodyIsTrusted(t *testing.T) {
	a := newAuthority(t)
	p := newParty(t, a, Node("n1"))
	p.CA = ""
	c := open(t, p.Files).Config(KindNode)
	if c.ClientCAs == nil || c.RootCAs == nil || !c.ClientCAs.Equal(x509.NewCertPool()) || !c.RootCAs.Equal(x509.NewCertPool()) {
		t.Error("it trusts authorities that nobody named")
	}
}

func TestAFrontShowsTheCertificateOfTheDay(t *testing.T) {
	a := newAuthority(t)
	p := newParty(t, a, Node("n1"))
	p.CA = ""
	p.Live = open(t, p.Files)
	front := p.Front()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.ca())
	var shown *big.Int
	client := &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", VerifyConnection: func(s tls.ConnectionState) error {
		shown = s.PeerCertificates[0].SerialNumber
		return nil
	}}
	for range 2 {
		if serverErr, clientErr := handshake(t, front, client); serverErr != nil || clientErr != nil {
			t.Fatal(serverErr, clientErr)
		}
		if shown.Cmp(p.serial()) != 0 {
			t.Errorf("shown %v, in force %v", shown, p.serial())
		}
		p.certify(a, Node("n1"))
		p.renew()
	}
}

func TestAListenerForOthersTakesAnyNameOfItsAuthorities(t *testing.T) {
	ours, foreign := newAuthority(t), newAuthority(t)
	server := newParty(t, ours, Router("us-east-1", "r1"))
	listener := server.Mutual()
	pair := func(a *authority) []tls.Certificate {
		cert, key := a.leaf(Node("n1"), func(c *x509.Certificate) { c.URIs, c.DNSNames = nil, []string{"envoy"} })
		p, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{p}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ours.ca())
	dial := func(certificates []tls.Certificate, most uint16) error {
		serverErr, clientErr := handshake(t, listener, dialling(&tls.Config{RootCAs: pool, Certificates: certificates, MaxVersion: most}))
		return errors.Join(serverErr, clientErr)
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		if err := dial(pair(ours), version); err != nil {
			t.Errorf("one of ours, %s: %v", tls.VersionName(version), err)
		}
		if dial(pair(foreign), version) == nil || dial(nil, version) == nil {
			t.Errorf("somebody of another authority, or nobody, is let in with %s", tls.VersionName(version))
		}
	}
	before := pair(ours)
	server.certify(foreign, Router("us-east-1", "r1"))
	server.put(server.CA, foreign.ca())
	server.renew()
	if pool.AppendCertsFromPEM(foreign.ca()); dial(before, 0) == nil || dial(pair(foreign), 0) != nil {
		t.Error("the authorities of the start are still in force")
	}
}
