package queue

// tier is one of the named priorities. What lies between two counts as the lower.
type tier struct {
	name     string
	priority int32
	ceiling  float64
}

// tiers from the highest down. The last takes all that is below it too.
var tiers = [...]tier{
	{"top", 100, 1.0},
	{"standard", 50, 0.9},
	{"best-effort", 0, 0.8},
	{"batch", -10, 0.6},
}

// tierOf is the index in tiers of a priority.
func tierOf(priority int32) int {
	for i := range tiers[:len(tiers)-1] {
		if priority >= tiers[i].priority {
			return i
		}
	}
	return len(tiers) - 1
}

// Tier is the name of the tier that a priority counts as: top (100 and up), standard (50),
// best-effort (0) or batch.
func Tier(priority int32) string { return tiers[tierOf(priority)].name }

// Counts is the priority that a priority counts as, that of its tier: 100, 50, 0 or -10.
func Counts(priority int32) int32 { return tiers[tierOf(priority)].priority }

// Ceiling is the saturation from which on requests of a priority are not let in: 1.0 for top, 0.9,
// 0.8 and 0.6 for the tiers below. What is left above a ceiling is for those of higher priority,
// so that they find room without waiting for others to end.
func Ceiling(priority int32) float64 { return tiers[tierOf(priority)].ceiling }
