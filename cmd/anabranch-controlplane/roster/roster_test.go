package roster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// names answers one look after the other; the last answer stays.
type names struct {
	answers [][]*net.SRV // nil: no such name
	asked   int
}

func (n *names) LookupSRV(_ context.Context, service, proto, name string) (string, []*net.SRV, error) {
	if service != "" || proto != "" {
		return "", nil, errors.New("the name is to be asked for as it is")
	}
	answer := n.answers[min(n.asked, len(n.answers)-1)]
	n.asked++
	if answer == nil {
		return "", nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return name, answer, nil
}

func record(target string, port uint16) *net.SRV { return &net.SRV{Target: target, Port: port} }

// three of a StatefulSet, as its headless Service lists them.
func three() []*net.SRV {
	var list []*net.SRV
	for _, i := range []int{2, 0, 1} {
		list = append(list, record(fmt.Sprintf("anabranch-%d.raft.prod.svc.cluster.local.", i), 7120))
	}
	return list
}

func find(t *testing.T, n *names) (string, time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	began := time.Now()
	list, err := Find(ctx, Options{
		Name: "_raft._tcp.raft.prod.svc.cluster.local", Count: 3, Own: "anabranch-0",
		Resolver: n, Logger: slog.New(slog.DiscardHandler),
	})
	var told []string
	for _, p := range list {
		told = append(told, string(p.ID)+"="+p.Address)
	}
	return strings.Join(told, " "), time.Since(began), err
}

func TestMembersAreBelievedWhenTwoLooksAgree(t *testing.T) {
	const all = "anabranch-0=anabranch-0.raft.prod.svc.cluster.local:7120 " +
		"anabranch-1=anabranch-1.raft.prod.svc.cluster.local:7120 anabranch-2=anabranch-2.raft.prod.svc.cluster.local:7120"
	four := append(three(), record("anabranch-3.raft.prod.svc.cluster.local.", 7120))
	moved := three()
	moved[0] = record("anabranch-2.raft.prod.svc.cluster.local.", 7121)
	twice := append(three(), three()[1])
	for name, c := range map[string]struct {
		answers [][]*net.SRV
		looks   int
	}{
		"at once":                {[][]*net.SRV{three()}, 2},
		"no name yet":            {[][]*net.SRV{nil, nil, three()}, 4},
		"one after the other":    {[][]*net.SRV{three()[:1], three()[:2], three()}, 4},
		"one too many at first":  {[][]*net.SRV{four, four, four, three()}, 5},
		"one moves in between":   {[][]*net.SRV{moved, three()}, 3},
		"lost in between":        {[][]*net.SRV{three(), nil, three()}, 4},
		"listed twice, the same": {[][]*net.SRV{twice}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &names{answers: c.answers}
				got, took, err := find(t, n)
				if err != nil || got != all {
					t.Fatalf("got %q, %v", got, err)
				}
				if n.asked != c.looks || took != time.Duration(c.looks-1)*Pause {
					t.Errorf("%d looks in %s, want %d", n.asked, took, c.looks)
				}
			})
		})
	}
}

func TestAnythingElseIsWaitedOut(t *testing.T) {
	for name, answer := range map[string][]*net.SRV{
		"never listed":       nil,
		"too few":            three()[:2],
		"one at two places":  append(three()[:2], record("anabranch-2.other.", 7120)),
		"without port":       append(three()[:2], record("anabranch-1.raft.", 0)),
		"the root is no one": append(three()[:2], record(".", 7120)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, took, err := find(t, &names{answers: [][]*net.SRV{answer}})
				if !errors.Is(err, context.DeadlineExceeded) || got != "" || took != time.Minute {
					t.Errorf("got %q, %v after %s", got, err, took)
				}
			})
		})
	}
}

func TestANodeThatIsNotListedIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := []*net.SRV{record("b-0.raft.", 1), record("b-1.raft.", 1), record("b-2.raft.", 1)}
		_, _, err := find(t, &names{answers: [][]*net.SRV{list}})
		if err == nil || !strings.Contains(err.Error(), "b-0, b-1, b-2") || !strings.Contains(err.Error(), "--id anabranch-0") {
			t.Errorf("got %v", err)
		}
	})
}

func TestOptionsAreNamedByTheirFlags(t *testing.T) {
	for flag, o := range map[string]Options{
		"--peers-count": {Name: "x", Own: "n1"}, "1 to 9": {Name: "x", Own: "n1", Count: 10}, "--id": {Name: "x", Count: 3},
	} {
		if _, err := Find(t.Context(), o); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("got %v, want something on %s", err, flag)
		}
	}
}
