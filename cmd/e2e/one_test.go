package e2e

import (
	"testing"
	"time"

	"anabranch/cmd/anabranch/dev/seed"
)

// TestOneSystem checks on one running system, side by side, what the router makes of policies and
// members of all kinds. Each check brings the documents that it needs and takes them away, so that
// tables are swapped all the while: other traffic goes on through it and notices nothing.
func TestOneSystem(t *testing.T) {
	t.Parallel()
	s := start(t)
	traffic := s.drive("acme", seed.SmallModel, 1, regions...)
	before := s.revisions()
	t.Run("checks", func(t *testing.T) {
		for name, check := range map[string]func(*System){
			"a split gives each arm its share":                             (*System).split,
			"a shadow gets copies that nobody is charged for":              (*System).shadow,
			"a rewrite asks for another model":                             (*System).rewrite,
			"a pin is never widened":                                       (*System).pin,
			"a policy narrows residency":                                   (*System).residency,
			"equal beginnings meet":                                        (*System).prefixHash,
			"published caches are known":                                   (*System).caches,
			"adapters stay where they are":                                 (*System).adapters,
			"what is full lets the tiers in from the top":                  (*System).full,
			"a late answer is hedged":                                      (*System).hedge,
			"a broken stream goes on elsewhere":                            (*System).rescue,
			"a provider gets its own key and model name":                   (*System).provider,
			"a cluster may want a certificate":                             (*System).certified,
			"a region of another control plane is one member":              (*System).foreign,
			"endpoints are found in files and in DNS":                      (*System).discovered,
			"requests are explained and followed by any node":              (*System).told,
			"a limit is changed under load":                                (*System).limits,
			"a router is a process that obeys orders, drains and restarts": (*System).process,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				check(s.in(t))
			})
		}
	})
	s.await(10*time.Second, "the last documents to be gone", func() error {
		for region := range s.routers {
			if table, err := s.table(region); err != nil || len(table.GetRules()) > 1 || len(table.GetClusters()) != len(s.clusters) {
				return errNotYet
			}
		}
		return nil
	})
	results := traffic.stop()
	swapped := s.revisions()
	for region := range s.routers {
		if swapped[region]-before[region] < 5 {
			t.Errorf("%s went from table %d to %d only", region, before[region], swapped[region])
		}
	}
	if lost := s.lost(results); len(lost) > 0 {
		t.Errorf("%d of %d requests lost, first: %s", len(lost), len(results), lost[0])
	}
	t.Logf("%d requests while tables went from %v to %v", len(results), before, swapped)
}

// revisions are those of the tables that the routers obey.
func (s *System) revisions() map[string]uint64 {
	s.t.Helper()
	out := map[string]uint64{}
	for region := range s.routers {
		table, err := s.table(region)
		if err != nil {
			s.t.Fatal(err)
		}
		out[region] = table.GetRef().GetRevision()
	}
	return out
}
