package policy

import (
	"fmt"
	"strings"

	"anabranch/ratelimit"
)

// tokenPrices are the models of which some rate card has a price.
func (l *lint) tokenPrices() map[string]bool {
	models := map[string]bool{}
	for _, r := range l.all.List(KindRateCard) {
		for _, m := range r.Spec.(*RateCardSpec).Models {
			models[m.Model] = true
		}
	}
	return models
}

// quota: one that counts nothing, or not what it seems to.
func (l *lint) quota(r *Resource, prices map[string]bool) {
	s := r.Spec.(*QuotaSpec)
	if s.Model != "" {
		if _, base := l.all.Get(KindModel, s.Model); !base {
			l.warn("spec.model", fmt.Sprintf("%q is no base model, and quotas count by base model: it holds for no request", clip(s.Model)), "name the base model, or leave it out")
			return
		}
	}
	if s.Key != "" {
		if t, ok := l.all.Get(KindTenant, s.Tenant); ok && len(s.Keys(t.Spec.(*TenantSpec))) == 0 {
			l.warn("spec.key", fmt.Sprintf("the tenant has no API key %q: it holds for no request", clip(s.Key)), "name one of spec.apiKeys[].id of the tenant")
		}
	}
	for i := range s.Limits {
		if x := &s.Limits[i]; x.Money() {
			at := fmt.Sprintf("spec.limits[%d]", i)
			l.free(at+".kind", s.Model, prices)
			if summerless(x.TimeZone) {
				l.warn(at+".timeZone", fmt.Sprintf("%q has no daylight saving time: for half of the year days begin an hour off the clocks there", x.TimeZone), "name a place that keeps the time that is meant, as America/New_York")
			}
		}
	}
}

// free: a budget for models of whose tokens nobody has written down what they cost. They are charged what they
// were measured to cost, which is nothing at first, and where prices of GPUs are not known.
func (l *lint) free(field, model string, prices map[string]bool) {
	var missing []string
	for _, m := range l.all.List(KindModel) {
		if name := m.Metadata.Name; !prices[name] && (model == "" || model == name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		l.warn(field, "no rate card has a price for tokens of "+some(missing)+": they cost the budget what their work was measured to cost on a day before, and nothing until it was", "write the price into a rate card")
	}
}

// summerless: a zone is a fixed distance from UTC under the name of a place's winter time.
func summerless(zone string) bool {
	return zone == "EST" || zone == "MST" || strings.HasPrefix(zone, "Etc/GMT+") || strings.HasPrefix(zone, "Etc/GMT-")
}

// overfull: tenants with more limits than are counted together, from before that was looked for.
func (l *lint) overfull() {
	tenants := l.all.List(KindTenant)
	passed := narrows(l.all, tenants)
	for _, t := range tenants {
		if limits, ways := Passed(passed[t.Metadata.Name]); limits > ratelimit.MaxPath || ways > MaxWays {
			l.at = Plural(KindTenant) + "/" + t.Metadata.Name
			l.warn("spec", fmt.Sprintf("some of its requests would pass %d limits, in %d ways; quotas beyond %d limits or %d ways, by name, hold for nobody", limits, ways, ratelimit.MaxPath, MaxWays), "put several limits into one, or remove some")
		}
	}
}
