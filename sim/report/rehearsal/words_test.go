package rehearsal

import "testing"

func TestFiguresAsPeopleReadThem(t *testing.T) {
	micros, ms, share := int64(-1_500_000), int64(2_400), 0.666
	for got, want := range map[string]string{
		whole(0): "0", whole(999): "999", whole(1_000): "1,000", whole(-1_234_567): "−1,234,567",
		span(0): "0 ms", span(999): "999 ms", span(1_000): "1.0 s", span(61_400): "61.4 s", span(125_000): "2m5s",
		money(0): "$0.00", money(910_000): "$0.9100", money(12_345_678): "$12.35", moneyOf(&micros): "−$1.50",
		moneyOf(nil): "–", spanOf(nil): "–", spanOf(&ms): "2.4 s", percentOf(&share): "67 %", percentOf(nil): "–",
		list([]string{"a", "b"}, 2): "a, b", list([]string{"a", "b", "c"}, 2): "a, b and 1 more", at(0): "–", at(1_800_000_000_000): "2027-01-15 08:00:00 UTC",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
