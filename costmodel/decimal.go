package costmodel

import (
	"fmt"
	"math"
	"strings"
)

// maxDecimal is how long an amount may be written.
const maxDecimal = 64

// ParseUSD reads an amount of dollars as sellers write it: digits, and perhaps a point with more digits
// ("98.3200000000"). It is rounded to the nearest micro-dollar, half up, without passing through a
// floating-point number. Signs, exponents, spaces and amounts beyond what [Micros] holds are errors.
func ParseUSD(text string) (Micros, error) {
	whole, rest, point := strings.Cut(text, ".")
	if whole == "" || point && rest == "" || len(text) > maxDecimal || strings.Trim(whole+rest, "0123456789") != "" {
		return 0, fmt.Errorf("%.80q is no amount of dollars such as 98.32", text)
	}
	digits := whole + (rest + "000000")[:6]
	up := len(rest) > 6 && rest[6] >= '5'
	var micros int64
	for _, d := range []byte(digits) {
		n := int64(d - '0')
		if micros > (math.MaxInt64-n)/10 {
			return 0, fmt.Errorf("%s dollars are more than can be counted", text)
		}
		micros = micros*10 + n
	}
	if up && micros < math.MaxInt64 {
		micros++
	}
	return Micros(micros), nil
}
