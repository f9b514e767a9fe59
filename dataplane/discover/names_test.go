package discover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

var (
	hostSpec = table.Discovery{Kind: table.DiscoverDNS, Name: "vllm.ml.test.", Port: 8000, Scheme: "http"}
	srvSpec  = table.Discovery{Kind: table.DiscoverSRV, Name: "_http._tcp.vllm.ml.test.", Port: 8000, Scheme: "https"}
)

// ask looks once through a resolver; checked puts what is found in order.
func ask(t *testing.T, r Resolver, spec table.Discovery) ([]table.Endpoint, error) {
	t.Helper()
	look := addresses
	if spec.Kind == table.DiscoverSRV {
		look = services
	}
	list, err := (&names{resolver: r, look: look}).once(t.Context(), spec)
	if err != nil {
		return nil, err
	}
	return check(list, "")
}

func ids(list []table.Endpoint) string {
	var out []string
	for _, e := range list {
		out = append(out, string(e.ID)+"="+e.URL)
	}
	return strings.Join(out, " ")
}

func TestAHostsAddressesAreEndpoints(t *testing.T) {
	s := startNameServer(t)
	for name, c := range map[string]struct {
		records []dnsmessage.ResourceBody
		want    string
	}{
		"one":               {[]dnsmessage.ResourceBody{a(1)}, "10.0.0.1:8000=http://10.0.0.1:8000"},
		"in any order":      {[]dnsmessage.ResourceBody{a(2), a(1)}, "10.0.0.1:8000=http://10.0.0.1:8000 10.0.0.2:8000=http://10.0.0.2:8000"},
		"twice the same":    {[]dnsmessage.ResourceBody{a(1), a(1)}, "10.0.0.1:8000=http://10.0.0.1:8000"},
		"IPv6":              {[]dnsmessage.ResourceBody{aaaa(1)}, "[fd00::1]:8000=http://[fd00::1]:8000"},
		"both families":     {[]dnsmessage.ResourceBody{aaaa(1), a(1)}, "10.0.0.1:8000=http://10.0.0.1:8000 [fd00::1]:8000=http://[fd00::1]:8000"},
		"IPv4 inside IPv6":  {[]dnsmessage.ResourceBody{&dnsmessage.AAAAResource{AAAA: netip.MustParseAddr("::ffff:10.0.0.1").As16()}, a(1)}, "10.0.0.1:8000=http://10.0.0.1:8000"},
		"none but it is":    {nil, ""},
		"only other things": {[]dnsmessage.ResourceBody{srv(0, 1, "x.test.")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s.set(hostSpec.Name, c.records...)
			got, err := ask(t, s.resolver(), hostSpec)
			if err != nil || ids(got) != c.want {
				t.Errorf("got %q, %v", ids(got), err)
			}
		})
	}
}

func TestWhatDoesNotFitIntoAPacketComesOverTCP(t *testing.T) {
	s := startNameServer(t)
	var records []dnsmessage.ResourceBody
	for i := range 1000 {
		records = append(records, a(1, byte(i>>8), byte(i)))
	}
	s.set(hostSpec.Name, records...)
	got, err := ask(t, s.resolver(), hostSpec)
	if err != nil || len(got) != 1000 {
		t.Fatalf("%d, %v", len(got), err)
	}
	if s.times("tcp") == 0 {
		t.Error("it came over UDP, so the test shows nothing")
	}
}

func TestAnAnswerThatIsNoneIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(s *nameServer)
		says string
	}{
		"no such name": {func(*nameServer) {}, "no such host"},
		"SERVFAIL": {func(s *nameServer) {
			s.set(hostSpec.Name, a(1))
			s.fail(hostSpec.Name, dnsmessage.RCodeServerFailure)
		}, "server misbehaving"},
		"REFUSED": {func(s *nameServer) {
			s.set(hostSpec.Name, a(1))
			s.fail(hostSpec.Name, dnsmessage.RCodeRefused)
		}, "server misbehaving"},
		"silence": {func(s *nameServer) {
			s.set(hostSpec.Name, a(1))
			s.hush(hostSpec.Name, dnsmessage.TypeA)
			s.hush(hostSpec.Name, dnsmessage.TypeAAAA)
		}, ""},
		"one family only": {func(s *nameServer) {
			s.set(hostSpec.Name, a(1), aaaa(1))
			s.fail(hostSpec.Name, dnsmessage.RCodeServerFailure, dnsmessage.TypeAAAA)
		}, "server misbehaving"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startNameServer(t)
			c.do(s)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			list, err := addresses(ctx, s.resolver(), hostSpec)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %q, %v", ids(list), err)
			}
		})
	}
}

func TestAServiceIsItsRecordsOfTheFirstPriority(t *testing.T) {
	for name, c := range map[string]struct {
		records []dnsmessage.ResourceBody
		do      func(s *nameServer)
		want    string
		says    string
	}{
		"ports of the records": {
			records: []dnsmessage.ResourceBody{srv(10, 8001, "p0.test."), srv(10, 8002, "p1.test.")},
			want:    "10.0.0.1:8001=https://10.0.0.1:8001 10.0.0.2:8002=https://10.0.0.2:8002 [fd00::2]:8002=https://[fd00::2]:8002",
		},
		"two ports of one target": {
			records: []dnsmessage.ResourceBody{srv(0, 8001, "p0.test."), srv(0, 8002, "p0.test.")},
			want:    "10.0.0.1:8001=https://10.0.0.1:8001 10.0.0.1:8002=https://10.0.0.1:8002",
		},
		"twice the same": {
			records: []dnsmessage.ResourceBody{srv(0, 8001, "p0.test."), srv(0, 8001, "p0.test.")},
			want:    "10.0.0.1:8001=https://10.0.0.1:8001",
		},
		"a port that isn't said": {
			records: []dnsmessage.ResourceBody{srv(0, 0, "p0.test.")},
			want:    "10.0.0.1:8000=https://10.0.0.1:8000",
		},
		"the lowest number comes first": {
			records: []dnsmessage.ResourceBody{srv(20, 8001, "p0.test."), srv(10, 8002, "p1.test."), srv(30, 8003, "broken.test.")},
			want:    "10.0.0.2:8002=https://10.0.0.2:8002 [fd00::2]:8002=https://[fd00::2]:8002",
		},
		"a target that has gone is left out": {
			records: []dnsmessage.ResourceBody{srv(0, 8001, "p0.test."), srv(0, 8001, "gone.test.")},
			want:    "10.0.0.1:8001=https://10.0.0.1:8001",
		},
		"all targets have gone": {
			records: []dnsmessage.ResourceBody{srv(0, 8001, "gone.test."), srv(0, 8001, "bare.test.")},
			says:    "none of the 2 targets",
		},
		"a target that can't be asked for spoils the look": {
			records: []dnsmessage.ResourceBody{srv(0, 8001, "p0.test."), srv(0, 8001, "broken.test.")},
			says:    "target broken.test.",
		},
		"decidedly not there": {records: []dnsmessage.ResourceBody{srv(0, 0, ".")}},
		"no records":          {},
		"no such name":        {do: func(s *nameServer) { s.fail(srvSpec.Name, dnsmessage.RCodeNameError) }, says: "no such host"},
		"SERVFAIL":            {do: func(s *nameServer) { s.fail(srvSpec.Name, dnsmessage.RCodeServerFailure) }, says: "server misbehaving"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startNameServer(t)
			s.set("p0.test.", a(1))
			s.set("p1.test.", a(2), aaaa(2))
			s.set("bare.test.")
			s.fail("broken.test.", dnsmessage.RCodeServerFailure)
			s.set(srvSpec.Name, c.records...)
			if c.do != nil {
				c.do(s)
			}
			got, err := ask(t, s.resolver(), srvSpec)
			switch {
			case c.says == "" && (err != nil || ids(got) != c.want):
				t.Errorf("got %q, %v", ids(got), err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), srvSpec.Name)):
				t.Errorf("got %q, %v", ids(got), err)
			}
		})
	}
}

func TestManyTargetsAreAskedFor(t *testing.T) {
	s := startNameServer(t)
	var records []dnsmessage.ResourceBody
	for i := range 200 {
		target := fmt.Sprintf("p%d.test.", i)
		s.set(target, a(byte(i)))
		records = append(records, srv(0, 8000, target))
	}
	s.set(srvSpec.Name, records...)
	got, err := ask(t, s.resolver(), srvSpec)
	if err != nil || len(got) != 200 {
		t.Errorf("%d, %v", len(got), err)
	}
}

// script is a resolver that answers a host's addresses from a list, the last one for ever.
type script struct {
	mu      sync.Mutex // guards all below
	answers []answer
	at      []time.Time
}

// asked is when it was asked.
func (s *script) asked() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.at)
}

type answer struct {
	last []byte
	err  error
}

func (s *script) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = append(s.at, time.Now())
	n := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	var out []netip.Addr
	for _, l := range n.last {
		out = append(out, netip.AddrFrom4([4]byte{10, 0, 0, l}))
	}
	return out, n.err
}

func (s *script) LookupSRV(context.Context, string, string, string) (string, []*net.SRV, error) {
	return "", nil, errors.New("not asked for")
}

func TestTroubleWithNamesKeepsTheList(t *testing.T) {
	away := errors.New("server misbehaving")
	one, none, bad := answer{last: []byte{1}}, answer{}, answer{err: away}
	for name, c := range map[string]struct {
		answers []answer
		want    []string // the list after each look, "!" behind it if the look was in vain
	}{
		"an error":                        {[]answer{one, bad, one}, []string{"1", "1!", "1"}},
		"empty thrice":                    {[]answer{one, none, none, none, none}, []string{"1", "1!", "1!", "", ""}},
		"empty twice":                     {[]answer{one, none, none, one}, []string{"1", "1!", "1!", "1"}},
		"flapping":                        {[]answer{one, none, one, none, none, one}, []string{"1", "1!", "1", "1!", "1!", "1"}},
		"an error between the empty ones": {[]answer{one, none, none, bad, none, none, none}, []string{"1", "1!", "1!", "1!", "1!", "1!", ""}},
		"empty at first":                  {[]answer{none, none, none}, []string{"!", "!", ""}},
		"back from empty":                 {[]answer{none, none, none, one}, []string{"!", "!", "", "1"}},
		"away at first":                   {[]answer{bad, one}, []string{"!", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &script{answers: c.answers}
				f := &names{resolver: r, look: addresses, period: 5 * time.Second, random: func() float64 { return 0.5 }}
				s := watched(t, f, hostSpec)
				for i, want := range c.want {
					for len(r.asked()) < i+1 {
						pass(100 * time.Millisecond)
					}
					got := ""
					for _, e := range s.now().list {
						got += strings.TrimSuffix(strings.TrimPrefix(string(e.ID), "10.0.0."), ":8000")
					}
					if s.now().err != nil {
						got += "!"
					}
					if got != want {
						t.Errorf("after look %d: %q, want %q", i+1, got, want)
					}
				}
			})
		})
	}
}

func TestLooksAreSpreadAndTheFirstOnesHurry(t *testing.T) {
	for random, want := range map[float64]time.Duration{0: 4 * time.Second, 0.5: 5 * time.Second, 1: 6 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			r := &script{answers: []answer{{err: errors.New("away")}, {err: errors.New("away")}, {last: []byte{1}}, {err: errors.New("away")}, {last: []byte{1}}}}
			watched(t, &names{resolver: r, look: addresses, period: 5 * time.Second, random: func() float64 { return random }}, hostSpec)
			pass(30 * time.Second)
			at := r.asked()
			var pauses []time.Duration
			for i := 1; i < 5; i++ {
				pauses = append(pauses, at[i].Sub(at[i-1]).Round(time.Millisecond))
			}
			if wanted := []time.Duration{time.Second, time.Second, want, want}; !reflect.DeepEqual(pauses, wanted) {
				t.Errorf("random %v: %v, want %v", random, pauses, wanted)
			}
		})
	}
}

func TestANameServerThatHangsIsWaitedForFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &names{period: 5 * time.Second, random: func() float64 { return 0.5 }, look: func(ctx context.Context, _ Resolver, _ table.Discovery) ([]table.Endpoint, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		s := watched(t, f, hostSpec)
		pass(4900 * time.Millisecond)
		if s.now().times != 0 {
			t.Fatalf("told after 4.9 s: %v", s.now().err)
		}
		pass(200 * time.Millisecond)
		if s.now().times != 1 || !errors.Is(s.now().err, context.DeadlineExceeded) {
			t.Errorf("told %d times, %v", s.now().times, s.now().err)
		}
	})
}

func TestNamesAreFoundFromEndToEnd(t *testing.T) {
	s := startNameServer(t)
	s.set(hostSpec.Name, a(1))
	got := make(chan string, 100)
	d, err := New(Options{
		Resolver: s.resolver(), DNSPeriod: 5 * time.Millisecond,
		Found: func(_ fleet.ClusterID, list []table.Endpoint) { got <- ids(list) },
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, d)
	spec := hostSpec
	d.Sync(tables(map[string]*table.Discovery{"c": &spec}))
	expect := func(what, want string) {
		t.Helper()
		select {
		case list := <-got:
			if list != want {
				t.Fatalf("%s: found %q, want %q", what, list, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: nothing within 10 s; %+v", what, d.Status())
		}
	}
	expect("at first", "10.0.0.1:8000=http://10.0.0.1:8000")
	s.set(hostSpec.Name, a(1), a(2))
	expect("a second", "10.0.0.1:8000=http://10.0.0.1:8000 10.0.0.2:8000=http://10.0.0.2:8000")
	s.fail(hostSpec.Name, dnsmessage.RCodeServerFailure)
	until(t, "failures are counted", func() bool { st := d.Status()[0]; return st.Failures >= 3 && st.Error != "" && st.Endpoints == 2 })
	s.fail(hostSpec.Name, dnsmessage.RCodeSuccess)
	s.set(hostSpec.Name)
	expect("emptied", "")
	s.set(hostSpec.Name, aaaa(7))
	expect("another", "[fd00::7]:8000=http://[fd00::7]:8000")
}
