package override

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// keptVersion is the version of the file that keeps the socket's orders over a restart.
const keptVersion = 1

type kept struct {
	Version int     `json:"version"`
	Orders  []Order `json:"orders"`
}

// loadKept reads the orders that were given by the socket. A missing file has none.
func loadKept(path string) ([]Order, error) {
	text, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var k kept
	if err := json.Unmarshal(text, &k); err != nil {
		return nil, fmt.Errorf("read orders %s: %w", path, err)
	}
	if k.Version != keptVersion {
		return nil, fmt.Errorf("read orders %s: version %d, this build reads %d", path, k.Version, keptVersion)
	}
	for i := range k.Orders {
		if err := k.Orders[i].check(k.Orders[i].At); err != nil {
			return nil, fmt.Errorf("read orders %s: order %d: %w", path, i+1, err)
		}
	}
	return k.Orders, nil
}

// saveKept replaces the file whole, and has it on the disk when it returns.
func saveKept(path string, orders []Order) (err error) {
	text, err := json.MarshalIndent(kept{keptVersion, orders}, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("keep orders: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("keep orders: %w", err)
			_ = os.Remove(f.Name()) // best effort: it is small
		}
	}()
	if _, err = f.Write(append(text, '\n')); err != nil {
		_ = f.Close() // the write's error is the one to tell
		return err
	}
	if err = f.Sync(); err != nil {
		_ = f.Close() // the sync's error is the one to tell
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
