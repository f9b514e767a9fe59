package dev

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"time"

	"anabranch/cmd/anabranch/dev/seed"
	"anabranch/cmd/anabranch/pki"
	"anabranch/controlplane/access"
)

// NewKey makes an API key of 160 random bits; its prefix says what it is when it turns up somewhere.
func NewKey() string {
	b := make([]byte, 20)
	_, _ = rand.Read(b) // never fails, see its documentation
	return "ab-" + hex.EncodeToString(b)
}

// HashKey is what a Tenant keeps of an API key: its SHA-256 in lower-case hex.
func HashKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// fillSecrets makes the tokens and keys that are missing.
func (r *Record) fillSecrets() {
	for _, t := range []*string{&r.Tokens.Admin, &r.Tokens.Operator, &r.Tokens.Approver, &r.Tokens.Viewer} {
		if *t == "" {
			var random [access.SecretBytes]byte
			_, _ = rand.Read(random[:]) // as above
			*t = access.NewSecret(random)
		}
	}
	if r.Tenants == nil {
		r.Tenants = map[string]TenantRecord{}
	}
	for tenant, tier := range seed.Tiers {
		t := r.Tenants[tenant]
		if t.Key == "" {
			t.Key = NewKey()
		}
		t.Tier = tier
		r.Tenants[tenant] = t
	}
}

func (r *Record) keyHashes() map[string]string {
	hashes := map[string]string{}
	for tenant, t := range r.Tenants {
		hashes[tenant] = HashKey(t.Key)
	}
	return hashes
}

// authority loads the folder's authority, or makes one where there is none or it ends soon.
func (f Folder) authority(now time.Time) (*pki.Authority, error) {
	cert, certErr := os.ReadFile(f.pki("ca.crt"))
	key, keyErr := os.ReadFile(f.pki("ca.key"))
	if certErr == nil && keyErr == nil {
		a, err := pki.LoadAuthority(pki.Pair{Cert: cert, Key: key})
		if err != nil {
			return nil, err
		}
		if now.Add(certificateMargin).Before(a.Expires()) {
			return a, nil
		}
	} else if err := errors.Join(certErr, keyErr); !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	a, err := pki.NewAuthority(now)
	if err != nil {
		return nil, err
	}
	return a, f.writePair("ca", a.Pair())
}

func (f Folder) writePair(name string, p pki.Pair) error {
	return errors.Join(writeFile(f.pki(name+".crt"), p.Cert), writeFile(f.pki(name+".key"), p.Key))
}

// writeSecrets writes what the children read from files: tokens, and certificates made anew.
func (f Folder) writeSecrets(r *Record, now time.Time) error {
	if err := writeJSON(f.tokens(), r.Tokens); err != nil {
		return err
	}
	a, err := f.authority(now)
	if err != nil {
		return err
	}
	for _, n := range r.ControlPlane {
		p, err := a.Node(n.ID, now)
		if err != nil {
			return err
		}
		if err := f.writePair(n.ID, p); err != nil {
			return err
		}
	}
	for _, router := range r.Routers {
		p, err := a.Router(router.Region, routerID(router.Region), now)
		if err != nil {
			return err
		}
		if err := f.writePair(routerID(router.Region), p); err != nil {
			return err
		}
	}
	return nil
}

// routerID is the id of the one router of a region, and the first part of its request ids.
func routerID(region string) string { return region + "-r1" }
