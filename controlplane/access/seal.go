package access

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
)

// SealNonce is the length of the random number that [Seal] needs.
const SealNonce = 12

// ErrSealed says that a sealed text can't be opened: another secret was used, or it was altered.
var ErrSealed = errors.New("sealed with another secret")

// Seal closes an answer that holds a secret so that it can be kept where others can read: only who
// sends the same bearer secret again, of which nothing but a hash is kept, opens it. It is AES-256-GCM
// under a key that HKDF-SHA-256 derives from the bearer secret; about binds it to what it answers.
func Seal(bearer, about string, nonce [SealNonce]byte, plain []byte) ([]byte, error) {
	a, err := sealer(bearer)
	if err != nil {
		return nil, err
	}
	return a.Seal(nonce[:], nonce[:], plain, []byte(about)), nil
}

// Open gives what [Seal] closed.
func Open(bearer, about string, sealed []byte) ([]byte, error) {
	a, err := sealer(bearer)
	if err != nil {
		return nil, err
	}
	if len(sealed) < SealNonce {
		return nil, ErrSealed
	}
	plain, err := a.Open(nil, sealed[:SealNonce], sealed[SealNonce:], []byte(about))
	if err != nil {
		return nil, ErrSealed
	}
	return plain, nil
}

func sealer(bearer string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, []byte(bearer), nil, "anabranch answers with secrets v1", 32)
	if err != nil {
		return nil, fmt.Errorf("derive key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("derive key: %w", err)
	}
	return cipher.NewGCM(block)
}
