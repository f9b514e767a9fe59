package costmodel

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestDollarsAreReadExactly(t *testing.T) {
	for text, want := range map[string]Micros{
		"0": 0, "0.0000000000": 0, "98.3200000000": 98_320_000, "32.772600": 32_772_600, "7": 7 * Dollar, "007.5": 7_500_000,
		"0.0000004999": 0, "0.0000005": 1, "0.9999999": Dollar, "0.1": 100_000, "1.23456789": 1_234_568,
		"9223372036854.775807": math.MaxInt64, "9223372036854.7758079": math.MaxInt64,
	} {
		if got, err := ParseUSD(text); err != nil || got != want {
			t.Errorf("%q is %d micros, want %d (%v)", text, got, want, err)
		}
	}
	for _, text := range []string{
		"", ".", "1.", ".5", "-1", "+1", "1e3", "1,000", " 1", "1 ", "$1", "1.2.3", "0x10", "NaN", "٣",
		"9223372036854.775808", "99999999999999999999", strings.Repeat("0", maxDecimal+1),
	} {
		if got, err := ParseUSD(text); err == nil {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}

// Whatever is read is within half a micro-dollar of the exact amount.
func TestDollarsAreRoundedToTheNearest(t *testing.T) {
	half := big.NewRat(1, 2)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[0-9]{1,12}(\.[0-9]{1,12})?`).Draw(t, "dollars")
		got, err := ParseUSD(text)
		if err != nil {
			t.Fatal(err)
		}
		exact, ok := new(big.Rat).SetString(text)
		if !ok {
			t.Fatalf("%q is no decimal", text)
		}
		off := exact.Mul(exact, big.NewRat(int64(Dollar), 1)).Sub(new(big.Rat).SetInt64(int64(got)), exact)
		if off.Cmp(half) > 0 || off.Cmp(new(big.Rat).Neg(half)) <= 0 {
			t.Fatalf("%q is read %d, off by %s", text, got, off)
		}
	})
}

func FuzzParseUSD(f *testing.F) {
	for _, text := range []string{"98.3200000000", "0", "1e9", "9223372036854.775808", "-1", "."} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseUSD(text)
		switch {
		case err != nil && got != 0:
			t.Errorf("%q gave %d with an error", text, got)
		case got < 0:
			t.Errorf("%q gave %d", text, got)
		case err == nil:
			if again, err := ParseUSD(strings.TrimPrefix(got.String(), "$")); err != nil || again != got {
				t.Errorf("%q: %s is read back as %d, %v", text, got, again, err)
			}
		}
	})
}
