package backup

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"testing"
)

// reseal gives an archive other meta data, and the checksum that fits.
func reseal(t *testing.T, in []byte, m Meta) []byte {
	t.Helper()
	at := len(magic) + 8
	old := int(binary.BigEndian.Uint32(in[len(magic)+4:]))
	body := in[at+old : len(in)-sha256.Size]
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	out := append([]byte{}, in[:len(magic)+4]...)
	out = binary.BigEndian.AppendUint32(out, uint32(len(text)))
	out = append(append(out, text...), body...)
	sum := sha256.Sum256(out)
	return append(out, sum[:]...)
}
