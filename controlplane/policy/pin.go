package policy

import "time"

// PinSpec keeps a cluster at a share of the weight that plans give it, whatever is seen of its health, until it ends. It
// lets nobody in whom rules forbid; a drain goes before it.
type PinSpec struct {
	// Percent of the weight, 0 to 100; 0 takes no new requests. Needed.
	Percent *float64 `json:"percent"`
	// Until is when it ends by itself, as in 2026-12-01T04:00:00Z. Needed.
	Until string `json:"until"`
}

// Share of the weight, 0..1; 1 where it is not said.
func (p *PinSpec) Share() float64 {
	if p == nil || p.Percent == nil {
		return 1
	}
	return *p.Percent / 100
}

// Ends is when the pin ends; the zero time, at which none holds, of one that does not say.
func (p *PinSpec) Ends() time.Time {
	if p == nil {
		return time.Time{}
	}
	return bound(p.Until)
}

func (f *finding) pin(p *PinSpec) {
	const at = "spec.pin."
	if p.Percent == nil {
		f.add(at+"percent", "is missing", "give the share of its weight that the cluster is kept at, from 0 to 100")
	} else {
		f.between(at+"percent", *p.Percent, 0, 100)
	}
	if p.Until == "" {
		f.add(at+"until", "is missing", "say when the pin ends, as in 2027-01-31T00:00:00Z (RFC 3339)")
		return
	}
	f.moment(at+"until", p.Until)
}
