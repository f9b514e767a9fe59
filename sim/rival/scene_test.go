package rival

import (
	"math/rand/v2"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/sim"
	"anabranch/sim/workload"
	"anabranch/sim/world"
)

const model = "llama-3.1-8b"

// scene is a fleet and what one router of its first region sees.
type scene struct {
	spec *world.Spec
	view *world.View
}

// regions makes a fleet with a cluster of so many pods in each of the regions r0, r1 and so on, 100 ms
// from each other, seen from r0. All pods were scraped and all clusters have told, and nobody has
// anything to do.
func regions(pods ...int) *scene {
	spec := &world.Spec{}
	for i, n := range pods {
		region := fleet.RegionID([]string{"r0", "r1", "r2", "r3"}[i])
		spec.Regions = append(spec.Regions, world.Region{ID: region, Zone: []string{"us", "eu", "ap", "us"}[i]})
		spec.Clusters = append(spec.Clusters, world.Cluster{
			ID: fleet.ClusterID("c" + string(region)), Region: region, Model: model,
			Pods: []world.Pods{{Class: "h100", Count: n}},
		})
	}
	spec.Models = []world.Model{{ID: model}}
	spec = spec.WithDefaults()
	v := &world.View{Now: 10 * time.Second, Attempt: 1, Rand: rand.New(rand.NewPCG(1, 2)), Leader: true, QuotaStore: true}
	for i, n := range pods {
		v.RTT = append(v.RTT, 100*time.Millisecond)
		c := world.ClusterView{Told: world.Told{At: v.Now - time.Second, Ready: n, Pods: n, Slots: n * 256}}
		if i == 0 {
			c.Pods = make([]world.PodView, n)
			for p := range c.Pods {
				c.Pods[p] = world.PodView{Known: true, At: v.Now, Slots: 256, KVTokens: 400_000}
			}
			v.RTT[0] = 0
		}
		v.Clusters = append(v.Clusters, c)
	}
	return &scene{spec, v}
}

// policy makes one and starts it.
func (s *scene) policy(t testing.TB, name string, set ...map[string]float64) *policy {
	t.Helper()
	var o Options
	if len(set) > 0 {
		o.Values = set[0]
	}
	p, err := New(name, o)
	if err != nil {
		t.Fatal(err)
	}
	p.Start(s.spec)
	return p.(*policy)
}

// hear tells the policy of all that is in the view.
func (s *scene) hear(p *policy) {
	for c := range s.view.Clusters {
		p.Heard(&world.Heard{Cluster: c, Pod: -1}, s.view)
		for i := range s.view.Clusters[c].Pods {
			p.Heard(&world.Heard{Cluster: c, Pod: i}, s.view)
		}
	}
}

// local is a pod of the first cluster.
func (s *scene) local(p int) *world.PodView { return &s.view.Clusters[0].Pods[p] }

// prompt is a request whose first blocks are shared with all others of the same topic.
func prompt(id uint64, tokens int, topic uint64) *workload.Request {
	r := &workload.Request{ID: id, Model: model, PromptTokens: tokens, OutputTokens: 100}
	for i := range tokens / sim.BlockSize {
		r.Blocks = append(r.Blocks, world.Mix(topic*1_000_003+uint64(i)))
	}
	return r
}

// shares routes and picks n requests of their own topics each and counts where they go. The view
// doesn't change in between.
func (s *scene) shares(p *policy, n int) (clusters, pods map[int]int) {
	clusters, pods = map[int]int{}, map[int]int{}
	for i := range uint64(n) {
		r := prompt(i+1, 512, i+1)
		to := p.Route(r, s.view).Cluster
		clusters[to]++
		if to == 0 {
			pods[p.Pick(r, 0, -1, s.view).Pod]++
		}
	}
	return clusters, pods
}
