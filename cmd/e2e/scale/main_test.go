package scale

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"anabranch/cmd/e2e/programs"
)

// long asks for it: it takes some twenty minutes of a machine that has nothing else to do.
var long = os.Getenv("ANABRANCH_STRESS") == "1"

// bin is the folder of the commands, if they are wanted.
var bin string

// TestMain leaves whole systems out of the quick loop.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("whole systems are not started with -short")
		return
	}
	programs.Main(m, long, &bin)
}
