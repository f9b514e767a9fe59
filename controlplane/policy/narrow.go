package policy

import (
	"fmt"

	"anabranch/ratelimit"
)

// MaxWays bounds the ways in which the models and API keys of one tenant with limits of their own combine:
// routers keep a list of limits for each.
const MaxWays = 1024

// Narrow is a quota that holds for some of a tenant's requests.
type Narrow struct {
	// Model and Key to which it is narrowed. Empty: all.
	Model, Key string
	// Limits is how many it has.
	Limits int
}

// NarrowOf is what a quota narrows its limits to.
func NarrowOf(s *QuotaSpec) Narrow {
	n := Narrow{Model: s.Model, Limits: len(s.Limits)}
	if s.Key != "" {
		n.Key = KeyFamily(s.Key)
	}
	return n
}

// Passed is the most limits that one request passes which all of the quotas are for, if it is of the model
// and the key that make it so; and in how many ways models and keys with limits of their own combine.
func Passed(quotas []Narrow) (limits, ways int) {
	type way struct{ model, key string }
	sum := map[way]int{}
	models, keys := map[string]bool{"": true}, map[string]bool{"": true}
	for _, q := range quotas {
		models[q.Model], keys[q.Key] = true, true
		sum[way{q.Model, q.Key}] += q.Limits
	}
	ways = len(models) * len(keys)
	for _, m := range sortedKeys(models) {
		for _, k := range sortedKeys(keys) {
			n := sum[way{}]
			if m != "" {
				n += sum[way{m, ""}]
			}
			if k != "" {
				n += sum[way{"", k}]
			}
			if m != "" && k != "" {
				n += sum[way{m, k}]
			}
			limits = max(limits, n)
		}
	}
	return limits, ways
}

// crowded complains of a tenant whose requests would pass more limits than can be counted together, or in
// too many ways, unless they do so already and this change makes it no worse.
func (c *check) crowded(field, tenant string, before, after []Narrow) {
	limits, ways := Passed(after)
	if limits <= ratelimit.MaxPath && ways <= MaxWays {
		return
	}
	hadLimits, hadWays := Passed(before)
	of := Ref{KindTenant, tenant}
	if limits > ratelimit.MaxPath && limits > hadLimits {
		c.addOf(of, field, fmt.Sprintf("some requests of tenant %q would pass %d limits, and %d are counted together", tenant, limits, ratelimit.MaxPath), "remove limits of the tenant or its organization, or put several into one")
	}
	if ways > MaxWays && ways > hadWays {
		c.addOf(of, field, fmt.Sprintf("models and API keys of tenant %q with limits of their own would combine in %d ways, and %d are kept", tenant, ways, MaxWays), "give fewer models or fewer keys limits of their own")
	}
}
