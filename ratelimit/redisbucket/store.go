// Package redisbucket is the quota authority of a whole fleet: the buckets of ratelimit kept in
// Redis, one hash for each tenant, read and written by one script call that charges all of a
// request's limits or none. The clock is Redis's own, so that routers need not agree on the time.
//
// A Store decides each request; a Lender leases parts of an organisation's limits to routers,
// which decide by themselves.
package redisbucket

import (
	"context"
	"crypto/tls"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"anabranch/ratelimit"
)

// Prefix starts the key of each tenant's hash; the tenant's name follows.
const Prefix = "rl:"

// Defaults of Options.
const (
	// DefaultTimeout bounds one read or write where the caller's context doesn't; twice the 50 ms
	// that a request may wait.
	DefaultTimeout = 100 * time.Millisecond
	// DefaultPoolSize is the most connections: at a millisecond a call, 32,000 calls a second.
	DefaultPoolSize = 32
)

// Options of New.
type Options struct {
	// Addr is host:port, or the path of a Unix socket. Required.
	Addr string
	// Username and Password as Redis's access lists know them. Empty: none.
	Username string
	Password string
	// DB is the database number.
	DB int
	// TLS towards Redis. Nil: plain.
	TLS *tls.Config
	// Timeout bounds each connect, read and write. 0: DefaultTimeout.
	Timeout time.Duration
	// PoolSize is the most connections. 0: DefaultPoolSize.
	PoolSize int
}

// Validate names the option that is wrong and the fix, or answers nil.
func (o Options) Validate() error {
	switch {
	case o.Addr == "":
		return errors.New("redis address is empty: give host:port or the path of a socket")
	case o.Timeout < 0:
		return fmt.Errorf("redis time-out %v is below 0: leave it 0 for %v", o.Timeout, DefaultTimeout)
	case o.PoolSize < 0:
		return fmt.Errorf("redis pool size %d is below 0: leave it 0 for %d", o.PoolSize, DefaultPoolSize)
	}
	return nil
}

// Store is a ratelimit.Authority on one Redis server.
type Store struct {
	client *redis.Client
	script *redis.Script
	clock  func() int64 // microseconds; nil: Redis's own
}

//go:embed bucket.lua
var source string

// New makes a Store and connects to nothing yet, so that a router starts without Redis. Each
// connection is checked when it is made, see Check.
func New(o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	timeout, pool := o.Timeout, o.PoolSize
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	if pool == 0 {
		pool = DefaultPoolSize
	}
	network := "tcp"
	if strings.HasPrefix(o.Addr, "/") {
		network = "unix"
	}
	// The library would print each failed connection; the errors come back to the caller anyway.
	logging.Disable()
	client := redis.NewClient(&redis.Options{
		Network:  network,
		Addr:     o.Addr,
		Username: o.Username,
		Password: o.Password,
		DB:       o.DB,
		Dialer:   dialer(timeout, o.TLS),
		// A context's deadline must reach the socket, or a caller with 50 ms to spend waits out
		// the time-outs of a server that is frozen.
		ContextTimeoutEnabled: true,
		DialTimeout:           timeout,
		ReadTimeout:           timeout,
		WriteTimeout:          timeout,
		PoolTimeout:           timeout,
		// A library that repeats a script charges it again.
		MaxRetries:    -1,
		DialerRetries: 1,
		PoolSize:      pool,
		// The server's settings are looked at anew with each connection.
		ConnMaxLifetime: 5 * time.Minute,
		OnConnect:       checked,
		DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled,
		},
	})
	return &Store{client: client, script: redis.NewScript(source)}, nil
}

// Close closes the connections; calls after it fail.
func (s *Store) Close() error { return s.client.Close() }

// Take implements ratelimit.Authority.
func (s *Store) Take(ctx context.Context, tenant string, path []ratelimit.Charge) (ratelimit.Decision, error) {
	if err := ratelimit.CheckTake(tenant, path); err != nil {
		return ratelimit.Decision{}, err
	}
	if len(path) == 0 {
		return ratelimit.Decide(nil, nil, true), nil
	}
	allowed, buckets, err := s.call(ctx, "take", tenant, path)
	if err != nil {
		return ratelimit.Decision{}, fmt.Errorf("take from quotas of %s: %w", tenant, err)
	}
	return ratelimit.Decide(path, buckets, allowed), nil
}

// Adjust implements ratelimit.Authority; with an empty path it is Check.
func (s *Store) Adjust(ctx context.Context, tenant string, path []ratelimit.Charge) error {
	if len(path) == 0 {
		return s.Check(ctx)
	}
	if err := ratelimit.CheckPath(tenant, path); err != nil {
		return err
	}
	if _, _, err := s.call(ctx, "adjust", tenant, path); err != nil {
		return fmt.Errorf("settle quotas of %s: %w", tenant, err)
	}
	return nil
}

// call runs the script on a path and reads the buckets it left.
func (s *Store) call(ctx context.Context, mode, tenant string, path []ratelimit.Charge) (bool, []ratelimit.Bucket, error) {
	args := make([]any, 3, 3+6*len(path))
	args[0], args[1] = mode, ""
	if s.clock != nil {
		args[1] = s.clock()
	}
	var keep int64
	for i := range path {
		l := path[i].Limit
		keep = max(keep, l.FillMs())
		args = append(args, l.ID, l.Amount, l.Period(), l.Unit(), l.Burst, path[i].Bounded())
	}
	args[2] = keep + 1
	reply, err := s.script.Run(ctx, s.client, []string{Prefix + tenant}, args...).Int64Slice()
	if err != nil {
		return false, nil, away(err)
	}
	if len(reply) != 1+3*len(path) {
		return false, nil, fmt.Errorf("script answered %d numbers, want %d", len(reply), 1+3*len(path))
	}
	buckets := make([]ratelimit.Bucket, len(path))
	for i := range buckets {
		at := 1 + 3*i
		buckets[i] = ratelimit.Bucket{Level: reply[at], StampUs: reply[at+1], Part: reply[at+2]}
	}
	return reply[0] == 1, buckets, nil
}

// away marks errors of calls that never reached Redis: those met while connecting.
func away(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" || errors.Is(err, redis.ErrClosed) || errors.Is(err, redis.ErrPoolTimeout) {
		return fmt.Errorf("%w: %w", ratelimit.ErrAway, err)
	}
	return err
}

func dialer(timeout time.Duration, secure *tls.Config) func(context.Context, string, string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: timeout, KeepAlive: 15 * time.Second}
	if secure == nil {
		return plain.DialContext
	}
	return (&tls.Dialer{NetDialer: plain, Config: secure}).DialContext
}

var _ ratelimit.Authority = (*Store)(nil)
