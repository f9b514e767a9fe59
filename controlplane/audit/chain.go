package audit

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"anabranch/controlplane/state/statepb"
)

// BrokenError says where a chain does not hold.
type BrokenError struct {
	// Sequence and Index are of the entry, as it says itself; Sequence is 0 where it has none.
	Sequence, Index uint64
	Reason          string
}

// Error names the entry.
func (e *BrokenError) Error() string {
	if e.Sequence == 0 {
		return fmt.Sprintf("audit entry at index %d %s", e.Index, e.Reason)
	}
	return fmt.Sprintf("audit entry %d at index %d %s", e.Sequence, e.Index, e.Reason)
}

// Chain checks entries one after another, oldest first. The zero value takes any entry as its first,
// and counts from its number.
type Chain struct {
	last  *statepb.AuditEntry
	count uint64
	first *statepb.AuditEntry
}

// Add takes the next entry. Its error is a *[BrokenError]; the chain then stays as it was.
func (c *Chain) Add(e *statepb.AuditEntry) error {
	broken := func(reason string) error {
		return &BrokenError{Sequence: e.GetSequence(), Index: e.GetIndex(), Reason: reason}
	}
	sum := Sum(e)
	switch {
	case versionOf(e) > Version:
		return broken(fmt.Sprintf("is of version %d, and this build knows versions up to %d: upgrade it", versionOf(e), Version))
	case versionOf(e) == 1 && bears(e):
		return broken("holds what the hash of its version does not cover")
	case !bytes.Equal(e.GetSha256(), sum[:]):
		return broken("does not match its hash")
	case len(e.GetPreviousSha256()) != sha256.Size:
		return broken("does not name the hash of the one before it")
	}
	if p := c.last; p != nil {
		switch {
		case !bytes.Equal(e.GetPreviousSha256(), p.GetSha256()):
			return broken("does not follow the one before it")
		case e.GetIndex() < p.GetIndex():
			return broken("has a lower index than the one before it")
		case versionOf(e) < versionOf(p):
			return broken("is of an older version than the one before it")
		case p.GetSequence() != 0 && e.GetSequence() != p.GetSequence()+1:
			return broken(fmt.Sprintf("comes after entry %d", p.GetSequence()))
		}
	} else {
		c.first = e
	}
	c.last = e
	c.count++
	return nil
}

// bears says whether an entry has any of what came with version 2, but for its number, which readers
// of older entries count themselves.
func bears(e *statepb.AuditEntry) bool {
	return len(e.GetBeforeSha256()) > 0 || len(e.GetAfterSha256()) > 0 || len(e.GetChanges()) > 0 || e.GetChangesOmitted() > 0 ||
		e.GetActorKind() != "" || e.GetCredential() != ""
}

// First and Last are the ends of what was added; nil: nothing was.
func (c *Chain) First() *statepb.AuditEntry { return c.first }

// Last is the newest entry that was added; nil: none was.
func (c *Chain) Last() *statepb.AuditEntry { return c.last }

// Count is how many entries were added.
func (c *Chain) Count() uint64 { return c.count }

// Whole says whether the chain begins with the first entry of all.
func (c *Chain) Whole() bool {
	return c.first != nil && bytes.Equal(c.first.GetPreviousSha256(), make([]byte, sha256.Size))
}

// Verify says where a run of consecutive entries was changed, reordered or cut, or nil.
func Verify(entries []*statepb.AuditEntry) error {
	var c Chain
	for _, e := range entries {
		if err := c.Add(e); err != nil {
			return err
		}
	}
	return nil
}
