package audit

import (
	"encoding/hex"
	"fmt"
	"time"

	"anabranch/controlplane/state/statepb"
)

// Entry is an entry of the audit trail as the API and archives show it. SHA256 is over the entry and
// PreviousSHA256, so the trail is a chain; [Sum] says over which bytes.
type Entry struct {
	// Sequence counts the entries of the trail from 1.
	Sequence uint64 `json:"sequence"`
	// Index is of the command that wrote the entry; a command may write several.
	Index uint64 `json:"index"`
	// At is of whole milliseconds.
	At    time.Time `json:"at"`
	Actor string    `json:"actor"`
	// ActorKind is how the actor was known, and Credential what may be shown of its secret; either
	// may be empty.
	ActorKind      string `json:"actorKind,omitempty"`
	Credential     string `json:"credential,omitempty"`
	Role           string `json:"role"`
	Action         string `json:"action"`
	Kind           string `json:"kind"`
	Name           string `json:"name"`
	Reason         string `json:"reason"`
	RequestID      string `json:"requestId"`
	Code           string `json:"code"`
	PreviousSHA256 string `json:"previousSha256"`
	SHA256         string `json:"sha256"`
	// Version is of the form that is hashed.
	Version uint32 `json:"version"`
	// BeforeSHA256 and AfterSHA256 are of the resource's document as it is kept; empty: there is none.
	BeforeSHA256 string `json:"beforeSha256,omitempty"`
	AfterSHA256  string `json:"afterSha256,omitempty"`
	// Changes are the fields that differ, as far as there is room; ChangesOmitted is how many more do.
	Changes        []Change `json:"changes,omitempty"`
	ChangesOmitted uint32   `json:"changesOmitted,omitempty"`
}

// Change is one field before and after. From and To hold JSON as text, so that the bytes that were
// hashed survive any program in between; empty: there is none.
type Change struct {
	Field string `json:"field"`
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
}

// Of shows an entry. The sequence number counts for entries of version 1, which have none.
func Of(e *statepb.AuditEntry, sequence uint64) Entry {
	out := Entry{
		Sequence: sequence, Index: e.GetIndex(), At: time.UnixMilli(e.GetAtUnixMs()).UTC(),
		Actor: e.GetActor(), ActorKind: e.GetActorKind(), Credential: e.GetCredential(), Role: e.GetRole(), Action: e.GetAction(), Kind: e.GetKind(), Name: e.GetName(),
		Reason: e.GetReason(), RequestID: e.GetRequestId(), Code: e.GetCode(),
		PreviousSHA256: hex.EncodeToString(e.GetPreviousSha256()), SHA256: hex.EncodeToString(e.GetSha256()),
		Version:      versionOf(e),
		BeforeSHA256: hex.EncodeToString(e.GetBeforeSha256()), AfterSHA256: hex.EncodeToString(e.GetAfterSha256()),
		ChangesOmitted: e.GetChangesOmitted(),
	}
	if e.GetSequence() != 0 {
		out.Sequence = e.GetSequence()
	}
	for _, c := range e.GetChanges() {
		out.Changes = append(out.Changes, Change{Field: c.GetField(), From: c.GetFrom(), To: c.GetTo()})
	}
	return out
}

// Hashed is the inverse of [Of], for [Chain.Add]. The error says what can't be what was hashed.
func (e Entry) Hashed() (*statepb.AuditEntry, error) {
	out := &statepb.AuditEntry{
		Sequence: e.Sequence, Index: e.Index, AtUnixMs: e.At.UnixMilli(),
		Actor: e.Actor, ActorKind: e.ActorKind, Credential: e.Credential, Role: e.Role, Action: e.Action, Kind: e.Kind, Name: e.Name,
		Reason: e.Reason, RequestId: e.RequestID, Code: e.Code,
		Version: e.Version, ChangesOmitted: e.ChangesOmitted,
	}
	if !time.UnixMilli(e.At.UnixMilli()).Equal(e.At) {
		return nil, &BrokenError{Sequence: e.Sequence, Index: e.Index, Reason: "has a time that is not of whole milliseconds"}
	}
	for _, h := range []struct {
		name, text string
		to         *[]byte
	}{
		{"previousSha256", e.PreviousSHA256, &out.PreviousSha256},
		{"sha256", e.SHA256, &out.Sha256},
		{"beforeSha256", e.BeforeSHA256, &out.BeforeSha256},
		{"afterSha256", e.AfterSHA256, &out.AfterSha256},
	} {
		b, err := hex.DecodeString(h.text)
		if err != nil {
			return nil, &BrokenError{Sequence: e.Sequence, Index: e.Index, Reason: fmt.Sprintf("has a %s that is not hexadecimal", h.name)}
		}
		*h.to = b
	}
	for _, c := range e.Changes {
		out.Changes = append(out.Changes, &statepb.FieldChange{Field: c.Field, From: c.From, To: c.To})
	}
	return out, nil
}
