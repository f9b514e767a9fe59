package boltlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"go.etcd.io/bbolt"
)

// ErrKeyNotFound is what [Log.Get] says of a key that was never set. hashicorp/raft compares its
// text, not its identity.
var ErrKeyNotFound = errors.New("not found")

// Set stores a copy of value under key, synced.
func (l *Log) Set(key, value []byte) error {
	framed := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(value)), valueSum(key, value))
	framed = append(framed, value...)
	err := l.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(stableBucket).Put(key, framed) })
	if err != nil {
		return fmt.Errorf("set %s: %w", key, err)
	}
	return nil
}

// Get returns a copy of the value under key. Errors: [ErrKeyNotFound], or one that wraps
// [ErrCorrupt].
func (l *Log) Get(key []byte) ([]byte, error) {
	var value []byte
	err := l.db.View(func(tx *bbolt.Tx) error {
		framed := tx.Bucket(stableBucket).Get(key)
		if framed == nil {
			return ErrKeyNotFound
		}
		v, err := openValue(key, framed)
		value = append([]byte{}, v...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return value, nil
}

// SetUint64 stores an integer under key, synced.
func (l *Log) SetUint64(key []byte, value uint64) error {
	return l.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 returns the integer under key, 0 if it was never set.
func (l *Log) GetUint64(key []byte) (uint64, error) {
	value, err := l.Get(key)
	switch {
	case errors.Is(err, ErrKeyNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	case len(value) != 8:
		return 0, fmt.Errorf("value of %s: %d bytes, an integer has 8: %w", key, len(value), ErrCorrupt)
	}
	return binary.BigEndian.Uint64(value), nil
}

// openValue checks a framed value and returns the part inside. A value is CRC-32C of key and
// value, then the value.
func openValue(key, framed []byte) ([]byte, error) {
	if len(framed) < 4 {
		return nil, fmt.Errorf("value of %s: %d bytes: %w", key, len(framed), ErrCorrupt)
	}
	if want := binary.BigEndian.Uint32(framed); want != valueSum(key, framed[4:]) {
		return nil, fmt.Errorf("value of %s: wrong checksum: %w", key, ErrCorrupt)
	}
	return framed[4:], nil
}

func valueSum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}
