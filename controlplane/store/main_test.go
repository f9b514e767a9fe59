package store

import (
	"flag"
	"os"
	"reflect"
	"testing"

	"github.com/hashicorp/raft"
)

// TestMain lets more clusters run side by side than there are cores: they wait more than they compute.
func TestMain(m *testing.M) {
	flag.Parse()
	abandon = func(f raft.Future, gone chan struct{}) {
		if v := reflect.ValueOf(f); v.Kind() == reflect.Pointer {
			if end := v.Elem().FieldByName("ShutdownCh"); end.IsValid() && end.IsNil() {
				end.Set(reflect.ValueOf(gone))
			}
		}
	}
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
