package instance

import (
	"crypto/tls"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"anabranch/api/identity"
	"anabranch/api/routerpb"
)

// asEnvoy asks for a request of acme's.
func asEnvoy(t *testing.T, address string, as credentials.TransportCredentials) (rlsv3.RateLimitResponse_Code, error) {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(as))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}()
	out, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rlsv3.RateLimitRequest{
		Domain: "anabranch",
		Descriptors: []*ratelimitv3.RateLimitDescriptor{{
			Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "tenant", Value: "acme"}},
		}},
	})
	return out.GetOverallCode(), err
}

// oneRequest limits acme to one request an hour.
func oneRequest(pb *routerpb.Table) {
	pb.Quotas = []*routerpb.Quota{{Id: "one", Tenant: "acme", Kind: "requests", Limit: 1, PeriodMs: 3600_000, Burst: 1, Share: 1, Degraded: "share"}}
}

func TestEnvoyHasNoDoorUnlessOneIsAskedFor(t *testing.T) {
	f := newFixture(t)
	r := f.start(f.options())
	if at := r.Addresses().RLS; at != "" {
		t.Errorf("there is a door at %s", at)
	}
}

func TestEnvoyAsksForTheSameQuotas(t *testing.T) {
	f := newFixture(t)
	f.change = oneRequest
	o := f.options()
	o.RLSListen = "127.0.0.1:0"
	r := f.start(o)
	r.eventually("it is ready", r.ready)
	if code, err := asEnvoy(t, r.Addresses().RLS, insecure.NewCredentials()); code != rlsv3.RateLimitResponse_OK || err != nil {
		t.Fatalf("the first request: %v, %v", code, err)
	}
	if code, err := asEnvoy(t, r.Addresses().RLS, insecure.NewCredentials()); code != rlsv3.RateLimitResponse_OVER_LIMIT || err != nil {
		t.Errorf("the second: %v, %v", code, err)
	}
	r.stop()
	if err := r.ended(); err != nil {
		t.Error(err)
	}
}

func TestOnlyCertificatesOfTheDoorsAuthorityAreTaken(t *testing.T) {
	f, others := newFixture(t), newFixture(t)
	o := f.options()
	o.RLSListen, o.RLS = "127.0.0.1:0", o.TLS
	r := f.start(o)
	r.eventually("it is ready", r.ready)
	with := func(files identity.Files) credentials.TransportCredentials {
		c := &tls.Config{RootCAs: roots(f.authority)}
		if !files.Empty() {
			pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
			if err != nil {
				t.Fatal(err)
			}
			c.Certificates = []tls.Certificate{pair}
		}
		return credentials.NewTLS(c)
	}
	if code, err := asEnvoy(t, r.Addresses().RLS, with(o.TLS)); code != rlsv3.RateLimitResponse_OK || err != nil {
		t.Errorf("with a certificate: %v, %v", code, err)
	}
	for name, as := range map[string]credentials.TransportCredentials{
		"another authority's": with(others.options().TLS), "none": with(identity.Files{}), "no TLS": insecure.NewCredentials(),
	} {
		if code, err := asEnvoy(t, r.Addresses().RLS, as); err == nil {
			t.Errorf("with %s: %v", name, code)
		}
	}
}

func TestOptionsOfTheDoorThatAreWrongAreNamed(t *testing.T) {
	f := newFixture(t)
	for name, c := range map[string]struct {
		change func(*Options)
		says   string
	}{
		"plain for the network": {func(o *Options) { o.RLSListen = "0.0.0.0:8081" }, "--rls-cert"},
		"no port":               {func(o *Options) { o.RLSListen = "127.0.0.1" }, "--rls-listen"},
		"half of TLS":           {func(o *Options) { o.RLSListen, o.RLS.Cert = "127.0.0.1:0", "x.pem" }, "--rls-key is missing"},
		"TLS and no door":       {func(o *Options) { o.RLS = o.TLS }, "--rls-listen"},
		"an empty domain":       {func(o *Options) { o.RLSListen, o.RLSDomains = "127.0.0.1:0", []string{""} }, "--rls-domain"},
	} {
		o := f.options()
		c.change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	taken := f.start(f.options())
	o := f.options()
	o.DataDir = t.TempDir() // the other one writes to its own all the while
	o.RLSListen = taken.Addresses().Admin
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "--rls-listen") {
		t.Errorf("a port that is taken: %v", err)
	}
	o.RLSListen, o.RLS = "127.0.0.1:0", identity.Files{Cert: "none.pem", Key: "none.key", CA: "none.ca"}
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "--rls-cert") {
		t.Errorf("files that are not there: %v", err)
	}
}
