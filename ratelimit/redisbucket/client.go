package redisbucket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// LenderOptions of NewLender.
type LenderOptions struct {
	// Addrs are host:port. One is a single server (or the path of a Unix socket), unless Cluster
	// is set. With Master they are the Sentinels, with Cluster some of the cluster's servers.
	Addrs []string
	// Master is the name by which Sentinels, which are asked without a password, know the primary. Empty: no
	// Sentinel.
	Master string
	// Cluster tells that the servers are a Redis Cluster.
	Cluster bool
	// Username and Password as Redis's access lists know them. Empty: none. The user needs the
	// commands of [Commands] on the keys rl:*.
	Username, Password string
	// PasswordFrom is asked for the password of each new connection, which live for five minutes at most. Nil:
	// it is Password.
	PasswordFrom func() (string, error)
	// TLS towards Redis and the Sentinels. Nil: plain.
	TLS *tls.Config
	// Budget bounds each call, with its repetition. 0: DefaultBudget.
	Budget time.Duration
	// PoolSize is the most connections to each server. 0: DefaultPoolSize.
	PoolSize int
	// Logger is told when the store goes away and when it is back. Nil: nobody is.
	Logger *slog.Logger
	// Stepped is told by Run that a server's clock was set (or that this machine slept), by how much at the
	// least, below 0 backward; of a cluster by several goroutines at once. Buckets fill by that clock: a step
	// forward lets through what would have flowed in, up to a burst. Nil: nobody looks.
	Stepped func(by time.Duration)
}

const (
	// DefaultBudget is the longest that a call takes, which a request may be waiting for.
	DefaultBudget = 50 * time.Millisecond
	// DefaultPoolSize is the most connections: at a millisecond a call, 32,000 calls a second.
	DefaultPoolSize = 32
	// reload is how often a client of a cluster looks at who serves what. The library's own minute is
	// what callers would fail for after a failover that they don't notice themselves.
	reload = time.Second
)

// Commands are what a Redis user needs to be allowed for leases, in the words of its access lists; cluster
// and asking only in a cluster.
const Commands = "+evalsha +eval +info +ping +hello +time +mget +set +del +hmget +hset +pexpire +cluster|slots +cluster|shards +asking +command"

// Validate names the option that is wrong and the fix, or answers nil.
func (o LenderOptions) Validate() error {
	switch {
	case len(o.Addrs) == 0 || o.Addrs[0] == "":
		return errors.New("redis addresses are empty: give host:port, or the path of a socket")
	case o.Master != "" && o.Cluster:
		return errors.New("redis is said to be behind Sentinels and a cluster: give the name of a master, or cluster, not both")
	case len(o.Addrs) > 1 && o.Master == "" && !o.Cluster:
		return fmt.Errorf("redis has %d addresses: say that it is a cluster, or name the master that Sentinels know", len(o.Addrs))
	case o.Budget < 0:
		return fmt.Errorf("redis budget %v is below 0: leave it 0 for %v", o.Budget, DefaultBudget)
	case o.PoolSize < 0:
		return fmt.Errorf("redis pool size %d is below 0: leave it 0 for %d", o.PoolSize, DefaultPoolSize)
	}
	return nil
}

// connect makes the client and connects to nothing yet. What its settings have in common: a
// context's deadline reaches the socket, or callers would wait out the time-outs of a server that
// is frozen; and the library repeats nothing, since a repetition must be told apart from a new call
// by what it carries.
func (o LenderOptions) connect() redis.UniversalClient {
	// The library would print each failed connection; the errors come back to the caller anyway.
	logging.Disable()
	// The time-outs of the sockets are a second line: twice the budget.
	timeout := 2 * o.Budget
	all := redis.UniversalOptions{
		Addrs:                    o.Addrs,
		MasterName:               o.Master,
		Username:                 o.Username,
		Password:                 o.Password,
		TLSConfig:                o.TLS,
		ContextTimeoutEnabled:    true,
		MaxRetries:               -1,
		MaxRedirects:             3,
		DialTimeout:              timeout,
		DialerRetries:            1,
		ReadTimeout:              timeout,
		WriteTimeout:             timeout,
		PoolTimeout:              timeout,
		PoolSize:                 o.PoolSize,
		ConnMaxLifetime:          5 * time.Minute,
		OnConnect:                checked,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if o.PasswordFrom != nil {
		all.CredentialsProviderContext = func(context.Context) (username, password string, err error) {
			password, err = o.PasswordFrom()
			return o.Username, password, err
		}
	}
	switch {
	case o.Cluster:
		cluster := all.Cluster()
		cluster.ClusterStateReloadInterval = reload
		return redis.NewClusterClient(cluster)
	case o.Master != "":
		return redis.NewFailoverClient(all.Failover())
	}
	return redis.NewClient(all.Simple())
}
