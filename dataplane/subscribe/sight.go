package subscribe

import "time"

// Sight is how far what the control plane said last can be trusted, by its age. The weights of the
// table stay in force whatever their age.
type Sight int

const (
	// Current says that it has been heard within [StaleAfter].
	Current Sight = iota
	// Stale says that what it tells of places that this router does not see itself is no longer
	// believed.
	Stale
	// Alone says that only this router's own sight of health counts, not the table's.
	Alone
)

const (
	// StaleAfter is the age of the last contact from which on Sight is [Stale].
	StaleAfter = 30 * time.Second
	// AloneAfter is that from which on it is [Alone].
	AloneAfter = 10 * time.Minute
)

// String is one word for status pages.
func (s Sight) String() string {
	switch s {
	case Current:
		return "current"
	case Stale:
		return "stale"
	}
	return "alone"
}

// MarshalText writes String.
func (s Sight) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// SightAt is the sight at now, when the control plane was last heard at contact; the zero time:
// never.
func SightAt(contact, now time.Time) Sight {
	if contact.IsZero() {
		return Alone
	}
	switch age := now.Sub(contact); {
	case age <= StaleAfter:
		return Current
	case age <= AloneAfter:
		return Stale
	}
	return Alone
}

// Sight is the sight at now. A router that has started from its disk knows what it knew when the
// table was saved there. It takes no lock.
func (c *Client) Sight(now time.Time) Sight { return SightAt(c.contacted(), now) }

// contacted is when the control plane was last heard. Zero: never.
func (c *Client) contacted() time.Time {
	ns := c.contact.Load()
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

func (c *Client) heard(now time.Time) {
	c.contact.Store(now.UnixNano())
	c.update(func(s *Status) { s.LastContact = now })
}
