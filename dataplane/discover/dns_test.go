package discover

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// zone is what a name server knows: per name and type the resources; a name without any exists.
type zone map[string]map[dnsmessage.Type][]dnsmessage.ResourceBody

// nameServer answers over UDP and TCP on loopback from a zone that can be swapped.
type nameServer struct {
	udp     net.PacketConn
	tcp     net.Listener
	running sync.WaitGroup

	mu    sync.Mutex // guards all below
	zone  zone
	codes map[string]dnsmessage.RCode // by name and type: fail like this
	mute  map[string]bool             // by name and type: don't answer
	asked map[string]int              // by network
}

func startNameServer(t *testing.T) *nameServer {
	t.Helper()
	s := &nameServer{zone: zone{}, codes: map[string]dnsmessage.RCode{}, mute: map[string]bool{}, asked: map[string]int{}}
	var err error
	if s.udp, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if s.tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	s.running.Go(s.serveUDP)
	s.running.Go(s.serveTCP)
	t.Cleanup(func() {
		_ = s.udp.Close()
		s.tcp.Close()
		s.running.Wait()
	})
	return s
}

// resolver asks this server, whatever the machine's own is.
func (s *nameServer) resolver() *system {
	return &system{dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		if strings.HasPrefix(network, "tcp") {
			return d.DialContext(ctx, "tcp", s.tcp.Addr().String())
		}
		return d.DialContext(ctx, "udp", s.udp.LocalAddr().String())
	}}
}

// set gives a name these resources and no others.
func (s *nameServer) set(name string, bodies ...dnsmessage.ResourceBody) {
	s.mu.Lock()
	defer s.mu.Unlock()
	records := map[dnsmessage.Type][]dnsmessage.ResourceBody{}
	for _, b := range bodies {
		kind := dnsmessage.TypeA
		switch b.(type) {
		case *dnsmessage.AAAAResource:
			kind = dnsmessage.TypeAAAA
		case *dnsmessage.SRVResource:
			kind = dnsmessage.TypeSRV
		}
		records[kind] = append(records[kind], b)
	}
	s.zone[name] = records
}

// fail answers questions for a name with a code, those of a type or, without one, all.
func (s *nameServer) fail(name string, code dnsmessage.RCode, kinds ...dnsmessage.Type) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(kinds) == 0 {
		kinds = []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypeSRV}
	}
	for _, k := range kinds {
		s.codes[name+k.String()] = code
	}
}

func (s *nameServer) hush(name string, kind dnsmessage.Type) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mute[name+kind.String()] = true
}

func (s *nameServer) times(network string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[network]
}

func (s *nameServer) serveUDP() {
	buf := make([]byte, 4096)
	for {
		n, from, err := s.udp.ReadFrom(buf)
		if err != nil {
			return
		}
		if reply := s.answer("udp", buf[:n], 1200); reply != nil {
			_, _ = s.udp.WriteTo(reply, from) // a lost answer is the resolver's to notice
		}
	}
}

func (s *nameServer) serveTCP() {
	for {
		c, err := s.tcp.Accept()
		if err != nil {
			return
		}
		s.running.Go(func() {
			defer c.Close()
			var size [2]byte
			if _, err := io.ReadFull(c, size[:]); err != nil {
				return
			}
			question := make([]byte, binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(c, question); err != nil {
				return
			}
			reply := s.answer("tcp", question, 65535)
			_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)) // as above
		})
	}
}

// answer makes a reply of at most limit bytes; nil for none.
func (s *nameServer) answer(network string, question []byte, limit int) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(question)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	name := q.Name.String()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[network]++
	if s.mute[name+q.Type.String()] {
		return nil
	}
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: h.ID, Response: true, Authoritative: true, RecursionDesired: h.RecursionDesired, RecursionAvailable: true},
		Questions: []dnsmessage.Question{q},
	}
	records, known := s.zone[name]
	switch code, bad := s.codes[name+q.Type.String()]; {
	case bad:
		m.RCode = code
	case !known:
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, b := range records[q.Type] {
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 5}, Body: b})
	}
	reply, err := m.Pack()
	if err == nil && len(reply) > limit {
		m.Truncated, m.Answers = true, nil
		reply, err = m.Pack()
	}
	if err != nil {
		panic(err)
	}
	return reply
}

func a(last ...byte) *dnsmessage.AResource {
	r := &dnsmessage.AResource{A: [4]byte{10}}
	copy(r.A[4-len(last):], last)
	return r
}

func aaaa(last byte) *dnsmessage.AAAAResource {
	return &dnsmessage.AAAAResource{AAAA: [16]byte{0: 0xfd, 15: last}}
}

func srv(priority, port uint16, target string) *dnsmessage.SRVResource {
	return &dnsmessage.SRVResource{Priority: priority, Weight: 1, Port: port, Target: dnsmessage.MustNewName(target)}
}
