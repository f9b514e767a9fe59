package override

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"anabranch/api/order/signed"
)

// keptVersion is the version of the file that keeps orders over a restart.
const keptVersion = 1

type kept struct {
	Version int `json:"version"`
	// Orders by the socket, Committed by the quorum of the control plane.
	Orders    []Order         `json:"orders"`
	Committed []Order         `json:"committed,omitempty"`
	Signed    json.RawMessage `json:"signed,omitempty"` // a shelf

	shelf *signed.Shelf
}

// maxKept bounds the file in bytes.
const maxKept = 1 << 20

// loadKept reads the orders that were given before the start, and not by the file of orders. A missing file has none.
func loadKept(path string, keys []signed.Key, now time.Time) (kept, error) {
	none := kept{shelf: &signed.Shelf{}}
	text, err := readFile(path, maxKept)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	var k kept
	if err := json.Unmarshal(text, &k); err != nil {
		return none, fmt.Errorf("read orders %s: %w", path, err)
	}
	if k.Version != keptVersion {
		return none, fmt.Errorf("read orders %s: version %d, this build reads %d", path, k.Version, keptVersion)
	}
	for _, list := range [][]Order{k.Orders, k.Committed} {
		for i := range list {
			if err := list[i].Check(list[i].At); err != nil {
				return none, fmt.Errorf("read orders %s: order %d: %w", path, i+1, err)
			}
		}
	}
	k.shelf = none.shelf
	if len(k.Signed) > 0 {
		if k.shelf, err = signed.ReadShelf(k.Signed, keys, now); err != nil {
			return none, fmt.Errorf("read orders %s: %w", path, err)
		}
	}
	return k, nil
}

// saveKept replaces the file whole, and has it on the disk when it returns.
func saveKept(path string, k kept) (err error) {
	k.Version = keptVersion
	if k.Signed, err = k.shelf.MarshalJSON(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(k, "", "  ")
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
