package episode

import (
	"encoding/json"

	"anabranch/failover/drill"
)

// readResolved reads what names of a drill stand for; nothing, where there was no dry run.
func readResolved(doc []byte) (r drill.Resolved) {
	_ = json.Unmarshal(doc, &r) // then nothing was drilled
	return r
}

// readKind reads the kind of drill that a spec names; empty: none.
func readKind(spec []byte) string {
	var s struct {
		Kind string `json:"kind"`
	}
	_ = json.Unmarshal(spec, &s) // then it is of no kind
	return s.Kind
}
