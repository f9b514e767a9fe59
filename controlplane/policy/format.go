package policy

import (
	"encoding/json"
	"slices"
)

// The formats of replicated commands whose builds know what a document says, see [NeedsFormat].
const (
	firstFormat  = 1
	leasesFormat = 4 // organisations, quota stores, and quotas of more than plain rates of whole tenants
)

// later are the fields of specs that builds before leasesFormat do not know.
var later = map[Kind][]string{
	KindRegion: {"quotaStore"},
	KindTenant: {"organization"},
	KindQuota:  {"organization", "key", "shadow", "overrun", "homeRegion"},
}

// laterLimit are those of limits.
var laterLimit = []string{"max", "usd", "timeZone", "warnAt"}

// NeedsFormat is the oldest format of replicated commands whose builds understand a document, given as
// [Canonical] does, in all that it says. Builds of an older one would store it, and not judge or
// carry out what they do not know; so it must not be proposed while there are any. That the kind as such is
// known is not judged.
func NeedsFormat(kind Kind, doc []byte) uint32 {
	fields := later[kind]
	if fields == nil {
		return firstFormat
	}
	var d struct{ Spec map[string]json.RawMessage }
	if json.Unmarshal(doc, &d) != nil {
		return firstFormat // no build takes it
	}
	if hasAny(d.Spec, fields) {
		return leasesFormat
	}
	var limits []map[string]json.RawMessage
	if kind != KindQuota || json.Unmarshal(d.Spec["limits"], &limits) != nil {
		return firstFormat
	}
	for _, l := range limits {
		var of string
		if hasAny(l, laterLimit) || json.Unmarshal(l["kind"], &of) == nil && !(&LimitSpec{Kind: of}).rate() {
			return leasesFormat
		}
	}
	return firstFormat
}

func hasAny(m map[string]json.RawMessage, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { _, ok := m[n]; return ok })
}
