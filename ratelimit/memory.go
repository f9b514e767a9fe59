package ratelimit

import (
	"context"
	"sync"
	"time"
)

// Memory is an Authority within one process: for one router without a quota store, for tests and
// for simulation. It keeps a bucket for every (tenant, limit) that it was ever asked about, which
// the callers' tables bound.
type Memory struct {
	now func() time.Time

	mu      sync.Mutex // guards buckets
	buckets map[memoryKey]Bucket
}

type memoryKey struct{ tenant, limit string }

// NewMemory makes an authority whose buckets are all full. A nil now is time.Now.
func NewMemory(now func() time.Time) *Memory {
	if now == nil {
		now = time.Now
	}
	return &Memory{now: now, buckets: make(map[memoryKey]Bucket)}
}

// Take implements Authority.
func (m *Memory) Take(ctx context.Context, tenant string, path []Charge) (Decision, error) {
	if err := CheckTake(tenant, path); err != nil {
		return Decision{}, err
	}
	if err := ctx.Err(); err != nil {
		return Decision{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now().UnixMicro()
	var held [MaxPath]Bucket
	buckets := m.load(held[:0], tenant, path, now)
	allowed := TakeAll(path, buckets, now)
	m.save(buckets, tenant, path)
	return Decide(path, buckets, allowed), nil
}

// Adjust implements Authority.
func (m *Memory) Adjust(ctx context.Context, tenant string, path []Charge) error {
	if len(path) == 0 {
		return ctx.Err()
	}
	if err := CheckPath(tenant, path); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now().UnixMicro()
	var held [MaxPath]Bucket
	buckets := m.load(held[:0], tenant, path, now)
	AdjustAll(path, buckets, now)
	m.save(buckets, tenant, path)
	return nil
}

// Bucket is the stored state of one limit of a tenant, and whether there is one.
func (m *Memory) Bucket(tenant, limit string) (Bucket, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.buckets[memoryKey{tenant, limit}]
	return b, ok
}

func (m *Memory) load(to []Bucket, tenant string, path []Charge, nowUs int64) []Bucket {
	for i := range path {
		b, ok := m.buckets[memoryKey{tenant, path[i].Limit.ID}]
		if !ok {
			b = Full(path[i].Limit, nowUs)
		}
		to = append(to, b)
	}
	return to
}

func (m *Memory) save(buckets []Bucket, tenant string, path []Charge) {
	for i := range path {
		m.buckets[memoryKey{tenant, path[i].Limit.ID}] = buckets[i]
	}
}

var _ Authority = (*Memory)(nil)
