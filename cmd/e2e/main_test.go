package e2e

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain leaves whole systems out of the quick loop.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("whole systems are not started with -short")
		return
	}
	// Checks that share a system wait far more than they compute.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
