package failover

import (
	"os"
	"strconv"
	"testing"

	"anabranch/cmd/e2e/programs"
)

// long asks for the whole measurement.
var long = os.Getenv("ANABRANCH_STRESS") == "1"

// How often the long form does what.
var kills, others = howOften(os.Getenv("ANABRANCH_KILLS"))

// howOften are the kills of a cluster, and the runs of all else: 100 and 30 unless it is told otherwise.
func howOften(told string) (kills, others int) {
	n, err := strconv.Atoi(told)
	if err != nil || n < 1 {
		n = 100
	}
	return n, max(1, n*3/10)
}

// bin is the folder of the commands, if any are started.
var bin string

func TestMain(m *testing.M) { programs.Main(m, long, &bin) }
