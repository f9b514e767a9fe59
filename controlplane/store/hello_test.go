package store

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"anabranch/api/fleet"
)

func TestWhoIsLetIn(t *testing.T) {
	for _, c := range []struct {
		name      string
		own, peer hello
		certified string
		want      verdict
		knows     bool
	}{
		{"same cluster", hello{Cluster: "a", Node: "n1"}, hello{Cluster: "a", Node: "n2"}, "", welcome, false},
		{"other cluster", hello{Cluster: "a", Node: "n1"}, hello{Cluster: "b", Node: "n2"}, "", foreignCluster, false},
		{"a new node", hello{Cluster: "a", Node: "n1"}, hello{Node: "n4"}, "", welcome, false},
		{"both new, same list", hello{Node: "n1", List: "x"}, hello{Node: "n2", List: "x"}, "", welcome, false},
		{"both new, other list", hello{Node: "n1", List: "x"}, hello{Node: "n2", List: "y"}, "", otherList, false},
		{"both new, one without list", hello{Node: "n1", List: "x"}, hello{Node: "n2"}, "", welcome, false},
		{"lists no longer matter", hello{Cluster: "a", Node: "n1", List: "x"}, hello{Cluster: "a", Node: "n2", List: "y"}, "", welcome, false},
		{"certificate agrees", hello{Node: "n1"}, hello{Node: "n2"}, "n2", welcome, false},
		{"certificate of another node", hello{Node: "n1"}, hello{Node: "n2"}, "n3", notYourName, false},
		{"starts later than the others", hello{Cluster: "a", Node: "n1"}, hello{Node: "n2", List: "x"}, "", welcome, false},
		{"starts again with nothing", hello{Cluster: "a", Node: "n1"}, hello{Node: "n2", List: "x"}, "", emptied, true},
		{"joins again", hello{Cluster: "a", Node: "n1"}, hello{Node: "n2"}, "", welcome, true},
		{"starts again", hello{Cluster: "a", Node: "n1"}, hello{Cluster: "a", Node: "n2"}, "", welcome, true},
		{"starts again, and somebody else has nothing", hello{Node: "n1", List: "x"}, hello{Cluster: "a", Node: "n2"}, "", welcome, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := judge(c.own, c.peer, fleet.NodeID(c.certified), c.knows)
			if got != c.want {
				t.Errorf("verdict %d, want %d", got, c.want)
			}
			if err := got.explain(c.peer, c.own); (err == nil) != (got == welcome) {
				t.Errorf("explained as %v", err)
			}
		})
	}
	if err := verdict(99).explain(hello{}, hello{Node: "n2"}); err == nil || !strings.Contains(err.Error(), "n2") {
		t.Errorf("an unknown verdict is explained as %v", err)
	}
}

func TestAHelloReadsNothingBeyondItself(t *testing.T) {
	want := hello{Cluster: "c", Node: "n1", List: "0123"}
	in := bytes.NewReader(append(want.encode(), "rest"...))
	got, err := readHello(in)
	if err != nil || got != want || in.Len() != 4 {
		t.Errorf("got %+v, %v, %d bytes left", got, err, in.Len())
	}
}

func TestAHelloOfAnotherVersionOrWithoutNodeIsRefused(t *testing.T) {
	for _, b := range [][]byte{{2, 0, 0, 0}, {1, 0, 0, 0}} {
		if _, err := readHello(bytes.NewReader(b)); !errors.Is(err, errHello) {
			t.Errorf("%v: %v, want malformed", b, err)
		}
	}
}

func FuzzReadHello(f *testing.F) {
	f.Add(hello{Cluster: "c1", Node: "n1", List: "abcd"}.encode())
	f.Add([]byte{helloVersion, 255, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHello(bytes.NewReader(b))
		if err != nil {
			return
		}
		if again := h.encode(); !bytes.HasPrefix(b, again) {
			t.Fatalf("%x was read, %x would be sent", b, again)
		}
	})
}
