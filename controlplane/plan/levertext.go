package plan

import (
	"fmt"
	"strconv"
)

// words say what a lever does to a share that is base now.
func (l Lever) words(base float64) string {
	switch l.Kind {
	case LeverPrice:
		verb, side := "loses a point", "above"
		if l.Gains {
			verb, side = takes(base), "below"
		}
		return fmt.Sprintf("%s %s $%.4g per GPU and hour (now $%.4g)", verb, side, l.At, l.Now)
	case LeverCapacity:
		if l.Gains {
			return fmt.Sprintf("%s if it could do %s work/s (%s)", takes(base), thousands(l.At), times(l.At/l.Now))
		}
		return fmt.Sprintf("loses a point if it could do only %s work/s (%s)", thousands(l.At), times(l.At/l.Now))
	case LeverHealth:
		return fmt.Sprintf("in good health it would get %s (now %s)", percent(l.Share), percent(base))
	}
	return fmt.Sprintf("without %s it would get %s (now %s)", l.Of, percent(l.Share), percent(base))
}

// homeWords say what a lever of a region does to the share of its traffic that stays there.
func (l Lever) homeWords(base float64) string {
	var what string
	factor := l.At / l.Now
	switch more := factor > 1; {
	case l.Kind == LeverDemand && more:
		what = fmt.Sprintf("above %s work/s asked for (%s)", thousands(l.At), times(factor))
	case l.Kind == LeverDemand:
		what = fmt.Sprintf("below %s work/s asked for (%s)", thousands(l.At), times(factor))
	case l.Kind == LeverCapacity:
		what = fmt.Sprintf("if home could do %s work/s (%s)", thousands(l.At), times(factor))
	default:
		what = "if home cost " + times(factor)
	}
	switch {
	case l.Gains:
		return what + ", all of it stays at home"
	case base >= 1-leverPoint:
		return what + ", some of it leaves home"
	}
	return what + ", a point more leaves home"
}

func takes(base float64) string {
	if base < leverPoint {
		return "begins to take traffic"
	}
	return "takes a point more"
}

// times compares a figure with the present one.
func times(factor float64) string { return fmt.Sprintf("%.3g times what it is now", factor) }

// thousands writes a number without decimals, its digits in threes: "12,400".
func thousands(x float64) string {
	digits := strconv.FormatFloat(max(x, 0), 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
