// Package roster finds the members of a new cluster in DNS, for places that name nodes there before
// they run, as a StatefulSet's headless Service does.
package roster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/store"
)

const (
	// Pause lies between two looks. The answers of both must agree.
	Pause = time.Second
	// lookTimeout bounds one look.
	lookTimeout = 5 * time.Second
	// MaxCount is the largest cluster that is looked for.
	MaxCount = 9
)

// Resolver is the part of [net.Resolver] that is asked.
type Resolver interface {
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// Options says where to look for whom.
type Options struct {
	// Name has a SRV record for each member: its target's first label is the member's id, its target and
	// port are the address of its Raft port.
	Name string
	// Count is how many members there will be, 1 to [MaxCount]. Fewer or more are waited out: to start
	// with those that happen to be listed could make two clusters.
	Count int
	// Own is this node's id, which must be one of them.
	Own fleet.NodeID
	// Resolver; nil: the machine's.
	Resolver Resolver
	// Logger; nil: slog.Default().
	Logger *slog.Logger
}

// Validate names each wrong option by its flag.
func (o Options) Validate() error {
	switch {
	case o.Count < 1 || o.Count > MaxCount:
		return fmt.Errorf("--peers-count: %d: say how many members the new cluster has, 1 to %d", o.Count, MaxCount)
	case o.Own == "":
		return errors.New("--id is missing: with --peers-dns it is the first label of the name that DNS has for this node")
	}
	return nil
}

// Find asks until two looks in a row, [Pause] apart, name the same members and as many as expected.
// It returns an error if this node is none of them, and when ctx ends.
func Find(ctx context.Context, o Options) ([]store.Peer, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	log := cmp.Or(o.Logger, slog.Default())
	var last []store.Peer
	var said string
	pause := time.NewTicker(Pause)
	defer pause.Stop()
	for {
		list, err := look(ctx, o)
		if err == nil && last != nil && slices.Equal(list, last) {
			return list, o.includes(list)
		}
		last = list
		if err != nil && err.Error() != said {
			said = err.Error()
			log.Info("waiting for DNS to list the members", "name", o.Name, "members", o.Count, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("find members in DNS: %w", ctx.Err())
		case <-pause.C:
		}
	}
}

// look asks once. Its error says why the answer is not to be used.
func look(ctx context.Context, o Options) ([]store.Peer, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	_, records, err := o.Resolver.LookupSRV(ctx, "", "", o.Name)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", o.Name, err)
	}
	return members(records, o.Count)
}

// members makes a list of records, sorted by id, if they name count different nodes.
func members(records []*net.SRV, count int) ([]store.Peer, error) {
	var list []store.Peer
	for _, r := range records {
		target := strings.TrimSuffix(r.Target, ".")
		id, _, _ := strings.Cut(target, ".")
		if id == "" || r.Port == 0 {
			return nil, fmt.Errorf("record %q port %d names no member", r.Target, r.Port)
		}
		list = append(list, store.Peer{ID: fleet.NodeID(id), Address: net.JoinHostPort(target, strconv.Itoa(int(r.Port)))})
	}
	slices.SortFunc(list, func(a, b store.Peer) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Address, b.Address))
	})
	list = slices.Compact(list)
	for i := 1; i < len(list); i++ {
		if list[i].ID == list[i-1].ID {
			return nil, fmt.Errorf("%s is listed at %s and at %s", list[i].ID, list[i-1].Address, list[i].Address)
		}
	}
	if len(list) != count {
		return nil, fmt.Errorf("%d of %d members are listed", len(list), count)
	}
	return list, nil
}

func (o Options) includes(list []store.Peer) error {
	var ids []string
	for _, p := range list {
		if p.ID == o.Own {
			return nil
		}
		ids = append(ids, string(p.ID))
	}
	return fmt.Errorf("%s lists %s: none of them is this node, --id %s", o.Name, strings.Join(ids, ", "), o.Own)
}
