// Package programs builds the commands for tests that run them as processes.
package programs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Main is a TestMain of a package in cmd/e2e/NAME: where wanted, it builds the three commands once, without the race
// detector, since what such tests measure is time, and has told know their folder, with a slash at its end. It ends
// the process.
func Main(m *testing.M, wanted bool, told *string) {
	if !wanted {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "anb") // the path of a socket must be short
	if err == nil {
		*told = dir + string(filepath.Separator)
		err = build(*told)
	}
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		fmt.Println(err)
	}
	_ = os.RemoveAll(dir) // of a test
	os.Exit(code)
}

func build(folder string) error {
	cmd := exec.CommandContext(context.Background(), "go", "build", "-o", folder, "../../anabranch", "../../anabranch-controlplane", "../../anabranch-router")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the commands: %w\n%s", err, text)
	}
	return nil
}
