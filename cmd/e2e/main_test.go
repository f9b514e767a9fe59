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
	os.Exit(m.Run())
}
