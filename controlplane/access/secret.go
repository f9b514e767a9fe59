package access

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
)

// SecretPrefix begins every secret that the control plane makes, so that scanners of repositories and
// logs know one when they see it: the pattern is anb_[a-z2-7]{59}.
const SecretPrefix = "anb_"

// SecretBytes is how much randomness is in a secret.
const SecretBytes = 32

const (
	secretLength = 52 // characters of the randomness
	sumLength    = 7  // characters of the checksum
	shownLength  = len(SecretPrefix) + 6
)

// alphabet is RFC 4648's for base32, in lower case: a double click selects all of a secret, and it has
// no letters in two cases to be confused.
var alphabet = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// ErrSecret says that a secret of the control plane was cut or mistyped.
var ErrSecret = errors.New("the token is cut or mistyped: its checksum does not match")

// NewSecret writes a secret: the prefix, the randomness and a CRC-32 (IEEE) of both.
func NewSecret(random [SecretBytes]byte) string {
	text := SecretPrefix + alphabet.EncodeToString(random[:])
	return text + checksum(text)
}

func checksum(text string) string {
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.ChecksumIEEE([]byte(text)))
	return alphabet.EncodeToString(sum[:])
}

// Made says whether a secret is one that the control plane makes: false for those of other makers,
// such as the first tokens of a cluster, and an error for what begins like ours and is not whole.
func Made(secret string) (bool, error) {
	if !strings.HasPrefix(secret, SecretPrefix) {
		return false, nil
	}
	body := len(SecretPrefix) + secretLength
	if len(secret) != body+sumLength || checksum(secret[:body]) != secret[body:] {
		return false, ErrSecret
	}
	random, err := alphabet.DecodeString(secret[len(SecretPrefix):body])
	if err != nil || len(random) != SecretBytes {
		return false, ErrSecret
	}
	return true, nil
}

// Shown is what may be shown of a secret that the control plane made: enough to tell it from others,
// too little to guess the rest.
func Shown(secret string) string { return secret[:min(len(secret), shownLength)] }

// Hash is what is kept of a secret. With 256 random bits in it, a plain SHA-256 can't be turned back.
func Hash(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}
