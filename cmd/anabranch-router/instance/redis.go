package instance

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"anabranch/ratelimit/redisbucket"
)

// Redis says where the quotas are kept that no region's quota store keeps.
type Redis struct {
	// Addresses are host:port,…: of one server (or the path of its socket), of Sentinels, or of some of
	// a cluster's servers. Empty: this process alone keeps them, which is right for a single router only.
	Addresses string
	// Master is the name by which the Sentinels know the primary. Empty: there are none.
	Master string
	// Cluster: it is a Redis Cluster.
	Cluster bool
	// Username of its access lists, and the file that holds the password. Empty: none.
	Username, PasswordFile string
	// TLS encrypts connections; CAFile are the authorities to believe, empty: the system's.
	TLS    bool
	CAFile string
}

// validate names each wrong option by its flag and says what would be right.
func (r *Redis) validate() []error {
	var problems []error
	say := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if r.Addresses == "" {
		for _, f := range []struct {
			flag  string
			given bool
		}{
			{"--redis-sentinel-master", r.Master != ""},
			{"--redis-cluster", r.Cluster},
			{"--redis-username", r.Username != ""},
			{"--redis-password-file", r.PasswordFile != ""},
			{"--redis-tls", r.TLS},
			{"--redis-ca-file", r.CAFile != ""},
		} {
			if f.given {
				say("%s needs --redis: give its address", f.flag)
			}
		}
		return problems
	}
	list := strings.Split(r.Addresses, ",")
	for _, address := range list {
		if strings.HasPrefix(address, "/") && len(list) == 1 {
			continue
		}
		if _, _, err := net.SplitHostPort(address); err != nil {
			say("--redis: %q is not host:port: %w", address, err)
		}
	}
	switch {
	case r.Master != "" && r.Cluster:
		problems = append(problems, errors.New("--redis-sentinel-master and --redis-cluster exclude each other: give one of them"))
	case len(list) > 1 && r.Master == "" && !r.Cluster:
		say("--redis has %d addresses: say --redis-cluster, or name the primary that Sentinels know with --redis-sentinel-master", len(list))
	}
	if r.CAFile != "" {
		if !r.TLS {
			problems = append(problems, errors.New("--redis-ca-file needs --redis-tls: give it too"))
		}
		if _, err := os.Stat(r.CAFile); err != nil {
			say("--redis-ca-file: %w", err)
		}
	}
	return problems
}

// lender reads the files that the options name.
func (r *Redis) lender() (redisbucket.LenderOptions, error) {
	o := redisbucket.LenderOptions{
		Addrs: strings.Split(r.Addresses, ","), Master: r.Master, Cluster: r.Cluster, Username: r.Username,
	}
	var err error
	if r.PasswordFile != "" {
		if _, err = password(r.PasswordFile); err != nil {
			return o, fmt.Errorf("--redis-password-file: %w", err)
		}
		o.PasswordFrom = func() (string, error) { return password(r.PasswordFile) }
	}
	if r.TLS {
		if o.TLS, err = towards(r.CAFile, "", ""); err != nil {
			return o, fmt.Errorf("--redis-ca-file: %w", err)
		}
	}
	return o, nil
}
