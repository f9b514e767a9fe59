package store

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets more clusters run side by side than there are cores: they wait more than they compute.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
