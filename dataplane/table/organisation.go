package table

import (
	"fmt"
	"math"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/ratelimit"
)

const (
	// maxCount is the largest epoch or version that a quota store's scripts hold exactly.
	maxCount = 1<<53 - 1
	// maxID bounds the names of organisations and quotas in bytes, as package ratelimit does.
	maxID = 512
	// defaultCold stands in for the cold start of organisations of an older control plane.
	defaultCold = 20
)

func (t *Table) addOrganisations(pb *routerpb.Table) error {
	for i, p := range pb.Organisations {
		at := fmt.Sprintf("organisations[%d]", i)
		o := &Organisation{
			ID: p.GetId(), Home: fleet.RegionID(p.GetHome()), FormerHome: fleet.RegionID(p.GetFormerHome()), Moved: p.GetMoved(),
			Epoch: p.GetEpoch(), Version: p.GetVersion(), Young: p.GetYoung(), Cold: int64(p.GetColdPercent()),
		}
		switch home := t.Regions[o.Home]; {
		case !name(o.ID):
			return invalid(CodeValue, at+".id", "is not 1 to %d printable bytes", maxID)
		case t.orgs[o.ID] != nil:
			return invalid(CodeDuplicate, at+".id", "%q is there twice", o.ID)
		case o.Home != "" && home == nil:
			return invalid(CodeUnknown, at+".home", "%q is not a region of the table", o.Home)
		case o.Home != "" && home.QuotaStore == nil:
			return invalid(CodeUnknown, at+".home", "%q has no quota store", o.Home)
		case o.Epoch < 1 || o.Epoch > maxCount:
			return invalid(CodeValue, at+".epoch", "is %d, want 1 to below 2^53", o.Epoch)
		case o.Version < 1 || o.Version > maxCount:
			return invalid(CodeValue, at+".version", "is %d, want 1 to below 2^53", o.Version)
		case o.Cold > 100:
			return invalid(CodeValue, at+".cold_percent", "is %d, want 0 to 100", o.Cold)
		}
		if err := t.addShares(at, o, p.Shares); err != nil {
			return err
		}
		t.orgs[o.ID] = o
	}
	return nil
}

func (t *Table) addShares(at string, o *Organisation, list []*routerpb.Share) error {
	if len(list) > ratelimit.MaxShares {
		return invalid(CodeValue, at+".shares", "are %d, want at most %d", len(list), ratelimit.MaxShares)
	}
	left := int64(ratelimit.ShareParts)
	for j, s := range list {
		at := fmt.Sprintf("%s.shares[%d]", at, j)
		region, parts := s.GetRegion(), int64(s.GetParts())
		if t.Regions[fleet.RegionID(region)] == nil {
			return invalid(CodeUnknown, at+".region", "%q is not a region of the table", region)
		}
		for _, other := range o.Shares {
			if other.Region == region {
				return invalid(CodeDuplicate, at+".region", "%q is there twice", region)
			}
		}
		if left -= parts; left < 0 {
			return invalid(CodeValue, at+".parts", "makes more than %d together", int64(ratelimit.ShareParts))
		}
		o.Shares = append(o.Shares, ratelimit.Share{Region: region, Parts: parts})
	}
	return nil
}

// makeUp makes the organisation of a tenant's quota. A control plane that knows of none leaves each
// tenant's quotas to the tenant itself: an organisation is made up by its name, the same for every table
// of one epoch, whose regions have the shares that the quotas tell, the least that one of them does.
func (t *Table) makeUp(at string, pb *routerpb.Table, of *Tenant, share float64) error {
	if !name(of.Organisation) {
		return invalid(CodeValue, at+".tenant", "is not 1 to %d printable bytes", maxID)
	}
	o := t.orgs[of.Organisation]
	if o == nil {
		o = &Organisation{
			ID: of.Organisation, Epoch: 1, Version: max(1, int64(min(t.Ref.Epoch, 1<<13-1))<<40), Young: true, Cold: defaultCold,
		}
		for _, r := range pb.Regions[:min(len(pb.Regions), ratelimit.MaxShares)] {
			o.Shares = append(o.Shares, ratelimit.Share{Region: r.Id, Parts: ratelimit.ShareParts})
		}
		t.orgs[o.ID] = o
	}
	n := int64(len(o.Shares))
	parts := min(int64(math.Round(share*ratelimit.ShareParts)), ratelimit.ShareParts/n)
	for i := range o.Shares {
		o.Shares[i].Parts = min(o.Shares[i].Parts, parts)
	}
	return nil
}

// name says whether a name is one that can stand in a list of names, each on its own line.
func name(s string) bool {
	if s == "" || len(s) > maxID {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}
