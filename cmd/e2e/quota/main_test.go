package quota

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"
)

// binary is the router's.
var binary string

// TestMain builds the router once, as this test is built, so that what they share is there already.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("whole systems are not started with -short")
		return
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
	binary = filepath.Join(dir, "anabranch-router")
	args, env := []string{"build", "-o", binary}, os.Environ()
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			switch {
			case setting.Key == "-race" && setting.Value == "true":
				args = append(args, "-race")
			case setting.Key == "CGO_ENABLED":
				env = append(env, setting.Key+"="+setting.Value)
			}
		}
	}
	cmd := exec.Command("go", append(args, "../../anabranch-router")...)
	cmd.Env = env
	if text, err := cmd.CombinedOutput(); err != nil {
		fmt.Printf("%v\n%s", err, text)
		return 1
	}
	return m.Run()
}
