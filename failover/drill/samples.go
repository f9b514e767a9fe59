package drill

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// AppendSamples adds seconds to those that are kept with a drill: each is JSON with its length before it. What
// is no number in one, which JSON has no word for, becomes 0.
func AppendSamples(kept []byte, samples ...Sample) []byte {
	for _, s := range samples {
		b, err := json.Marshal(s)
		if err != nil {
			clean := make([]ClusterSample, len(s.Clusters))
			for i, c := range s.Clusters {
				c.Saturation, c.Queue, c.KV = round4(c.Saturation), round4(c.Queue), round4(c.KV)
				clean[i] = c
			}
			s.Clusters = clean
			if b, err = json.Marshal(s); err != nil {
				continue // there are no other fractions
			}
		}
		kept = binary.AppendUvarint(kept, uint64(len(b)))
		kept = append(kept, b...)
	}
	return kept
}

// ReadSamples reads what [AppendSamples] wrote. With an error come those before the one that can't be read.
func ReadSamples(kept []byte) ([]Sample, error) {
	var out []Sample
	for len(kept) > 0 {
		n, size := binary.Uvarint(kept)
		if size <= 0 || n > uint64(len(kept)-size) {
			return out, errors.New("read the seconds of a drill: they are cut off")
		}
		var s Sample
		if err := json.Unmarshal(kept[size:size+int(n)], &s); err != nil {
			return out, fmt.Errorf("read the seconds of a drill: number %d: %w", len(out), err)
		}
		out, kept = append(out, s), kept[size+int(n):]
	}
	return out, nil
}
