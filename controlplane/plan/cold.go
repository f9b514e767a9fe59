package plan

import (
	"math"

	"anabranch/api/fleet"
)

// Cold is what is known of the prefix caches of a model where its requests are served now. Those of other
// clusters don't know the sessions that would move there.
type Cold struct {
	// Prefill is the part, 0..1, that prompts have in the work while caches are warm.
	Prefill float64 `json:"prefill"`
	// Hit is the part, 0..1, of prompts' tokens that is found in caches.
	Hit float64 `json:"hit"`
}

// Unmeasured stands for caches that nobody has measured: 30 % of warm work is prefill, and 70 % of it is saved,
// which makes moved work 1.7 times as much. Traces of conversations with ideal caches find 37 to 64 % of
// blocks again; to think too much of it is safe here.
var Unmeasured = Cold{Prefill: 0.3, Hit: 0.7}

// mostHit bounds what a cache is believed to save: beyond it a factor would say more of the measurement.
const mostHit = 0.95

// Factor is how many times as much work a request is where no cache knows its prompt as where caches are warm:
// (1-f) + f/(1-h), f being Prefill and h Hit. It is 1 at least.
func (c Cold) Factor() float64 {
	f, h := clip01(c.Prefill), min(clip01(c.Hit), mostHit)
	return 1 - f + f/(1-h)
}

// clip01 is x within 0 and 1; what is no number is 0.
func clip01(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return min(max(x, 0), 1)
}

// coldFactor is that of a model, by what was measured if anything was.
func coldFactor(measured func(fleet.ModelID) (Cold, bool), model fleet.ModelID) float64 {
	if measured != nil {
		if c, known := measured(model); known {
			return c.Factor()
		}
	}
	return Unmeasured.Factor()
}
