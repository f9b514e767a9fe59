package rls

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"anabranch/dataplane/table"
)

// The keys of descriptor entries that are read. Others are passed over.
const (
	KeyTenant    = "tenant"        // whose quotas; without it a descriptor is limited by nothing
	KeyModel     = "model"         // base model, alias or adapter
	KeyKeySum    = "key_sha256"    // SHA-256 of the API key in hexadecimal, which tells the tenant too
	KeyUnit      = "unit"          // what the hits count: one of the Unit words
	KeyInput     = "input_tokens"  // estimate of the prompt's tokens, a number
	KeyOutput    = "output_tokens" // the most tokens of the answer, a number
	KeyRequestID = "request_id"    // joins what is asked at a request's start with what is told at its end
	KeyPhase     = "phase"         // PhaseDone: the hits were used, and are charged whether or not they are there
	KeyShadow    = "shadow"        // ShadowOn: say OK whatever the quotas say
)

// The values of KeyUnit, which are kinds of quota. Any other, and none, is UnitRequests.
const (
	UnitRequests = "requests"
	UnitInput    = "input-tokens"
	UnitOutput   = "output-tokens"
	// UnitTotal is of who can't tell input from output: see [KeyRequestID] in the README.
	UnitTotal = "total-tokens"
)

// Values of KeyPhase and KeyShadow.
const (
	PhaseDone = "done"
	ShadowOn  = "true"
)

const (
	// maxEntries of a descriptor are read.
	maxEntries = 32
	// maxHits bounds the hits of a descriptor; no request has as many tokens.
	maxHits = 1 << 40
	// maxRequestID bounds the length of a request's name, since many are kept. Longer ones are none.
	maxRequestID = 128
	// unsaid is a number that a descriptor says nothing of.
	unsaid = -1
)

// keySum is the SHA-256 of an API key, which is all that is known of it here. Zero: no key.
type keySum [sha256.Size]byte

// wish is what one descriptor says.
type wish struct {
	tenant, model, id string
	key               keySum
	keyID             table.KeyID // of key, see identify

	unit         string
	done, shadow bool
	// hits are 0 where only the state of the limit is asked for.
	hits int64
	// negative: hits would give back. They are not counted.
	negative bool
	// input and output are the estimates; unsaid: none.
	input, output int64
}

// read makes out a descriptor of a call whose own hits_addend is given. Of two entries with one key
// the first counts.
func read(d *ratelimitv3.RateLimitDescriptor, addend uint32) wish {
	w := wish{hits: max(1, int64(addend)), negative: d.GetIsNegativeHits(), input: unsaid, output: unsaid}
	if own := d.GetHitsAddend(); own != nil {
		w.hits = int64(min(own.GetValue(), maxHits))
	}
	entries := d.GetEntries()
	for _, e := range entries[:min(len(entries), maxEntries)] {
		switch v := e.GetValue(); e.GetKey() {
		case KeyTenant:
			first(&w.tenant, v)
		case KeyModel:
			first(&w.model, v)
		case KeyKeySum:
			sum(&w.key, v)
		case KeyRequestID:
			if len(v) <= maxRequestID {
				first(&w.id, v)
			}
		case KeyUnit:
			first(&w.unit, v)
		case KeyInput:
			number(&w.input, v)
		case KeyOutput:
			number(&w.output, v)
		case KeyPhase:
			w.done = w.done || v == PhaseDone
		case KeyShadow:
			w.shadow = w.shadow || v == ShadowOn
		}
	}
	switch w.unit {
	case UnitInput, UnitOutput, UnitTotal:
	default:
		w.unit = UnitRequests
	}
	return w
}

// sum takes the name of an API key; what is no SHA-256 names none.
func sum(to *keySum, value string) {
	var read keySum
	if *to != (keySum{}) || len(value) != 2*len(read) {
		return
	}
	if _, err := hex.Decode(read[:], []byte(value)); err == nil {
		*to = read
	}
}

// identify finds whose the API key is that the descriptor names. A key of another tenant than the one
// that is named beside it says nothing.
func (w *wish) identify(t *table.Table, now time.Time) {
	if w.key == (keySum{}) {
		return
	}
	of, id, _ := t.TenantByKeySum(w.key, now)
	if of == nil || w.tenant != "" && w.tenant != string(of.ID) {
		return
	}
	w.tenant, w.keyID = string(of.ID), id
}

func first(to *string, value string) {
	if *to == "" {
		*to = value
	}
}

// number takes a number of tokens; anything else says nothing.
func number(to *int64, value string) {
	if *to != unsaid {
		return
	}
	if n, err := strconv.ParseInt(value, 10, 64); err == nil && n >= 0 {
		*to = min(n, maxHits)
	}
}
