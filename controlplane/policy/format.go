package policy

import (
	"encoding/json"
	"slices"

	"anabranch/costmodel"
)

// The formats of replicated commands whose builds know what a document says, see [NeedsFormat].
const (
	firstFormat  = 1
	leasesFormat = 4 // organisations, quota stores, quotas of more than plain rates of whole tenants, and prices of more than GPUs as such
	bookFormat   = 5 // prices of egress, emissions and cached tokens, objectives in words, losses to survive, least shares and premiums
	drillFormat  = 6 // rules for drills
)

// later are the fields of specs that builds before leasesFormat do not know.
var later = map[Kind][]string{
	KindRegion: {"quotaStore"},
	KindTenant: {"organization"},
	KindQuota:  {"organization", "key", "shadow", "overrun", "homeRegion"},
}

// latest are the fields of specs that builds before bookFormat do not know.
var latest = map[Kind][]string{
	KindRateCard:      {"egress", "carbon"},
	KindTrafficPolicy: {"objective", "survive", "maxPremium"},
}

// newest are the fields of specs that builds before drillFormat do not know.
var newest = map[Kind][]string{
	KindSafetyRule: {"drills"},
}

// newestFailover are those of the failover of a TrafficPolicy.
var newestFailover = []string{
	"silenceMs",
	"greyConfirmMs",
	"greyStepMs",
	"clearMs",
	"failureShare",
	"greyShare",
	"greyRequests",
	"full",
	"fullMs",
	"ease",
	"easeMs",
	"ttftFactor",
	"quietMs",
	"quietShare",
	"recoveryMaxMs",
	"relapseMemoryMs",
	"autoReturnMs",
	"rampSteps",
	"rampBackMs",
	"correlatedMs",
	"correlatedShare",
	"freezeMs",
	"paceMs",
	"lockMs",
	"readyShare",
	"skewMs",
}

// objectHas says whether an object has one of the fields.
func objectHas(object json.RawMessage, fields []string) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(object, &m) == nil && hasAny(m, fields)
}

// lists of specs whose items such builds do not know in all their forms, and which of them those are.
var (
	lists     = map[Kind]string{KindQuota: "limits", KindCluster: "gpus", KindRateCard: "gpus"}
	laterItem = map[string]func(map[string]json.RawMessage) bool{"limits": laterLimit, "gpus": laterGPUs}
)

// NeedsFormat is the oldest format of replicated commands whose builds understand a document, given as
// [Canonical] does, in all that it says. Builds of an older one would store it, and not judge or
// carry out what they do not know; so it must not be proposed while there are any. That the kind as such is
// known is not judged.
func NeedsFormat(kind Kind, doc []byte) uint32 {
	fields, list := later[kind], lists[kind]
	if fields == nil && latest[kind] == nil && newest[kind] == nil && list == "" {
		return firstFormat
	}
	var d struct{ Spec map[string]json.RawMessage }
	if json.Unmarshal(doc, &d) != nil {
		return firstFormat // no build takes it
	}
	switch {
	case hasAny(d.Spec, newest[kind]), kind == KindTrafficPolicy && objectHas(d.Spec["failover"], newestFailover):
		return drillFormat
	case hasAny(d.Spec, latest[kind]) || kind == KindRateCard && anyHas(d.Spec["models"], "cachedPerMTok"),
		kind == KindTrafficPolicy && anyHas(d.Spec["regions"], "minShare"):
		return bookFormat
	case hasAny(d.Spec, fields):
		return leasesFormat
	}
	var items []map[string]json.RawMessage
	if list == "" || json.Unmarshal(d.Spec[list], &items) != nil {
		return firstFormat
	}
	if slices.ContainsFunc(items, laterItem[list]) {
		return leasesFormat
	}
	return firstFormat
}

// anyHas says whether one of the objects of a list has a field.
func anyHas(list json.RawMessage, field string) bool {
	var items []map[string]json.RawMessage
	return json.Unmarshal(list, &items) == nil && slices.ContainsFunc(items, func(m map[string]json.RawMessage) bool {
		return hasAny(m, []string{field})
	})
}

func laterLimit(l map[string]json.RawMessage) bool {
	var of string
	return hasAny(l, []string{"max", "usd", "timeZone", "warnAt"}) || json.Unmarshal(l["kind"], &of) == nil && !(&LimitSpec{Kind: of}).rate()
}

func laterGPUs(g map[string]json.RawMessage) bool {
	var bought costmodel.Purchase
	return hasAny(g, []string{"instance", "availabilityZone", "from", "until"}) || json.Unmarshal(g["purchase"], &bought) == nil && bought == costmodel.CapacityBlock
}

func hasAny(m map[string]json.RawMessage, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { _, ok := m[n]; return ok })
}
