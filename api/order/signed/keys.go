package signed

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/order"
)

// Key is the public half of a key that orders are signed with, and whose it is.
type Key struct {
	ID     string // made of Public, see [KeyID]
	Name   string // who signs with it, for lists and the audit trail
	Who    string // more of that, for people; may be empty
	Public ed25519.PublicKey
}

const (
	algorithm = "ed25519"
	maxKeys   = 64
	maxFile   = 64 << 10
)

// KeyID names a key by what it is, so that nobody has to agree on names.
func KeyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:6])
}

// String is the key's line in a file of keys.
func (k Key) String() string {
	return strings.TrimSpace(algorithm + " " + base64.StdEncoding.EncodeToString(k.Public) + " " + k.Name + " " + k.Who)
}

// ParseKeys reads a file of keys: one a line, "ed25519 BASE64 NAME WHO…", and lines of comment after #. Errors name the
// line.
func ParseKeys(text []byte) ([]Key, error) {
	var keys []Key
	n := 0
	for line := range bytes.Lines(text) {
		n++
		fields := strings.Fields(string(line))
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		k, err := parseKey(fields)
		for _, other := range keys {
			if err == nil && (other.ID == k.ID || other.Name == k.Name) {
				err = fmt.Errorf("key %s or the name %s stands in a line before: give each key one line and a name of its own", k.ID, k.Name)
			}
		}
		if err == nil && len(keys) == maxKeys {
			err = fmt.Errorf("more than %d keys", maxKeys)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

func parseKey(fields []string) (Key, error) {
	if fields[0] != algorithm || len(fields) < 3 {
		return Key{}, errors.New("write a key as: ed25519 BASE64 NAME, as `anabranch emergency keygen` prints it")
	}
	public, err := base64.StdEncoding.DecodeString(fields[1])
	switch {
	case err != nil:
		return Key{}, fmt.Errorf("the key is no base64: %w", err)
	case len(public) != ed25519.PublicKeySize:
		return Key{}, fmt.Errorf("the key has %d bytes: an Ed25519 key has %d", len(public), ed25519.PublicKeySize)
	}
	if err := fleet.CheckName(fields[2]); err != nil {
		return Key{}, fmt.Errorf("name %q %w", fields[2], err)
	}
	k := Key{ID: KeyID(public), Name: fields[2], Who: strings.Join(fields[3:], " "), Public: public}
	if k.Who != "" {
		return k, order.Text("who", k.Who)
	}
	return k, nil
}

// Generate makes a key.
func Generate() (ed25519.PrivateKey, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	return private, err
}

const pemType = "PRIVATE KEY"

// EncodePrivate is a private key for a file of its own: PKCS #8 in PEM, as other tools read it.
func EncodePrivate(private ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}), nil
}

// ReadPrivate reads the file of a private key. One that others can read is refused.
func ReadPrivate(path string) (ed25519.PrivateKey, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("private key %s may be read by others (mode %#o): chmod 600 it, and if it was like that for long make another", path, mode)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != pemType {
		return nil, fmt.Errorf("private key %s is no PEM of a %s: make one with `anabranch emergency keygen`", path, pemType)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("private key %s: %w", path, err)
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("private key %s is a %T: orders are signed with Ed25519", path, key)
	}
	return private, nil
}

// Ring is the keys in a file, which is read again when it has changed. It is safe for concurrent use; a nil Ring has
// none.
type Ring struct {
	path string

	mu   sync.Mutex // guards what follows
	keys []Key
	size int64
	time time.Time
	err  error
}

// OpenRing reads a file of keys for the first time.
func OpenRing(path string) (*Ring, error) {
	r := &Ring{path: path}
	_, err := r.Keys()
	if err == nil && len(r.keys) == 0 {
		err = fmt.Errorf("keys of orders %s: it holds no key", path)
	}
	return r, err
}

// Keys are those of the file now. An error says why it can't be read; the keys are then those of before.
func (r *Ring) Keys() ([]Key, error) {
	if r == nil {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	info, err := os.Stat(r.path)
	if err != nil {
		return r.keys, fmt.Errorf("keys of orders: %w", err)
	}
	if info.Size() == r.size && info.ModTime().Equal(r.time) {
		return r.keys, r.err
	}
	r.size, r.time = info.Size(), info.ModTime()
	text, err := r.read()
	if err == nil {
		var keys []Key
		if keys, err = ParseKeys(text); err == nil {
			r.keys = keys
		}
	}
	r.err = nil
	if err != nil {
		r.err = fmt.Errorf("keys of orders %s: %w", r.path, err)
	}
	return r.keys, r.err
}

func (r *Ring) read() ([]byte, error) {
	f, err := os.Open(r.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("larger than %d bytes", maxFile)
	}
	return text, err
}
