//go:build linux || darwin

package store

import (
	"fmt"
	"syscall"
)

// freeBytes is the space that an ordinary user may still fill on the file system of dir.
func freeBytes(dir string) (uint64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, fmt.Errorf("ask for free space of %s: %w", dir, err)
	}
	return fs.Bavail * uint64(fs.Bsize), nil
}
