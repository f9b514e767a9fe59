package drill

import (
	"os"
	"testing"

	"anabranch/cmd/e2e/programs"
)

// long asks for the rehearsals: they take minutes of a machine that has nothing else to do.
var long = os.Getenv("ANABRANCH_STRESS") == "1"

// bin is the folder of the commands, if any are started.
var bin string

func TestMain(m *testing.M) { programs.Main(m, long, &bin) }
