package admit

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// A thousand tenants at the limit of their organisation ask the store no more often than it has time for,
// and the organisation gets what it may have.
func TestManyWhoAreRefusedDoNotCrowdTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tenants, perSecond = 1000, 500
		pb := describe()
		pb.Tenants = nil
		for i := range tenants {
			id := fmt.Sprintf("t%d", i)
			pb.Tenants = append(pb.Tenants, &routerpb.Tenant{Id: id, Organisation: "acme", Tier: "top", Priority: 100})
			own := quota("requests", 1_000_000, "share", 1)
			own.Id, own.Tenant = id+"/requests", id
			pb.Quotas = append(pb.Quotas, own)
		}
		whole := quota("requests", 60*perSecond, "share", 1)
		whole.Id, whole.Tenant, whole.Burst = "whole/requests", "", perSecond
		whole.Organisation = "acme"
		pb.Quotas = append(pb.Quotas, whole)
		for _, q := range pb.Quotas {
			q.Organisation = "acme"
		}
		l := newLink()
		k := newAsker(t, l, build(t, pb))
		admitted, calls := 0, 0
		const warm, long = 2, 6 // seconds
		for step := range long * 100 {
			if step == warm*100 {
				admitted, calls = 0, l.count()
			}
			for i := range 20 { // two a second of each tenant
				id := fleet.TenantID(fmt.Sprintf("t%d", (step*20+i)%tenants))
				tenant, _ := k.table.Tenant(id)
				if _, d := k.a.Take(t.Context(), k.table, Request{Tenant: tenant}); d.Allowed {
					admitted++
				}
			}
			pass(10 * time.Millisecond)
		}
		seconds := float64(long - warm)
		if got := float64(l.count()-calls) / seconds; got > 5000 {
			t.Errorf("%.0f calls a second", got)
		}
		if got := float64(admitted) / seconds; got < 0.95*perSecond || got > perSecond*(1+1/seconds) {
			t.Errorf("%.0f pass a second of %d", got, perSecond)
		}
	})
}
