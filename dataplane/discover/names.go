package discover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

const (
	// emptyLooks is how many looks in a row must find nothing before that is believed.
	emptyLooks = 3
	// lookTimeout bounds one look, however many names it asks for.
	lookTimeout = 5 * time.Second
	// retryPause is the pause before the first look that succeeds.
	retryPause = time.Second
	// targetsAtOnce bounds the questions that one look has open.
	targetsAtOnce = 8
)

var errNoRecords = errors.New("the name exists and has no records")

// names finds endpoints in DNS, by asking again and again. It doesn't go by a record's time to live:
// headless Services have 5 s to 30 s, and what has gone stays away sooner if it is asked for.
type names struct {
	resolver Resolver
	look     func(context.Context, Resolver, table.Discovery) ([]table.Endpoint, error)
	period   time.Duration // a fifth more or less by random
	random   func() float64
}

// Watch implements [Finder].
func (n *names) Watch(ctx context.Context, spec table.Discovery, found func([]table.Endpoint, error)) error {
	empty, known := 0, false
	for {
		list, err := n.once(ctx, spec)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && len(list) == 0 {
			empty++
		} else {
			empty = 0
		}
		if empty > 0 && empty < emptyLooks {
			err = fmt.Errorf("look up %s: %w (look %d of %d)", spec.Name, errNoRecords, empty, emptyLooks)
		}
		found(list, err)
		known = known || err == nil
		pause := time.Duration(float64(n.period) * (0.8 + 0.4*n.random()))
		if !known {
			pause = min(pause, retryPause)
		}
		if !rest(ctx, pause) {
			return nil
		}
	}
}

func (n *names) once(ctx context.Context, spec table.Discovery) ([]table.Endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	list, err := n.look(ctx, n.resolver, spec)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", spec.Name, err)
	}
	return list, nil
}

// addresses are the endpoints behind the A and AAAA records of a host.
func addresses(ctx context.Context, r Resolver, spec table.Discovery) ([]table.Endpoint, error) {
	found, err := r.LookupNetIP(ctx, "ip", spec.Name)
	if err != nil {
		return nil, err
	}
	at := make([]netip.AddrPort, 0, len(found))
	for _, a := range found {
		at = append(at, netip.AddrPortFrom(a, uint16(spec.Port))) //nolint:gosec // ports of the table fit
	}
	return places(at, spec), nil
}

// services are the endpoints behind the SRV records of a name: of those with the lowest priority
// value, as RFC 2782 wants it. Weights are left to our own picking.
func services(ctx context.Context, r Resolver, spec table.Discovery) ([]table.Endpoint, error) {
	_, records, err := r.LookupSRV(ctx, "", "", spec.Name)
	if err != nil {
		return nil, err
	}
	// The root as target says that the service is decidedly not there.
	records = slices.DeleteFunc(slices.Clone(records), func(s *net.SRV) bool { return s.Target == "." })
	if len(records) == 0 {
		return nil, nil
	}
	first := slices.MinFunc(records, func(a, b *net.SRV) int { return int(a.Priority) - int(b.Priority) }).Priority
	ports := make(map[string][]uint16)
	for _, s := range records {
		if s.Priority != first {
			continue
		}
		port := s.Port
		if port == 0 {
			port = uint16(spec.Port) //nolint:gosec // ports of the table fit
		}
		ports[s.Target] = append(ports[s.Target], port)
	}
	at, err := resolve(ctx, r, ports)
	if err != nil {
		return nil, err
	}
	return places(at, spec), nil
}

// resolve looks up the targets of SRV records. One that isn't there any more is left out, as when a
// pod left between the two questions; any other failure makes the look fail as a whole.
func resolve(ctx context.Context, r Resolver, ports map[string][]uint16) ([]netip.AddrPort, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(targetsAtOnce)
	answers := make(chan []netip.AddrPort, len(ports))
	for target, ports := range ports {
		group.Go(func() error {
			list, err := r.LookupNetIP(ctx, "ip", target)
			if err != nil && !notFound(err) {
				return fmt.Errorf("target %s: %w", target, err)
			}
			var at []netip.AddrPort
			for _, a := range list {
				for _, port := range ports {
					at = append(at, netip.AddrPortFrom(a, port))
				}
			}
			answers <- at
			return nil
		})
	}
	err := group.Wait()
	close(answers)
	if err != nil {
		return nil, err
	}
	var out []netip.AddrPort
	for at := range answers {
		out = append(out, at...)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("none of the %d targets has an address", len(ports))
	}
	return out, nil
}

// places makes endpoints of addresses, each once, named ip:port.
func places(at []netip.AddrPort, spec table.Discovery) []table.Endpoint {
	seen := make(map[netip.AddrPort]bool, len(at))
	out := make([]table.Endpoint, 0, len(at))
	for _, a := range at {
		a = netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
		if seen[a] {
			continue
		}
		seen[a] = true
		host := net.JoinHostPort(a.Addr().String(), strconv.Itoa(int(a.Port())))
		out = append(out, table.Endpoint{ID: fleet.EndpointID(host), URL: spec.Scheme + "://" + host})
	}
	return out
}
