package plan

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

const (
	// youth is for how long an organisation's quotas count as new, so that a quota store that never heard of
	// it has lost nothing. Routers ask within seconds of the table if there are requests; where there are none
	// for so long, the first may find buckets that are not full.
	youth = 10 * time.Minute
	// settling is for how long a home is new. What the former one had left is not known to it: it starts empty
	// and fills at the rate.
	settling = 10 * time.Minute
	// coldPercent of a rate's burst is there when the store has lost its memory.
	coldPercent = 20
)

// Numbers of organisations' homes and quotas are the control plane's epoch and the revision of a table: they
// rise whatever is restored, and stay below what a quota store's scripts hold exactly.
const (
	epochBits    = 13
	revisionBits = 40
)

// after is a number above all that earlier tables have.
func after(epoch, revision uint64) int64 {
	return int64(min(epoch, 1<<epochBits-1)<<revisionBits | min(revision+1, 1<<revisionBits-1))
}

// organisations are those that have quotas, sorted by id. What has not changed since the table before keeps
// its numbers.
func organisations(t *routerpb.Table, homes map[string]string, in Input) []*routerpb.Organisation {
	epoch := cmp.Or(in.Epoch, in.Previous.GetRef().GetEpoch(), 1)
	n := numbers{
		next: after(epoch, in.Previous.GetRef().GetRevision()), least: after(epoch, 0) - 1, now: in.Now,
		before: map[string]*routerpb.Organisation{}, were: byOrganisation(in.Previous), stores: map[string]bool{},
	}
	for _, o := range in.Previous.GetOrganisations() {
		n.before[o.GetId()] = o
	}
	var regions []fleet.RegionID
	for _, r := range t.GetRegions() {
		regions = append(regions, fleet.RegionID(r.GetId()))
		n.stores[r.GetId()] = r.GetQuotaStore() != nil
	}
	var out []*routerpb.Organisation
	now := byOrganisation(t)
	for _, id := range slices.Sorted(maps.Keys(now)) {
		o := n.organisation(id, homes[id], now[id])
		o.Shares = RegionShares(regions, in.Usage[id], n.before[id].GetShares())
		out = append(out, o)
	}
	return out
}

func byOrganisation(t *routerpb.Table) map[string][]*routerpb.Quota {
	out := map[string][]*routerpb.Quota{}
	for _, q := range t.GetQuotas() {
		out[q.GetOrganisation()] = append(out[q.GetOrganisation()], q)
	}
	return out
}

// numbers gives organisations their epochs and versions.
type numbers struct {
	next   int64 // above all that were given
	least  int64 // of the control plane's epoch: what is below is of a history before
	now    time.Time
	before map[string]*routerpb.Organisation
	were   map[string][]*routerpb.Quota // by organisation
	stores map[string]bool              // regions that have a quota store
}

func (n *numbers) organisation(id, home string, quotas []*routerpb.Quota) *routerpb.Organisation {
	if !n.stores[home] {
		home = "" // the region has lost its store before that was looked for
	}
	o := &routerpb.Organisation{Id: id, Home: home, Epoch: n.next, Version: n.next, SinceUnixMs: n.now.UnixMilli()}
	if b := n.before[id]; b != nil {
		o.SinceUnixMs, o.FormerHome, o.Moved, o.MovedUnixMs = b.GetSinceUnixMs(), b.GetFormerHome(), b.GetMoved(), b.GetMovedUnixMs()
		switch {
		case b.GetHome() != home:
			o.FormerHome, o.Moved, o.MovedUnixMs = b.GetHome(), true, n.now.UnixMilli()
		case b.GetEpoch() >= n.least:
			o.Epoch = b.GetEpoch()
		}
		if b.GetVersion() >= n.least && slices.EqualFunc(quotas, n.were[id], sameLimit) {
			o.Version = b.GetVersion()
		}
	}
	if o.GetFormerHome() != "" && !n.stores[o.GetFormerHome()] {
		o.FormerHome, o.Moved = "", false // nobody can be told there
	}
	// A home that it moves to has lost nothing either, but the former one has lent since.
	o.Young = n.since(o.GetSinceUnixMs()) < youth && o.GetMovedUnixMs() == 0
	o.ColdPercent = coldPercent
	if o.GetMovedUnixMs() > 0 && n.since(o.GetMovedUnixMs()) < settling {
		o.ColdPercent = 0
	}
	return o
}

func (n *numbers) since(unixMs int64) time.Duration { return n.now.Sub(time.UnixMilli(unixMs)) }

// sameLimit compares all that quota stores and routers count by.
func sameLimit(a, b *routerpb.Quota) bool {
	if a.GetShare() != b.GetShare() { // which only other routers know
		a, b = proto.CloneOf(a), proto.CloneOf(b)
		a.Share = b.GetShare()
	}
	return proto.Equal(a, b)
}
