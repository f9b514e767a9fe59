package zmtp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// script is a connection whose other side says what is written down, whatever it hears.
type script struct {
	net.Conn
	in  io.Reader
	out bytes.Buffer
}

func (s *script) Read(b []byte) (int, error)       { return s.in.Read(b) }
func (s *script) Write(b []byte) (int, error)      { return s.out.Write(b) }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }
func (s *script) Close() error                     { return nil }

func recorded(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// opened is a connection whose other side has introduced itself as peer and says then what follows.
func opened(t *testing.T, self, peer Socket, then []byte) (*Conn, *script) {
	t.Helper()
	hello := append(greeting(), command("READY", property("Socket-Type", string(peer)))...)
	s := &script{in: bytes.NewReader(append(hello, then...))}
	c, err := Handshake(s, self, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	s.out.Reset()
	return c, s
}

// What libzmq 4.3.4 sends as a publisher, heartbeats between.
func TestReceivesFromLibzmq(t *testing.T) {
	s := &script{in: bytes.NewReader(recorded(t, "libzmq-4.3.4-pub.bin"))}
	c, err := Handshake(s, SUB, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Subscribe("kv@"); err != nil {
		t.Fatal(err)
	}
	s.out.Reset()
	want := [][][]byte{
		{[]byte("kv@pod@m"), {7: 7}, []byte("short")},
		{{}, {7: 8}, bytes.Repeat([]byte("x"), 300)},
	}
	for _, w := range want {
		got, err := c.Receive()
		if err != nil || !slices.EqualFunc(got, w, bytes.Equal) {
			t.Errorf("%q, %v; want %q", got, err, w)
		}
	}
	if _, err := c.Receive(); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("at the end: %v", err)
	}
	if pong := []byte("\x04\x05\x04PONG"); !bytes.HasPrefix(s.out.Bytes(), pong) {
		t.Errorf("a heartbeat was answered by %q", s.out.Bytes())
	}
}

// A libzmq subscriber speaks 3.0 to a peer that does, and has commands of 3.1 for others.
func TestHearsSubscriptionsOfLibzmq(t *testing.T) {
	for _, name := range []string{"libzmq-4.3.4-sub.bin", "libzmq-4.3.4-sub-3.1.bin"} {
		t.Run(name, func(t *testing.T) {
			c, err := Handshake(&script{in: bytes.NewReader(recorded(t, name))}, PUB, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"\x01kv@", "\x00kv@"} {
				if got, err := c.Receive(); err != nil || len(got) != 1 || string(got[0]) != want {
					t.Errorf("%q, %v; want %q", got, err, want)
				}
			}
		})
	}
}

func TestHandshakeRefuses(t *testing.T) {
	change := func(at int, to byte) []byte {
		g := greeting()
		g[at] = to
		return g
	}
	ready := func(props ...[]byte) []byte { return append(greeting(), command("READY", slices.Concat(props...))...) }
	tests := []struct {
		name string
		says []byte
		want error
	}{
		{"somebody who speaks HTTP", []byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"), ErrPeer},
		{"an old version", change(versionAt, 1), ErrPeer},
		{"another mechanism", append(greeting()[:mechanismAt], append([]byte("CURVE"), make([]byte, 47)...)...), ErrPeer},
		{"a cut greeting", greeting()[:40], io.ErrUnexpectedEOF},
		{"nothing", nil, io.ErrUnexpectedEOF},
		{"a message instead of READY", append(greeting(), 0, 1, 'x'), ErrFrame},
		{"another command", append(greeting(), command("HELLO", nil)...), ErrFrame},
		{"its error", append(greeting(), command("ERROR", []byte("\x02no"))...), ErrPeer},
		{"no socket type", ready(property("Identity", "x")), ErrFrame},
		{"a property that is cut", ready(property("Socket-Type", "PUB")[:14]), ErrFrame},
		{"a socket that doesn't fit", ready(property("Socket-Type", "PULL")), ErrPeer},
		{"one of its own kind", ready(property("Socket-Type", "SUB")), ErrPeer},
		{"a greeting that is a huge command", append(greeting(), 6, 0, 0, 0, 0, 1, 0, 0, 0), ErrTooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Handshake(&script{in: bytes.NewReader(tt.says)}, SUB, time.Second); !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
}

func TestPropertiesInAnyCase(t *testing.T) {
	says := append(greeting(), command("READY", slices.Concat(property("Identity", ""), property("socket-type", "XPUB")))...)
	if _, err := Handshake(&script{in: bytes.NewReader(says)}, SUB, time.Second); err != nil {
		t.Error(err)
	}
}

// A peer that accepts and says nothing costs no more than the time-out.
func TestHandshakeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer func() { _ = b.Close() }()
		go func() { _, _ = io.Copy(io.Discard, b) }()
		began := time.Now()
		_, err := Handshake(a, SUB, 3*time.Second)
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestReceiveRefuses(t *testing.T) {
	long := func(flags byte, size uint64) []byte {
		return binary.BigEndian.AppendUint64([]byte{flags | flagLong}, size)
	}
	many := bytes.Repeat([]byte{flagMore, 0}, MaxFrames)
	half := appendFrame(nil, flagMore, make([]byte, MaxMessage/2))
	tests := []struct {
		name string
		says []byte
		want error
	}{
		{"a frame of more bytes than there are", long(0, 1<<62), ErrTooLarge},
		{"one byte too much", long(0, MaxMessage+1), ErrTooLarge},
		{"frames that are too much together", append(half, long(0, MaxMessage/2+1)...), ErrTooLarge},
		{"too many frames", append(many, 0, 0), ErrTooLarge},
		{"a large command", long(flagCommand, maxCommand+1), ErrTooLarge},
		{"unknown flags", []byte{0x10, 0}, ErrFrame},
		{"a command of several frames", []byte{flagCommand | flagMore, 0}, ErrFrame},
		{"a command within a message", append([]byte{flagMore, 0}, command("PING", []byte{0, 1})...), ErrFrame},
		{"a command without a name", []byte{flagCommand, 0}, ErrFrame},
		{"a command whose name is cut", []byte{flagCommand, 2, 5, 'P'}, ErrFrame},
		{"a heartbeat without its time", command("PING", []byte{0}), ErrFrame},
		{"a heartbeat with too much", command("PING", make([]byte, 19)), ErrFrame},
		{"a cut body", []byte{0, 5, 'x'}, io.ErrUnexpectedEOF},
		{"a cut size", []byte{flagLong, 0, 0}, io.ErrUnexpectedEOF},
		{"no size", []byte{0}, io.ErrUnexpectedEOF},
		{"the end", nil, io.EOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := opened(t, SUB, PUB, tt.says)
			if m, err := c.Receive(); !errors.Is(err, tt.want) {
				t.Errorf("%d frames, %v; want %v", len(m), err, tt.want)
			}
		})
	}
}

func TestReceivePassesOverCommands(t *testing.T) {
	c, s := opened(t, SUB, PUB, slices.Concat(
		command("PING", []byte("\x00\x1econtext")), command("NEWS", nil), command("PONG", nil), appendFrame(nil, 0, []byte("x"))))
	if m, err := c.Receive(); err != nil || len(m) != 1 || string(m[0]) != "x" {
		t.Errorf("%q, %v", m, err)
	}
	if got := s.out.String(); got != "\x04\x0c\x04PONGcontext" {
		t.Errorf("the heartbeat was answered by %q", got)
	}
}

// Two of us over TCP, with frames of all sizes.
func TestBothSides(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	messages := [][][]byte{
		{[]byte("a")},
		{{}, {}, {}},
		{[]byte("topic"), bytes.Repeat([]byte("y"), 255), bytes.Repeat([]byte("z"), 256)},
		{bytes.Repeat([]byte("w"), 1<<20), []byte("end")},
		slices.Repeat([][]byte{[]byte("f")}, MaxFrames),
	}
	served := make(chan error, 1)
	go func() {
		served <- func() error {
			raw, err := l.Accept()
			if err != nil {
				return err
			}
			c, err := Handshake(raw, PUB, 5*time.Second)
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
			if m, err := c.Receive(); err != nil || len(m) != 1 || string(m[0]) != "\x01kv" {
				return errors.Join(err, errors.New("no subscription to kv"))
			}
			for _, m := range messages {
				if err := c.Send(m...); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := Handshake(raw, SUB, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Subscribe("kv"); err != nil {
		t.Fatal(err)
	}
	for i, want := range messages {
		if got, err := c.Receive(); err != nil || !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("message %d: %d frames, %v", i, len(got), err)
		}
	}
	if _, err := c.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Send([]byte("x")); err == nil {
		t.Error("a closed connection sends")
	}
}

// Whatever comes, nothing panics or grows without bound, and what is read can be written again.
func FuzzReceive(f *testing.F) {
	for _, name := range []string{"libzmq-4.3.4-pub.bin", "libzmq-4.3.4-sub.bin", "libzmq-4.3.4-sub-3.1.bin"} {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add(append(append(greeting(), command("READY", property("Socket-Type", "PUB"))...), 1, 1, 'a', 0, 1, 'b'))
	f.Fuzz(func(t *testing.T, says []byte) {
		for _, self := range []Socket{SUB, PUB} {
			c, err := Handshake(&script{in: bytes.NewReader(says)}, self, time.Second)
			if err != nil {
				if !strings.HasPrefix(err.Error(), "ZMTP handshake: ") {
					t.Error(err)
				}
				continue
			}
			m, err := c.Receive()
			if err != nil {
				continue
			}
			var again []byte
			for i, frame := range m {
				again = appendFrame(again, map[bool]byte{true: flagMore}[i < len(m)-1], frame)
			}
			c.in.Reset(bytes.NewReader(again))
			if got, err := c.Receive(); err != nil || !slices.EqualFunc(got, m, bytes.Equal) {
				t.Fatalf("%q became %q, %v", m, got, err)
			}
		}
	})
}
