package store

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
	"anabranch/controlplane/state/statepb"
)

// bigTable is the table of a large fleet: 100 clusters, 30 models, 10 regions.
func bigTable() *statepb.Command {
	t := &routerpb.Table{}
	for m := range 30 {
		for s := range 10 {
			w := &routerpb.Weights{Model: fmt.Sprint("model-", m), Class: "interactive", Source: fmt.Sprint("region-", s)}
			for c := range 100 {
				w.Clusters = append(w.Clusters, &routerpb.ClusterWeight{Cluster: fmt.Sprint("cluster-", c), Weight: float64(c) / 4950, Reason: "equal marginal cost"})
			}
			t.Weights = append(t.Weights, w)
		}
	}
	return &statepb.Command{Format: 1, Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: t}}}
}

func TestATableOfALargeFleetFitsAnEntry(t *testing.T) {
	t.Parallel()
	cmd := bigTable()
	if plain := proto.Size(cmd); plain < 2*MaxEntryBytes {
		t.Fatalf("the table has only %d bytes", plain)
	}
	data, err := pack(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > MaxEntryBytes/4 {
		t.Errorf("%d bytes in the log", len(data))
	}
	back, err := unpack(data)
	if err != nil || !proto.Equal(cmd, back) {
		t.Errorf("it is another after the log: %v", err)
	}
	// All nodes, and a leader that proposes it again, write the same.
	if again, err := pack(cmd); err != nil || !bytes.Equal(data, again) {
		t.Errorf("packed twice it differs: %v", err)
	}
}

func TestASmallCommandStandsAsItIs(t *testing.T) {
	t.Parallel()
	cmd := register("a", "1")
	data, err := pack(cmd)
	if err != nil {
		t.Fatal(err)
	}
	var plain statepb.Command
	if err := proto.Unmarshal(data, &plain); err != nil || !proto.Equal(cmd, &plain) {
		t.Errorf("an older node could not read it: %v", err)
	}
	if back, err := unpack(data); err != nil || !proto.Equal(cmd, back) {
		t.Errorf("unpack: %v", err)
	}
}

func TestWhatDoesNotCompressIsTooLarge(t *testing.T) {
	t.Parallel()
	noise := make([]byte, MaxEntryBytes)
	for i := range noise {
		noise[i] = byte('!' + rand.IntN(90))
	}
	if _, err := pack(register("a", string(noise))); err != nil {
		t.Errorf("text compresses a little: %v", err)
	}
	if _, err := pack(register("a", strings.Repeat(string(noise), 3))); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error %v, want too large", err)
	}
	if _, err := pack(register("a", strings.Repeat("x", maxPlain))); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a command beyond all bounds: %v, want too large", err)
	}
}

func TestAnEntryThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range maxPlain>>20 + 1 {
		if _, err := w.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	packed, err := pack(bigTable())
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"noise": {0xff, 0xff}, "half a header": gzipMagic, "cut short": packed[:len(packed)/2], "larger than it may be inside": bomb.Bytes(),
	} {
		if _, err := unpack(data); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}

func TestTheSizeOfAnEntryIsToldBeyondTheLimitToo(t *testing.T) {
	small := register("a", "1")
	packed, err := pack(small)
	if n, sizeErr := EntryBytes(small); err != nil || sizeErr != nil || n != len(packed) {
		t.Errorf("%d bytes, %v; packed %d, %v", n, sizeErr, len(packed), err)
	}
	random := make([]byte, 2*MaxEntryBytes)
	for i := range random {
		random[i] = byte(rand.IntN(256))
	}
	large := &statepb.Command{Op: &statepb.Command_Put{Put: &statepb.Put{Doc: random}}}
	if n, err := EntryBytes(large); err != nil || n < 2*MaxEntryBytes {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := pack(large); !errors.Is(err, ErrTooLarge) {
		t.Errorf("packed: %v", err)
	}
}
