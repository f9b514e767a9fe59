package discover

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

// MaxEndpoints is the most that one source may hold.
const MaxEndpoints = 10_000

// maxID and maxURL bound an endpoint's name and a URL, in bytes. The longest names are those of pods
// (253) with a port.
const maxID, maxURL = 260, 2048

// check puts a list in order: by name, so that it doesn't matter how the source sorted it, with the
// class that stands in for those without one. It refuses the whole list for one endpoint that can't
// be, since nobody knows what else is wrong with it.
func check(list []table.Endpoint, class string) ([]table.Endpoint, error) {
	if len(list) > MaxEndpoints {
		return nil, fmt.Errorf("%d endpoints, the limit is %d", len(list), MaxEndpoints)
	}
	out := slices.Clone(list)
	seen := make(map[fleet.EndpointID]bool, len(out))
	for i := range out {
		e := &out[i]
		if err := checkID(string(e.ID)); err != nil {
			return nil, fmt.Errorf("endpoint %d: id %w", i+1, err) // which may hold anything
		}
		if seen[e.ID] {
			return nil, fmt.Errorf("endpoint %s is there twice", e.ID)
		}
		seen[e.ID] = true
		e.Class = strings.ToLower(cmp.Or(e.Class, class))
		if e.Class != "" && fleet.CheckName(e.Class) != nil {
			return nil, fmt.Errorf("endpoint %s: class may hold only letters, digits, '.', '_' and '-'", e.ID)
		}
		var err error
		if e.URL, err = checkURL(e.URL, "http", "https"); err != nil {
			return nil, fmt.Errorf("endpoint %s: url %w", e.ID, err)
		}
		if e.KVEventsURL != "" {
			if e.KVEventsURL, err = checkURL(e.KVEventsURL, "tcp"); err != nil {
				return nil, fmt.Errorf("endpoint %s: kvEventsURL %w", e.ID, err)
			}
		}
	}
	slices.SortFunc(out, func(a, b table.Endpoint) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// checkID keeps names fit for headers, logs and labels: visible ASCII without quotes, backslashes
// and commas.
func checkID(id string) error {
	if id == "" {
		return errors.New("is empty")
	}
	if len(id) > maxID {
		return fmt.Errorf("is %d bytes long, the limit is %d", len(id), maxID)
	}
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' || strings.IndexByte("\"'\\,", c) >= 0 {
			return errors.New("holds a character other than ASCII letters, digits and signs")
		}
	}
	return nil
}

// checkURL wants an absolute URL of a place. Its errors don't repeat the text: it could hold a
// password.
func checkURL(s string, schemes ...string) (string, error) {
	if len(s) > maxURL {
		return "", fmt.Errorf("is %d bytes long, the limit is %d", len(s), maxURL)
	}
	u, err := url.Parse(s)
	if err != nil {
		return "", errors.New("does not parse")
	}
	if !slices.Contains(schemes, u.Scheme) || u.Hostname() == "" || u.Opaque != "" {
		return "", fmt.Errorf("is not an absolute %s URL", strings.Join(schemes, " or "))
	}
	if u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return "", errors.New("holds a user, query or fragment")
	}
	return u.Scheme + strings.TrimRight(s[len(u.Scheme):], "/"), nil
}
