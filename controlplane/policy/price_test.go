package policy

import (
	"testing"

	"anabranch/costmodel"
)

func TestTokenPricesForTheCostModel(t *testing.T) {
	usd := func(x float64) *float64 { return &x }
	for name, tt := range map[string]struct {
		price ModelPrice
		want  costmodel.TokenPrice
	}{
		"cached input costs what other input does": {ModelPrice{InputPerMTok: 0.5, OutputPerMTok: 2}, costmodel.TokenPrice{Input: 500_000, Cached: 500_000, Output: 2_000_000}},
		"unless the card says what":                {ModelPrice{InputPerMTok: 0.5, OutputPerMTok: 2, CachedPerMTok: usd(0.05)}, costmodel.TokenPrice{Input: 500_000, Cached: 50_000, Output: 2_000_000}},
		"also if that is nothing":                  {ModelPrice{InputPerMTok: 0.5, CachedPerMTok: usd(0)}, costmodel.TokenPrice{Input: 500_000}},
		"nobody is paid":                           {ModelPrice{InputPerMTok: -1, OutputPerMTok: -1, CachedPerMTok: usd(-1)}, costmodel.TokenPrice{}},
	} {
		if got := tt.price.Price(); got != tt.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
