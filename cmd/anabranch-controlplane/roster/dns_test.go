package roster

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// TestRecordsOfARealNameServerAreRead goes through net.Resolver and its wire format.
func TestRecordsOfARealNameServerAreRead(t *testing.T) {
	const name = "_raft._tcp.raft.prod.svc.cluster.local."
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { answer(t, server, name) })
	defer running.Wait()
	defer func() { _ = server.Close() }()
	list, err := Find(t.Context(), Options{
		Name: name, Count: 3, Own: "anabranch-1", Logger: slog.New(slog.DiscardHandler),
		Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "udp", server.LocalAddr().String())
		}},
	})
	if err != nil || len(list) != 3 || list[2].ID != "anabranch-2" || list[2].Address != "anabranch-2.raft.prod.svc.cluster.local:7120" {
		t.Fatalf("got %v, %v", list, err)
	}
}

// answer serves the three records under name until the server is closed.
func answer(t *testing.T, server net.PacketConn, name string) {
	buf := make([]byte, 1500)
	for {
		n, from, err := server.ReadFrom(buf)
		if err != nil {
			return
		}
		var question dnsmessage.Message
		if err := question.Unpack(buf[:n]); err != nil {
			t.Error(err)
			return
		}
		asked := question.Questions[0]
		if asked.Name.String() != name || asked.Type != dnsmessage.TypeSRV {
			t.Errorf("asked for %s of %s", asked.Type, asked.Name)
		}
		reply := dnsmessage.Message{
			Header: dnsmessage.Header{ID: question.ID, Response: true}, Questions: question.Questions,
		}
		for _, r := range three() {
			reply.Answers = append(reply.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: asked.Name, Class: asked.Class, TTL: 5},
				Body:   &dnsmessage.SRVResource{Port: r.Port, Target: dnsmessage.MustNewName(r.Target)},
			})
		}
		packed, err := reply.Pack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = server.WriteTo(packed, from) // a lost answer is asked for again
	}
}
