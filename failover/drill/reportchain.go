package drill

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// Encode writes a report as the bytes that are kept and hashed: JSON on one line, fields in their order.
// The same report gives the same bytes. A report with a figure that is no number, which neither
// [NewReport] nor [Decode] makes, gives none.
func Encode(r Report) ([]byte, [sha256.Size]byte) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, [sha256.Size]byte{}
	}
	return b, sha256.Sum256(b)
}

// Decode reads what [Encode] wrote, also if it was indented since. Fields of later versions are left out.
func Decode(b []byte) (Report, error) {
	var r Report
	if err := json.Unmarshal(b, &r); err != nil {
		return Report{}, fmt.Errorf("read the report of a drill: %w", err)
	}
	if r.Version < 1 || r.ID == 0 {
		return Report{}, fmt.Errorf("read the report of a drill: it has version %d and drill %d; give the JSON that `anabranch drill report ID -o json` writes", r.Version, r.ID)
	}
	return r, nil
}

// Sum is the SHA-256 of a report by its bytes, however they are indented.
func Sum(b []byte) ([sha256.Size]byte, error) {
	var one bytes.Buffer
	if err := json.Compact(&one, b); err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("read the report of a drill: %w", err)
	}
	return sha256.Sum256(one.Bytes()), nil
}

// Pack compresses the bytes of a report for keeping.
func Pack(report []byte) []byte {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil { // the level is one
		panic(err)
	}
	_, _ = z.Write(report) // a buffer takes all
	_ = z.Close()
	return b.Bytes()
}

// maxUnpacked bounds what a packed report may become.
const maxUnpacked = 64 << 20

// Unpack undoes [Pack].
func Unpack(packed []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack the report of a drill: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(z, maxUnpacked+1))
	if err != nil {
		return nil, fmt.Errorf("unpack the report of a drill: %w", err)
	}
	if len(b) > maxUnpacked {
		return nil, fmt.Errorf("unpack the report of a drill: it is above %d bytes", maxUnpacked)
	}
	return b, nil
}

func packedSize(r Report) int {
	b, _ := Encode(r)
	return len(Pack(b))
}

// Link is one report of a row.
type Link struct {
	// Name says to people which it is: a file, or "drill 12".
	Name string
	// JSON is the report, indented or not.
	JSON []byte
	// SHA256 is what somebody else says its hash is, in hex; empty: nobody does.
	SHA256 string
}

// BrokenLinkError says at which report a row breaks.
type BrokenLinkError struct {
	Name  string
	Drill uint64
	Why   string
}

// Error names the link.
func (b *BrokenLinkError) Error() string {
	if b.Drill == 0 {
		return fmt.Sprintf("%s: %s", b.Name, b.Why)
	}
	return fmt.Sprintf("%s (drill %d): %s", b.Name, b.Drill, b.Why)
}

// VerifyChain holds reports of one control plane, in any order, to their hashes and to each other: every one
// names the one before, as it is. The first of them may name one that is not among them. The error is a
// *[BrokenLinkError] of the first where it breaks. It gives the hashes, in the order in which drills ended.
func VerifyChain(chain []Link) ([]Head, error) {
	type known struct {
		Link
		Report
		sum string
	}
	var all []known
	for _, l := range chain {
		r, err := Decode(l.JSON)
		if err != nil {
			return nil, &BrokenLinkError{Name: l.Name, Why: err.Error()}
		}
		sum, err := Sum(l.JSON)
		if err != nil {
			return nil, &BrokenLinkError{Name: l.Name, Drill: r.ID, Why: err.Error()}
		}
		all = append(all, known{l, r, hex.EncodeToString(sum[:])})
	}
	slices.SortStableFunc(all, func(a, b known) int {
		return cmp.Or(cmp.Compare(a.EndedUnixMs, b.EndedUnixMs), cmp.Compare(a.ID, b.ID))
	})
	var heads []Head
	for i, k := range all {
		broken := func(why string, args ...any) ([]Head, error) {
			return heads, &BrokenLinkError{Name: k.Name, Drill: k.ID, Why: fmt.Sprintf(why, args...)}
		}
		if k.SHA256 != "" && k.SHA256 != k.sum {
			return broken("its SHA-256 is %.12s…, where the control plane has %.12s…: it is not what was written when the drill ended", k.sum, k.SHA256)
		}
		if i > 0 {
			before := all[i-1]
			switch {
			case k.ClusterID != before.ClusterID:
				return broken("it is of control plane %q, and %s of %q: verify them apart", k.ClusterID, before.Name, before.ClusterID)
			case k.ID == before.ID && k.sum == before.sum:
				return broken("it is the same report as %s", before.Name)
			case k.ID == before.ID:
				return broken("%s is another report of the same drill", before.Name)
			case k.PreviousSHA256 != before.sum:
				return broken("the report before it should have SHA-256 %.12s…, and %s (drill %d) has %.12s…: that one was changed, or one between them is missing", orNone(k.PreviousSHA256), before.Name, before.ID, before.sum)
			}
		}
		h := k.Head()
		h.SHA256 = k.sum
		heads = append(heads, h)
	}
	return heads, nil
}

func orNone(sum string) string {
	if sum == "" {
		return "none"
	}
	return sum
}
