package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"testing"
)

// asCommand is the variable that makes this test's binary the command itself, so that a test can run
// nodes as processes of their own without another build.
const asCommand = "ANABRANCH_TEST_RUNS_THE_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // ends with the test, however that ends
			os.Exit(3)
		}()
		main()
		return
	}
	flag.Parse()
	if testing.Short() {
		fmt.Println("no processes are started with -short")
		return
	}
	os.Exit(m.Run())
}
