package bearer

import (
	"crypto/sha256"
	"encoding/binary"
	"sync/atomic"
	"time"

	"anabranch/dataplane/table"
)

// slots is how many tokens are remembered. Two that fall on the same slot push each other out, which
// costs a check of a signature (some 40 µs) and nothing else.
const slots = 4096

// Checker answers for requests. It takes no lock: what it has found out lies in a table of fixed size,
// which is thrown away when the rules or the keys have changed.
type Checker struct {
	keys   *Keys
	memory atomic.Pointer[memory]
}

// memory is what was found out by one table and one state of the keys.
type memory struct {
	table   *table.Table
	version uint64
	found   [slots]atomic.Pointer[remembered]
}

type remembered struct {
	sum [sha256.Size]byte
	judged
}

// New makes a checker that looks into keys.
func New(keys *Keys) *Checker { return &Checker{keys: keys} }

// Tenant is the one whose token it is at a time. Its error is one of this package's; the token is then
// nobody's. What makes a token unknown may change with the next table or key set.
func (c *Checker) Tenant(t *table.Table, token string, now time.Time) (*table.Tenant, error) {
	sum := sha256.Sum256([]byte(token))
	m := c.recall(t)
	slot := &m.found[binary.BigEndian.Uint32(sum[:])%slots]
	if r := slot.Load(); r != nil && r.sum == sum {
		return r.at(now)
	}
	j, err := judge(t, c.keys.at, token)
	if err != nil {
		if err == ErrNoKey { //nolint:errorlint // judge wraps nothing
			c.keys.missed(j.rules)
		}
		return nil, err
	}
	slot.Store(&remembered{sum, j})
	return j.at(now)
}

// at is what a token that was found good is worth now.
func (j judged) at(now time.Time) (*table.Tenant, error) {
	switch s := now.Unix(); {
	case s >= j.until:
		return nil, ErrExpired
	case s < j.from:
		return nil, ErrEarly
	}
	return j.tenant, nil
}

// recall gives the memory for a table, empty if it is of another one or the keys have changed.
func (c *Checker) recall(t *table.Table) *memory {
	version := c.keys.version.Load()
	m := c.memory.Load()
	if m == nil || m.table != t || m.version != version {
		m = &memory{table: t, version: version}
		c.memory.Store(m)
	}
	return m
}
