package table

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

func (t *Table) addTenants(pb *routerpb.Table) error {
	for i, p := range pb.Tenants {
		at := fmt.Sprintf("tenants[%d]", i)
		id := fleet.TenantID(p.GetId())
		if id == "" {
			return invalid(CodeValue, at+".id", "is empty")
		}
		if t.tenants[id] != nil {
			return invalid(CodeDuplicate, at+".id", "%q is there twice", id)
		}
		if slices.Contains(p.Residency, "") {
			return invalid(CodeValue, at+".residency", "holds an empty name")
		}
		x := &Tenant{ID: id, Tier: p.Tier, Priority: p.Priority, Residency: p.Residency, Organisation: p.Organisation}
		if x.Organisation == "" {
			x.Organisation = p.Id
		}
		for j, k := range p.KeySha256 {
			if err := t.addKey(fmt.Sprintf("%s.key_sha256[%d]", at, j), x, k, 0); err != nil {
				return err
			}
		}
		for j, k := range p.ExpiringKeys {
			at := fmt.Sprintf("%s.expiring_keys[%d]", at, j)
			if k.GetExpiresUnixMs() <= 0 {
				return invalid(CodeValue, at+".expires_unix_ms", "is %d, want more than 0", k.GetExpiresUnixMs())
			}
			if err := t.addKey(at+".sha256", x, k.GetSha256(), k.GetExpiresUnixMs()); err != nil {
				return err
			}
		}
		if err := t.addTokens(at, x, p.Jwt); err != nil {
			return err
		}
		t.tenants[id] = x
	}
	return nil
}

func (t *Table) addKey(at string, of *Tenant, sum []byte, expires int64) error {
	if len(sum) != sha256.Size {
		return invalid(CodeValue, at, "is %d bytes, want %d", len(sum), sha256.Size)
	}
	if other, dup := t.keys[[sha256.Size]byte(sum)]; dup {
		return invalid(CodeDuplicate, at, "is another key of %q too", other.tenant.ID)
	}
	t.keys[[sha256.Size]byte(sum)] = key{tenant: of, expires: expires}
	return nil
}

// checkURL wants an absolute URL of one of the schemes with a host and nothing that doesn't
// belong (user, query, fragment), and returns it with its scheme in lower case and without a trailing
// slash.
func checkURL(at, s string, schemes ...string) (string, error) {
	u, err := url.Parse(s)
	if err != nil {
		return "", invalid(CodeValue, at, "does not parse as a URL") // the text could hold a password
	}
	if !slices.Contains(schemes, u.Scheme) || u.Hostname() == "" {
		return "", invalid(CodeValue, at, "is not an absolute %s URL", strings.Join(schemes, " or "))
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", invalid(CodeValue, at, "holds a user, query or fragment")
	}
	return u.Scheme + strings.TrimRight(s[len(u.Scheme):], "/"), nil
}
