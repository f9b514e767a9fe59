package identity

import (
	"bytes"
	"encoding/pem"
	"testing"
)

func TestABundleThatIsCutOffIsNotTakenForHalf(t *testing.T) {
	first, second := newAuthority(t).ca(), newAuthority(t).ca()
	bundle := bytes.Join([][]byte{first, second}, nil)
	for i := range bundle {
		got, err := certificates(bundle[:i])
		// Where one block has ended and the next not begun nothing can be seen, and the last line needs no end.
		seam := i >= len(first)-1 && i < len(first)+len("-----")
		switch {
		case i == len(bundle)-1 && (err != nil || len(got) != 2):
			t.Errorf("without its last line's end: %d, %v", len(got), err)
		case i < len(bundle)-1 && seam != (err == nil):
			t.Errorf("cut after %d of %d bytes, the first block has %d: %d, %v", i, len(bundle), len(first), len(got), err)
		}
	}
}

// What is taken is all that is there: writing it out and reading it again gives the same.
func FuzzCertificates(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := certificates(b)
		if err != nil {
			if len(got) > 0 {
				t.Fatal("certificates beside an error")
			}
			return
		}
		var again []byte
		for _, c := range got {
			again = append(again, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
		}
		twice, err := certificates(again)
		if err != nil || len(twice) != len(got) || len(got) > bytes.Count(b, []byte("-----BEGIN ")) {
			t.Fatalf("%d certificates, then %d, %v", len(got), len(twice), err)
		}
	})
}
