package store

import (
	"errors"
	"fmt"
	"io"

	"anabranch/api/fleet"
)

// kind is the first byte of every connection to the Raft port.
type kind byte

const (
	kindRaft kind = 'R'
	kindNode kind = 'N'
	// kindHello ends after the hello.
	kindHello kind = 'H'
)

// helloVersion is the version of what follows the first byte. Changes: 1, 2026-11-29: first.
const helloVersion = 1

// hello is how the two ends of a connection introduce themselves. On the wire: version, then each
// field as one byte of length and that many bytes. The answer is a verdict and the same again.
type hello struct {
	Cluster string       // empty before the cluster's first command
	Node    fleet.NodeID // never empty
	List    string       // digest of the bootstrap list, empty without one
}

// verdict is what the accepting end says of a hello.
type verdict byte

const (
	welcome verdict = iota
	foreignCluster
	otherList
	notYourName
	emptied
)

var errHello = errors.New("malformed hello")

// judge compares the two ends. certified is the node id in the peer's certificate, empty without
// TLS. knows says that the own state knows the peer as one that has held it.
func judge(own, peer hello, certified fleet.NodeID, knows bool) verdict {
	switch {
	case certified != "" && certified != peer.Node:
		return notYourName
	case own.Cluster != "" && peer.Cluster != "" && own.Cluster != peer.Cluster:
		return foreignCluster
	case own.Cluster == "" && peer.Cluster == "" && own.List != "" && peer.List != "" && own.List != peer.List:
		return otherList
	case own.Cluster != "" && peer.Cluster == "" && peer.List != "" && knows:
		return emptied
	}
	return welcome
}

// explain puts a verdict about own, given by peer, into words; nil for a welcome.
func (v verdict) explain(own, peer hello) error {
	switch v {
	case welcome:
		return nil
	case foreignCluster:
		return fmt.Errorf("node %s is of cluster %s, this node of %s: %w", peer.Node, peer.Cluster, own.Cluster, ErrForeignCluster)
	case otherList:
		return fmt.Errorf("node %s was given another list of peers: give every node the same", peer.Node)
	case notYourName:
		return fmt.Errorf("node id %s is not the one in its certificate", own.Node)
	case emptied:
		return fmt.Errorf("node %s was a member of cluster %s, and its data folder is empty: replace it by a node with another id that joins: %w", own.Node, peer.Cluster, ErrEmptied)
	}
	return fmt.Errorf("refused by %s for reason %d", peer.Node, v)
}

func (h hello) encode() []byte {
	b := []byte{helloVersion}
	for _, s := range []string{h.Cluster, string(h.Node), h.List} {
		s = s[:min(len(s), 255)]
		b = append(append(b, byte(len(s))), s...)
	}
	return b
}

func readHello(r io.Reader) (hello, error) {
	version, err := readByte(r)
	if err != nil {
		return hello{}, err
	}
	if version != helloVersion {
		return hello{}, fmt.Errorf("version %d: %w", version, errHello)
	}
	var fields [3]string
	for i := range fields {
		n, err := readByte(r)
		if err != nil {
			return hello{}, err
		}
		b := make([]byte, n)
		if _, err := io.ReadFull(r, b); err != nil {
			return hello{}, err
		}
		fields[i] = string(b)
	}
	h := hello{Cluster: fields[0], Node: fleet.NodeID(fields[1]), List: fields[2]}
	if h.Node == "" {
		return hello{}, fmt.Errorf("no node id: %w", errHello)
	}
	return h, nil
}

// readByte reads exactly one byte, so that nothing of what follows the hello is swallowed.
func readByte(r io.Reader) (byte, error) {
	var b [1]byte
	_, err := io.ReadFull(r, b[:])
	return b[0], err
}
