package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/controlplane/state/statepb"
)

// trail makes a chain of entries: old ones of version 1, then one of version 2 for each name.
func trail(old int, names ...string) []*statepb.AuditEntry {
	previous := make([]byte, sha256.Size)
	var out []*statepb.AuditEntry
	add := func(e *statepb.AuditEntry) {
		e.PreviousSha256 = previous
		sum := Sum(e)
		e.Sha256, previous = sum[:], sum[:]
		out = append(out, e)
	}
	for i := range old {
		add(&statepb.AuditEntry{Index: uint64(i + 1), AtUnixMs: int64(1000 * i), Actor: "ann", Role: "admin", Action: "create", Kind: "Region", Name: fmt.Sprint("r", i)})
	}
	for i, name := range names {
		add(&statepb.AuditEntry{
			Version: 2, Sequence: uint64(old + i + 1), Index: uint64(old + 2*i + 1), AtUnixMs: 1_764_500_000_123 + int64(i),
			Actor: "bob", Role: "operator", Action: "update", Kind: "Tenant", Name: name, Reason: "because <it> & \"that\" \u2028", RequestId: "q-1", Code: "c",
			BeforeSha256: bytes.Repeat([]byte{1}, 32), AfterSha256: bytes.Repeat([]byte{2}, 32),
			Changes:        []*statepb.FieldChange{{Field: "spec.tier", From: `"a<b"`, To: `"c"`}, {Field: "spec.x", To: "1"}},
			ChangesOmitted: 3, ActorKind: "user", Credential: "laptop",
		})
	}
	return out
}

// export writes a trail as the server does.
func export(t *testing.T, entries []*statepb.AuditEntry) []byte {
	t.Helper()
	var b bytes.Buffer
	err := Write(&b, func(yield func(Entry) bool) {
		for i, e := range entries {
			if !yield(Of(e, uint64(i+1))) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// check reads an export as the command line does.
func check(text []byte) (*Chain, error) {
	var c Chain
	return &c, Read(bytes.NewReader(text), func(e Entry) error {
		h, err := e.Hashed()
		if err != nil {
			return err
		}
		return c.Add(h)
	})
}

func TestAnExportVerifies(t *testing.T) {
	c, err := check(export(t, trail(3, "a", "b")))
	if err != nil {
		t.Fatal(err)
	}
	if c.Count() != 5 || !c.Whole() || c.First().GetSequence() != 1 || c.Last().GetSequence() != 5 {
		t.Errorf("%d entries from %d to %d", c.Count(), c.First().GetSequence(), c.Last().GetSequence())
	}
	c, err = check(export(t, trail(0, "a", "b", "c")[1:]))
	if err != nil || c.Whole() || c.First().GetSequence() != 2 {
		t.Errorf("the end of a chain: %v, whole %v", err, c.Whole())
	}
	if c, err = check(nil); err != nil || c.Count() != 0 || c.Whole() || c.Last() != nil {
		t.Errorf("nothing: %v", err)
	}
}

// The bytes of both versions are fixed: whoever wrote a checker from the description relies on them.
func TestTheBytesThatAreHashed(t *testing.T) {
	for _, tt := range []struct {
		e    *statepb.AuditEntry
		want string
	}{
		{
			&statepb.AuditEntry{Index: 1, AtUnixMs: 2, Actor: "a", PreviousSha256: []byte{7}},
			"0000000000000001" + "0000000000000002" + "0000000161" + strings.Repeat("00000000", 7) + "0000000107",
		},
		{&statepb.AuditEntry{
			Version: 2, Sequence: 5, Index: 1, AtUnixMs: 2, Code: "z", PreviousSha256: []byte{7}, BeforeSha256: []byte{8}, ChangesOmitted: 9, ActorKind: "k",
			Changes: []*statepb.FieldChange{{Field: "f", From: "1"}},
		}, "ffffffffffffffff" + "0000000000000002" + "0000000000000001" + "0000000000000002" + strings.Repeat("00000000", 7) + "000000017a" + "0000000107" +
			"0000000000000005" + "0000000108" + "00000000" + "0000000000000001" + "0000000166" + "0000000131" + "00000000" + "0000000000000009" + "000000016b" + "00000000"},
	} {
		raw, err := hex.DecodeString(tt.want)
		if err != nil {
			t.Fatal(err)
		}
		if got := Sum(tt.e); got != sha256.Sum256(raw) {
			t.Errorf("version %d: %x", tt.e.GetVersion(), got)
		}
	}
}

// Whatever byte of an export is changed, it is noticed, or it means the same as before.
func TestAChangedByteOfAnyEntryIsFound(t *testing.T) {
	entries := trail(2, "a", "b")
	text := export(t, entries)
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		to := rapid.Byte().Draw(t, "to")
		changed := slices.Clone(text)
		changed[at] = to
		if bytes.Equal(changed, text) {
			return
		}
		if c, err := check(changed); err == nil && (c.Count() != 4 || !sameEntries(text, changed)) {
			t.Fatalf("byte %d of %q changed to %q goes unnoticed", at, text[max(0, at-30):min(len(text), at+30)], to)
		}
	})
}

func sameEntries(a, b []byte) bool {
	parse := func(text []byte) (out []*statepb.AuditEntry) {
		_ = Read(bytes.NewReader(text), func(e Entry) error { // both were read before
			h, err := e.Hashed()
			out = append(out, h)
			return err
		})
		return out
	}
	x, y := parse(a), parse(b)
	return slices.EqualFunc(x, y, func(a, b *statepb.AuditEntry) bool {
		a.Version, b.Version = versionOf(a), versionOf(b)
		return proto.Equal(a, b)
	})
}

// Every field of an entry is under its hash: a field that is added to the message and forgotten fails.
func TestEveryFieldOfAnEntryIsHashed(t *testing.T) {
	base := trail(0, "a")[0]
	fields := base.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.Name() == "sha256" {
			continue
		}
		other := proto.CloneOf(base)
		other.ProtoReflect().Clear(f)
		if Sum(other) == Sum(base) {
			t.Errorf("%s is not hashed", f.Name())
		}
	}
}

func TestTamperingIsNamed(t *testing.T) {
	rehash := func(e *statepb.AuditEntry) { sum := Sum(e); e.Sha256 = sum[:] }
	for name, tt := range map[string]struct {
		tamper func([]*statepb.AuditEntry) []*statepb.AuditEntry
		want   string
	}{
		"removed":   {func(a []*statepb.AuditEntry) []*statepb.AuditEntry { return slices.Delete(a, 2, 3) }, "entry 4 at index 6 does not follow"},
		"reordered": {func(a []*statepb.AuditEntry) []*statepb.AuditEntry { a[2], a[3] = a[3], a[2]; return a }, "entry 4 at index 6 does not follow"},
		"inserted": {func(a []*statepb.AuditEntry) []*statepb.AuditEntry {
			e := proto.CloneOf(a[2])
			e.PreviousSha256 = a[2].GetSha256()
			rehash(e)
			return slices.Insert(a, 3, e)
		}, "entry 3 at index 4 comes after entry 3"},
		"replaced": {func(a []*statepb.AuditEntry) []*statepb.AuditEntry {
			a[2].Actor = "eve"
			rehash(a[2])
			return a
		}, "entry 4 at index 6 does not follow"},
		"a value":                  {func(a []*statepb.AuditEntry) []*statepb.AuditEntry { a[2].Changes[0].To = `"d"`; return a }, "entry 3 at index 4 does not match its hash"},
		"stripped of what changed": {func(a []*statepb.AuditEntry) []*statepb.AuditEntry { a[2].Changes = nil; return a }, "does not match"},
		"given changes": {func(a []*statepb.AuditEntry) []*statepb.AuditEntry {
			a[0].Changes = []*statepb.FieldChange{{Field: "x"}}
			return a
		}, "index 1 holds what the hash of its version does not cover"},
		"made old": {func(a []*statepb.AuditEntry) []*statepb.AuditEntry {
			old := a[3]
			old.Version, old.BeforeSha256, old.AfterSha256, old.Changes, old.ChangesOmitted, old.ActorKind, old.Credential = 0, nil, nil, nil, 0, "", ""
			rehash(old)
			return a
		}, "is of an older version"},
		"from the future": {func(a []*statepb.AuditEntry) []*statepb.AuditEntry { a[3].Version = 3; return a }, "upgrade"},
		"back in time": {func(a []*statepb.AuditEntry) []*statepb.AuditEntry {
			a[3].Index = 1
			rehash(a[3])
			return a
		}, "has a lower index"},
		"no previous": {func(a []*statepb.AuditEntry) []*statepb.AuditEntry {
			a[0].PreviousSha256 = nil
			rehash(a[0])
			return a
		}, "does not name the hash"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Verify(tt.tamper(trail(1, "a", "b", "c")))
			var broken *BrokenError
			if !errors.As(err, &broken) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestAnAnchorIsFollowed(t *testing.T) {
	good := trail(1, "a", "b", "c", "d")
	other := trail(1, "a", "x", "c", "d")
	at := AnchorOf(good[2]) // entry 3
	for name, tt := range map[string]struct {
		anchor  Anchor
		entries []*statepb.AuditEntry
		want    string
	}{
		"held":                     {at, good, ""},
		"held by the hash alone":   {Anchor{SHA256: at.SHA256}, good, ""},
		"followed at once":         {at, good[3:], ""},
		"followed, by hash":        {Anchor{SHA256: at.SHA256}, good[3:], ""},
		"written anew":             {at, other, "entry 3 at index 4 is not the one that was there before"},
		"written anew, by hash":    {Anchor{SHA256: at.SHA256}, other, "written anew"},
		"cut":                      {at, good[:2], "entry 3 at index 4 is not there any more"},
		"nothing left":             {at, nil, "is not there any more"},
		"too late to tell":         {at, good[4:], "the entries 4 to 4 are not there"},
		"gone on another way":      {AnchorOf(other[3]), good, "entry 4"},
		"gone on another way, cut": {AnchorOf(other[4]), good[:3], "entry 5"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Follow(tt.anchor)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range tt.entries {
				if err = f.Add(e); err != nil {
					break
				}
			}
			if err == nil {
				err = f.End()
			}
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	for _, bad := range []string{"", "abc", strings.Repeat("a", 62), strings.Repeat("g", 64)} {
		if _, err := Follow(Anchor{SHA256: bad}); err == nil {
			t.Errorf("%q is taken for a hash", bad)
		}
	}
}

func TestJSONGivesBackWhatWasHashed(t *testing.T) {
	for i, e := range trail(1, "a") {
		line, err := json.Marshal(Of(e, uint64(i+1)))
		if err != nil {
			t.Fatal(err)
		}
		back, err := parse(line)
		if err != nil {
			t.Fatal(err)
		}
		got, err := back.Hashed()
		want := proto.CloneOf(e)
		want.Version, want.Sequence = versionOf(e), uint64(i+1)
		if err != nil || !proto.Equal(got, want) {
			t.Errorf("%v\ngot  %v\nwant %v", err, got, want)
		}
		if !reflect.DeepEqual(back, Of(got, 0)) {
			t.Errorf("shown again: %+v", back)
		}
	}
}

func TestWhatIsNoExportIsRefused(t *testing.T) {
	good := string(export(t, trail(0, "a")))
	for name, tt := range map[string]struct{ text, want string }{
		"cut":           {good[:len(good)-1], "line 1: it is cut"},
		"not JSON":      {good + "hello\n", "line 2: it is no audit entry"},
		"unknown field": {strings.Replace(good, `"actor"`, `"acter"`, 1), "unknown field"},
		"two on a line": {strings.TrimSuffix(good, "\n") + good, "more than one"},
		"too long":      {strings.Repeat(" ", MaxLine+1) + "\n", "longer than"},
		"half a ms":     {strings.Replace(good, ".123Z", ".1235Z", 1), "whole milliseconds"},
		"no hex":        {strings.Replace(good, `"afterSha256":"02`, `"afterSha256":"zz`, 1), "afterSha256 that is not hexadecimal"},
	} {
		if _, err := check([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
	if _, err := check([]byte(good[:len(good)-1])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	failing := errors.New("full")
	if err := Write(broken{failing}, func(yield func(Entry) bool) { yield(Entry{}) }); !errors.Is(err, failing) {
		t.Error(err)
	}
}

type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"sequence":1}` + "\n"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := check(text)
		if err == nil && c.Count() > 0 && len(text) < 2*64 {
			t.Errorf("a chain without room for a hash: %q", text)
		}
	})
}

// BenchmarkVerify is a full trail, as a client reads and checks it.
func BenchmarkVerify(b *testing.B) {
	var text bytes.Buffer
	err := Write(&text, func(yield func(Entry) bool) {
		for i, e := range trail(0, slices.Repeat([]string{"acme"}, 10_000)...) {
			if !yield(Of(e, uint64(i+1))) {
				return
			}
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := check(text.Bytes()); err != nil {
			b.Fatal(err)
		}
	}
}
