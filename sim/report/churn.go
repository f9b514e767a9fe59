package report

import (
	"math"
	"time"

	"anabranch/sim/report/stat"
)

// deadBand is what a weight must move by before turning round counts.
const deadBand = 0.02

// churn is how much weights move over the time from the first point to the last. Rows are source
// regions × clusters.
func churn(rows [][]float32, clusters int, points []time.Duration) Churn {
	if len(rows) == 0 || clusters == 0 || len(points) < 2 {
		return Churn{PerMinute: stat.Unknown, Reversals: stat.Unknown}
	}
	minutes := (points[len(points)-1] - points[0]).Minutes()
	regions := float64(len(rows)) / float64(clusters)
	moved, turned := 0.0, 0
	for _, row := range rows {
		for i := 1; i < len(row); i++ {
			moved += math.Abs(float64(row[i]) - float64(row[i-1]))
		}
		turned += reversals(row)
	}
	return Churn{
		PerMinute: stat.Ratio(moved/regions, minutes),
		Reversals: stat.Ratio(float64(turned)/regions, minutes),
	}
}

// reversals counts how often a weight turned round: it went more than the dead-band away from its
// last extreme, having gone as far the other way before.
func reversals(row []float32) int {
	if len(row) == 0 {
		return 0
	}
	count, up, down := 0, false, false
	low, high := row[0], row[0]
	for _, w := range row {
		low, high = min(low, w), max(high, w)
		switch {
		case !up && w-low > deadBand:
			if down {
				count++
			}
			up, down, high = true, false, w
		case !down && high-w > deadBand:
			if up {
				count++
			}
			up, down, low = false, true, w
		}
	}
	return count
}
