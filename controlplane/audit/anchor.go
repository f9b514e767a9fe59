package audit

import (
	"bytes"
	"encoding/hex"
	"fmt"

	"anabranch/controlplane/state/statepb"
)

// Anchor is an entry that was once found good: a later chain must hold it, or go on from it. It is what
// somebody keeps outside of the control plane to notice a history that was written anew.
type Anchor struct {
	// Sequence and Index of the entry; Sequence is 0 where only the hash is known.
	Sequence uint64 `json:"sequence"`
	Index    uint64 `json:"index"`
	// SHA256 of the entry, in hexadecimal.
	SHA256 string `json:"sha256"`
}

// AnchorOf is an entry as an anchor.
func AnchorOf(e *statepb.AuditEntry) Anchor {
	return Anchor{Sequence: e.GetSequence(), Index: e.GetIndex(), SHA256: hex.EncodeToString(e.GetSha256())}
}

// Follower checks that a chain holds an anchor.
type Follower struct {
	anchor Anchor
	sum    []byte
	met    bool
	begun  bool
	after  uint64 // sequence number of the first entry
}

// Follow begins to look for an anchor; the error says that its hash is none.
func Follow(a Anchor) (*Follower, error) {
	sum, err := hex.DecodeString(a.SHA256)
	if err != nil || len(sum) != 32 {
		return nil, fmt.Errorf("the anchor %.80q is not a SHA-256 in hexadecimal", a.SHA256)
	}
	return &Follower{anchor: a, sum: sum}, nil
}

// Add looks at the next entry of the chain, which [Chain.Add] has taken.
func (f *Follower) Add(e *statepb.AuditEntry) error {
	if !f.begun {
		f.begun, f.after = true, e.GetSequence()
		f.met = bytes.Equal(e.GetPreviousSha256(), f.sum)
	}
	same := bytes.Equal(e.GetSha256(), f.sum)
	if f.anchor.Sequence != 0 && e.GetSequence() == f.anchor.Sequence && !same {
		return &BrokenError{Sequence: e.GetSequence(), Index: e.GetIndex(), Reason: "is not the one that was there before: the history was written anew, or restored from a backup"}
	}
	f.met = f.met || same
	return nil
}

// End says whether the chain held the anchor: an error if it was cut before it, or begins so late that
// nobody can tell.
func (f *Follower) End() error {
	switch a := f.anchor; {
	case f.met:
		return nil
	case a.Sequence != 0 && f.begun && f.after > a.Sequence+1:
		return fmt.Errorf("the entries %d to %d are not there: nothing shows that the trail goes on from the anchor; give their archive too", a.Sequence+1, f.after-1)
	case a.Sequence != 0:
		return &BrokenError{Sequence: a.Sequence, Index: a.Index, Reason: "is not there any more: the trail was cut, or restored from a backup"}
	}
	return fmt.Errorf("no entry has the hash %s, and the first does not follow it: the history was written anew, or begins after it", f.anchor.SHA256)
}
