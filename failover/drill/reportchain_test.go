package drill

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// row is n reports that follow each other.
func row(n int) []Link {
	var out []Link
	previous := ""
	for i := range n {
		in := hard()
		in.Facts.ID, in.Facts.EndedUnixMs, in.PreviousSHA256 = uint64(100+i), began+int64(i)*1e6, previous
		b, sum := Encode(NewReport(in))
		previous = hex.EncodeToString(sum[:])
		out = append(out, Link{Name: fmt.Sprintf("%d.json", i), JSON: b})
	}
	return out
}

func indented(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestARowHoldsInAnyOrderAndIndentation(t *testing.T) {
	links := row(4)
	links[0], links[3] = links[3], links[0]
	links[1].JSON = indented(t, links[1].JSON)
	heads, err := VerifyChain(links)
	if err != nil {
		t.Fatal(err)
	}
	if len(heads) != 4 || heads[0].ID != 100 || heads[3].ID != 103 {
		t.Errorf("%+v", heads)
	}
	sum, _ := Sum(links[1].JSON)
	if heads[1].SHA256 != hex.EncodeToString(sum[:]) {
		t.Error("the hash is of other bytes")
	}
	if heads, err := VerifyChain(nil); err != nil || heads != nil {
		t.Errorf("of none: %v %v", heads, err)
	}
	if _, err := VerifyChain(row(4)[2:]); err != nil {
		t.Errorf("the first may name one that is forgotten: %v", err)
	}
}

func TestABrokenLinkIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		change func([]Link) []Link
		link   string
		why    string
	}{
		"one figure is changed": {func(l []Link) []Link {
			l[1].JSON = bytes.Replace(l[1].JSON, []byte(`"lost":0`), []byte(`"lost":1`), 1)
			return l
		}, "2.json", "that one was changed"},
		"one is missing": {func(l []Link) []Link { return append(l[:1:1], l[2:]...) }, "2.json", "is missing"},
		"two of one drill": {func(l []Link) []Link {
			return append(l, Link{Name: "copy.json", JSON: bytes.Replace(l[1].JSON, []byte(`"lost":0`), []byte(`"lost":1`), 1)})
		}, "copy.json", "another report of the same drill"},
		"one twice": {func(l []Link) []Link { return append(l, Link{Name: "copy.json", JSON: l[1].JSON}) }, "copy.json", "same report as 1.json"},
		"another fleet's": {func(l []Link) []Link {
			l[2].JSON = bytes.Replace(l[2].JSON, []byte(`"clusterId":"c"`), []byte(`"clusterId":"d"`), 1)
			return l
		}, "2.json", "verify them apart"},
		"the server differs": {func(l []Link) []Link { l[3].SHA256 = strings.Repeat("00", 32); return l }, "3.json", "not what was written"},
		"no report":          {func(l []Link) []Link { l[2].JSON = []byte(`{"kind":"Region"}`); return l }, "2.json", "anabranch drill report"},
		"no JSON":            {func(l []Link) []Link { l[2].JSON = []byte(`<html>`); return l }, "2.json", "read the report"},
	} {
		_, err := VerifyChain(c.change(row(4)))
		var broken *BrokenLinkError
		if !errors.As(err, &broken) || broken.Name != c.link || !strings.Contains(err.Error(), c.why) || !strings.HasPrefix(err.Error(), c.link) {
			t.Errorf("%s: got %v, want one of %s with %q", name, err, c.link, c.why)
		}
	}
}
