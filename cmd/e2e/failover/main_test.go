package failover

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
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

// bin is the folder of the commands.
var bin string

// TestMain builds the commands once, if any are started: without the race detector, since what is measured is time.
func TestMain(m *testing.M) {
	if !long {
		os.Exit(m.Run())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "anb")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // of a test
	bin = dir + string(filepath.Separator)
	cmd := exec.Command("go", "build", "-o", bin, "../../anabranch", "../../anabranch-controlplane", "../../anabranch-router")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		fmt.Printf("%v\n%s", err, text)
		return 1
	}
	return m.Run()
}
