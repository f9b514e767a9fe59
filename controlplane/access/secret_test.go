package access

import (
	"bytes"
	"encoding/hex"
	"errors"
	"regexp"
	"strings"
	"testing"
)

// counting is 0, 1, 2, …
func counting() (b [SecretBytes]byte) {
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func TestSecretsAreRecognised(t *testing.T) {
	secret := NewSecret(counting())
	// Written down, because scanners of repositories know the pattern and tokens are in use.
	if want := "anb_aaaqeayeaudaocajbifqydiob4ibceqtcqkrmfyydenbwha5dypq37ad5py"; secret != want {
		t.Errorf("got %s, want %s", secret, want)
	}
	if !regexp.MustCompile(`^anb_[a-z2-7]{59}$`).MatchString(secret) {
		t.Errorf("%s is not of the documented pattern", secret)
	}
	if made, err := Made(secret); !made || err != nil {
		t.Errorf("%v, %v", made, err)
	}
	if got := Shown(secret); got != "anb_aaaqea" {
		t.Errorf("shown: %s", got)
	}
}

func TestCutAndMistypedSecretsAreTold(t *testing.T) {
	secret := NewSecret(counting())
	for i := range secret {
		other := byte('b')
		if secret[i] == other {
			other = 'c'
		}
		wrong := secret[:i] + string(other) + secret[i+1:]
		made, err := Made(wrong)
		if made || i >= len(SecretPrefix) && !errors.Is(err, ErrSecret) || i < len(SecretPrefix) && err != nil {
			t.Errorf("%s: %v, %v", wrong, made, err)
		}
	}
	for _, wrong := range []string{secret[:len(secret)-1], secret + "a", SecretPrefix, strings.ToUpper(secret[len(SecretPrefix):]), SecretPrefix + strings.Repeat("1", 59)} {
		if made, err := Made(wrong); made || strings.HasPrefix(wrong, SecretPrefix) != errors.Is(err, ErrSecret) {
			t.Errorf("%s: %v, %v", wrong, made, err)
		}
	}
	for _, foreign := range []string{"", "secret", "0123456789abcdef0123456789abcdef", "an"} {
		if made, err := Made(foreign); made || err != nil {
			t.Errorf("%q: %v, %v", foreign, made, err)
		}
		if !strings.HasPrefix(foreign, Shown(foreign)) {
			t.Errorf("shown of %q: %q", foreign, Shown(foreign))
		}
	}
}

func TestHash(t *testing.T) {
	// The first example of FIPS 180-2.
	if got := hex.EncodeToString(Hash("abc")); got != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("%s", got)
	}
}

func FuzzMade(f *testing.F) {
	f.Add(NewSecret(counting()))
	f.Add("anb_")
	f.Add("0123456789abcdef")
	f.Fuzz(func(t *testing.T, text string) {
		made, err := Made(text)
		if made && err != nil || len(Shown(text)) > 10 {
			t.Fatalf("%q: %v, %v", text, made, err)
		}
		if !made {
			return
		}
		random, derr := alphabet.DecodeString(text[len(SecretPrefix) : len(SecretPrefix)+secretLength])
		if derr != nil || len(random) != SecretBytes {
			t.Fatalf("%q is called whole and holds %d bytes: %v", text, len(random), derr)
		}
	})
}

func TestSealedAnswersOpenForTheirAskerOnly(t *testing.T) {
	sealed, err := Seal("asker", "key-1", [SealNonce]byte{1}, []byte("the secret"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, []byte("secret")) {
		t.Error("it is not closed")
	}
	plain, err := Open("asker", "key-1", sealed)
	if err != nil || string(plain) != "the secret" {
		t.Errorf("%q, %v", plain, err)
	}
	altered := bytes.Clone(sealed)
	altered[len(altered)-1] ^= 1
	for name, try := range map[string]func() ([]byte, error){
		"another bearer": func() ([]byte, error) { return Open("other", "key-1", sealed) },
		"another key":    func() ([]byte, error) { return Open("asker", "key-2", sealed) },
		"altered":        func() ([]byte, error) { return Open("asker", "key-1", altered) },
		"cut":            func() ([]byte, error) { return Open("asker", "key-1", sealed[:SealNonce-1]) },
		"nothing":        func() ([]byte, error) { return Open("asker", "key-1", nil) },
	} {
		if plain, err := try(); !errors.Is(err, ErrSealed) || plain != nil {
			t.Errorf("%s: %q, %v", name, plain, err)
		}
	}
}
