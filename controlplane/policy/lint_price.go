package policy

import "fmt"

// outpriced: prices that another rate card has for the very same GPUs and time, so that they never hold. Of two the one
// that is no estimate is taken, then that of the first card; see costmodel.NewBook.
func (l *lint) outpriced() {
	type goods struct{ class, region, instance, zone, purchase, from, until string }
	type place struct {
		card     string
		entry    int
		estimate bool
	}
	held := map[goods]place{}
	for _, r := range l.all.List(KindRateCard) {
		for i, p := range r.Spec.(*RateCardSpec).GPUs {
			of := goods{p.Class, p.Region, p.Instance, p.AvailabilityZone, p.Purchase, p.From, p.Until}
			now := place{r.Metadata.Name, i, p.Estimate}
			before, twice := held[of]
			if !twice {
				held[of] = now
				continue
			}
			if before.estimate && !now.estimate {
				held[of] = now
				before, now = now, before
			}
			l.at = Plural(KindRateCard) + "/" + now.card
			l.warn(fmt.Sprintf("spec.gpus[%d]", now.entry), fmt.Sprintf("rate card %q has a price for %s %s in %s too, and that is taken", before.card, p.Purchase, p.Class, p.Region), "keep one of them")
		}
	}
}
