package redisbucket

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"anabranch/ratelimit"
)

// wanted is the only eviction policy under which no bucket is ever forgotten: a bucket that Redis
// drops to save memory comes back full.
const wanted = "noeviction"

// Check asks whether Redis (of a cluster, every primary) is there and will not forget levels at will. It
// answers an error that wraps ratelimit.ErrUnfit when Redis may evict keys, and says how to put that
// right; any other error means that Redis could not be asked, which is no reason not to start.
func (l *Lender) Check(ctx context.Context) error {
	var err error
	if c, ok := l.client.(*redis.ClusterClient); ok {
		err = c.ForEachMaster(ctx, func(ctx context.Context, m *redis.Client) error { return fit(ctx, m) })
	} else {
		err = fit(ctx, l.client)
	}
	if err != nil {
		return away(err)
	}
	return nil
}

// away marks errors of calls that never reached Redis: those met while connecting.
func away(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" || errors.Is(err, redis.ErrClosed) || errors.Is(err, redis.ErrPoolTimeout) {
		return fmt.Errorf("%w: %w", ratelimit.ErrAway, err)
	}
	return err
}

// checked is what a new connection must pass.
func checked(ctx context.Context, cn *redis.Conn) error {
	if err := fit(ctx, cn); err != nil {
		// The library takes off the outermost wrapping.
		return fmt.Errorf("new connection: %w", err)
	}
	return nil
}

// infoer is the part of a connection that fit needs.
type infoer interface {
	Info(ctx context.Context, section ...string) *redis.StringCmd
}

// fit reads the policy from INFO, which hosted services allow where they refuse CONFIG GET.
func fit(ctx context.Context, in infoer) error {
	info, err := in.Info(ctx, "memory").Result()
	if err != nil {
		return fmt.Errorf("ask redis for its memory policy: %w", err)
	}
	policy, ok := field(info, "maxmemory_policy")
	if !ok || policy == wanted {
		return nil
	}
	return fmt.Errorf("%w: redis has maxmemory-policy %s and may drop buckets, which would let tenants exceed their quotas; "+
		"fix: redis-cli CONFIG SET maxmemory-policy %s, and the same line in redis.conf", ratelimit.ErrUnfit, policy, wanted)
}

// field finds "name:value" among the lines of an INFO answer.
func field(info, name string) (string, bool) {
	lines := bufio.NewScanner(strings.NewReader(info))
	for lines.Scan() {
		if value, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), name+":"); ok {
			return value, true
		}
	}
	return "", false
}
