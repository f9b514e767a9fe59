package rival

import (
	"time"

	"anabranch/api/fleet"
	"anabranch/sim/workload"
	"anabranch/sim/world"
)

// layout is what operators write down of the fleet: which clusters there are and who may use them.
type layout struct {
	spec    *world.Spec
	region  []int // of each cluster
	pods    []int // that each cluster has by the Spec
	lora    []bool
	models  map[fleet.ModelID][]int   // its clusters
	abroad  map[fleet.TenantID][]bool // clusters where the tenant may not be served; of others nil
	offsets []int                     // of the routers of each region
	stale   time.Duration             // after so long without word from it a cluster is in doubt
}

func newLayout(spec *world.Spec, residency bool) layout {
	l := layout{
		spec: spec, models: map[fleet.ModelID][]int{}, abroad: map[fleet.TenantID][]bool{},
		stale: 3*spec.Tell.Interval + spec.Tell.Delay + time.Second,
	}
	routers := 0
	for _, r := range spec.Regions {
		l.offsets = append(l.offsets, routers)
		routers += r.Routers
	}
	for i, c := range spec.Clusters {
		pods, lora := 0, false
		for _, p := range c.Pods {
			pods += p.Count
			lora = lora || p.Options.MaxAdapters > 0
		}
		l.region = append(l.region, spec.RegionOf(i))
		l.pods = append(l.pods, pods)
		l.lora = append(l.lora, lora)
		l.models[c.Model] = append(l.models[c.Model], i)
	}
	for _, t := range spec.Tenants {
		if !residency || len(t.Residency) == 0 {
			continue
		}
		closed := make([]bool, len(l.region))
		for c, r := range l.region {
			closed[c] = !spec.May(t.Residency, r)
		}
		l.abroad[t.ID] = closed
	}
	return l
}

// router numbers routers over all regions, however they are numbered within them.
func (l *layout) router(v *world.View) int { return l.offsets[v.Region] + v.Router }

// model is the one that is asked for. A workload that names none means the first.
func (l *layout) model(r *workload.Request) fleet.ModelID {
	if r.Model == "" && len(l.spec.Models) > 0 {
		return l.spec.Models[0].ID
	}
	return r.Model
}

// legal says whether the cluster may and can serve the request.
func (l *layout) legal(r *workload.Request, c int) bool {
	if r.Adapter != "" && !l.lora[c] {
		return false
	}
	closed := l.abroad[r.Tenant]
	return closed == nil || !closed[c]
}

// kind is the pods of which the pod is one. Those that came later are of the first kind.
func (l *layout) kind(c, pod int) *world.Pods {
	kinds := l.spec.Clusters[c].Pods
	for i := range kinds {
		if pod < kinds[i].Count {
			return &kinds[i]
		}
		pod -= kinds[i].Count
	}
	return &kinds[0]
}
