package instance

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/cmd/lifecycle"
	"anabranch/dataplane/rls"
	"anabranch/dataplane/table"
)

// door is where Envoy asks for quotas.
type door struct {
	server   *rls.Server
	listener net.Listener
}

func (d *door) run(ctx context.Context) error { return d.server.Run(ctx, d.listener) }

// openDoor binds the port that Envoy asks at, if there is to be one.
func (n *Instance) openDoor(tables *table.Holder, registry prometheus.Registerer) error {
	if n.o.RLSListen == "" {
		return nil
	}
	var mutual *tls.Config
	if !n.o.RLS.Empty() {
		shown, err := n.certs.Open("rls", n.o.RLS)
		if err != nil {
			return err
		}
		mutual = shown.Mutual()
	}
	server, err := rls.New(rls.Options{
		Tables: tables, Quotas: n.router.Quotas(), Domains: n.o.RLSDomains, TLS: mutual, Registerer: registry, Logger: n.o.Logger,
	})
	if err != nil {
		return err
	}
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", n.o.RLSListen)
	if err != nil {
		return fmt.Errorf("--rls-listen: %w", err)
	}
	n.door = &door{server, listener}
	return nil
}

// doorParts is the door as a part of the process. It is open for as long as clients' requests are
// waited for, so that other gateways can tell the ends of theirs.
func (n *Instance) doorParts() []lifecycle.Part {
	if n.door == nil {
		return nil
	}
	return []lifecycle.Part{{Name: "rate limits", Run: n.door.run}}
}

// validateDoor says what is wrong with the options of the door.
func (o Options) validateDoor() error {
	if o.RLSListen == "" {
		if !o.RLS.Empty() {
			return errors.New("--rls-cert, --rls-key and --rls-ca are of no use without --rls-listen")
		}
		return nil
	}
	if _, _, err := net.SplitHostPort(o.RLSListen); err != nil {
		return fmt.Errorf("--rls-listen: %q is not host:port: %w", o.RLSListen, err)
	}
	for _, file := range []struct{ flag, value string }{{"--rls-cert", o.RLS.Cert}, {"--rls-key", o.RLS.Key}, {"--rls-ca", o.RLS.CA}} {
		if file.value == "" && !o.RLS.Empty() {
			return fmt.Errorf("%s is missing: --rls-cert, --rls-key and --rls-ca go together", file.flag)
		}
	}
	if slices.Contains(o.RLSDomains, "") {
		return fmt.Errorf("--rls-domain has an empty name in it: leave it out for %s", rls.DefaultDomain)
	}
	if o.RLS.Empty() && !loopback(o.RLSListen) {
		return fmt.Errorf("--rls-listen %s would take calls from anybody: give --rls-cert, --rls-key and --rls-ca, or listen on 127.0.0.1", o.RLSListen)
	}
	return nil
}
