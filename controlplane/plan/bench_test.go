package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/failover"
)

// wide is a fleet of regions with a cluster each, classes and models of which each is on so many of the clusters. All
// together ask for a part of what the clusters can do, some regions for twice as much as others.
type wide struct {
	*bench
	regions, classes, models int
	on                       [][]int // of each model: the clusters
	load                     []float64
}

func newWide(b *testing.B, regions, classes, models, sites int, part float64) *wide {
	r := rand.New(rand.NewPCG(1, 2))
	w := &wide{bench: emptyBench(b), regions: regions, classes: classes, models: models}
	place := make([][2]float64, regions)
	busy := make([]float64, regions)
	for i := range place {
		place[i], busy[i] = [2]float64{r.Float64(), r.Float64()}, 0.7+0.7*r.Float64()
	}
	served := make([][]string, regions)
	for m := range models {
		on := r.Perm(regions)[:sites]
		w.on = append(w.on, on)
		for _, i := range on {
			served[i] = append(served[i], fmt.Sprintf("m%03d", m))
		}
		w.write("Model", fmt.Sprintf("m%03d", m), "{}")
	}
	for i := range regions {
		rtt := map[string]float64{}
		for j := range i {
			rtt[fmt.Sprintf("r%03d", j)] = math.Round(5 + 200*math.Hypot(place[i][0]-place[j][0], place[i][1]-place[j][1]))
		}
		name := fmt.Sprintf("r%03d", i)
		w.write("Region", name, fmt.Sprintf("peerURLs: [https://%s:1]", name))
		w.written[len(w.written)-1].Spec.(*policy.RegionSpec).RTTMs = rtt
		w.cluster(name+"-a", name, 10_000)
		w.written[len(w.written)-1].Spec.(*policy.ClusterSpec).Models = served[i]
	}
	for c := range classes {
		if c > 0 {
			w.write("TrafficPolicy", fmt.Sprintf("c%d", c), fmt.Sprintf("class: c%d\n  ttftObjectiveMs: %d", c, 300+200*c))
		}
	}
	for range regions * classes * models {
		w.load = append(w.load, part*10_000/float64(classes*models)*(0.5+r.Float64()))
	}
	for i := range w.load {
		w.load[i] *= busy[i%regions]
	}
	return w
}

// hear makes every region report for so many seconds what it is asked for, give or take a hundredth.
func (w *wide) hear(seconds int) {
	r := rand.New(rand.NewPCG(uint64(w.now.Unix()), 5))
	for range seconds {
		w.now = w.now.Add(time.Second)
		for i := range w.regions {
			name := fmt.Sprintf("r%03d", i)
			report := &routerpb.Report{AtUnixMs: w.now.UnixMilli(), WindowMs: 1000, QuotaStoreOk: true}
			for m, on := range w.on {
				for _, j := range on {
					if j == i {
						report.Clusters = append(report.Clusters, &routerpb.ClusterSignal{
							Cluster: name + "-a", Model: fmt.Sprintf("m%03d", m), Scraped: true, EndpointsTotal: 1, EndpointsReady: 1,
							CapacityWork: 10_000, LoadWork: 5000 / float64(w.models),
						})
					}
				}
				for c := range w.classes {
					class := string(fleet.DefaultClass)
					if c > 0 {
						class = fmt.Sprintf("c%d", c)
					}
					work := w.load[(m*w.classes+c)*w.regions+i] * (0.99 + 0.02*r.Float64())
					report.Demand = append(report.Demand, &routerpb.DemandSignal{Model: fmt.Sprintf("m%03d", m), Class: class, WorkPerS: work, RequestsPerS: work / 500})
				}
			}
			w.signals.Put(signal.Observation{
				Node: "n1", Hello: &routerpb.Hello{RouterId: "r-" + name, Region: name}, Report: report, Received: w.now, Connected: true,
			})
		}
	}
}

func (w *wide) input() Input {
	return Input{
		Resources: w.written, Signals: w.signals.Snapshot(w.now), Previous: w.table, Health: w.health, Now: w.now, Warm: true, Congestion: w.congestion,
	}
}

// processor is the time that this process has had of processors: on a machine with other work it tells more than a clock.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkComputeWide plans again after loads have moved a little, as the leader does each second.
func BenchmarkComputeWide(b *testing.B) {
	for _, size := range [][4]int{{20, 10, 30, 20}, {100, 10, 200, 20}} {
		b.Run(fmt.Sprintf("%dx%dx%d", size[0], size[1], size[2]), func(b *testing.B) {
			w := newWide(b, size[0], size[1], size[2], size[3], 0.4)
			w.hear(25)
			for range 3 {
				w.publish()
				w.hear(1)
			}
			w.compute(b, w.input())
		})
	}
}

// BenchmarkComputeLoss plans in the second in which a region was found dead, of a fleet in which the rest can take what it
// did, and of one in which they can't: its clients' demands find other places, survivors make room, and what is too much
// is shed.
func BenchmarkComputeLoss(b *testing.B) {
	const regions, classes, models, sites = 20, 10, 30, 20
	for _, part := range []float64{0.4, 0.9} {
		b.Run(fmt.Sprintf("%dx%dx%d/%.0f", regions, classes, models, 100*part), func(b *testing.B) {
			w := newWide(b, regions, classes, models, sites, part)
			w.hear(25)
			for range 3 {
				w.publish()
				w.hear(1)
			}
			for m, on := range w.on {
				if slices.Contains(on, 0) {
					w.health[failover.Place{Cluster: "r000-a", Model: fleet.ModelID(fmt.Sprintf("m%03d", m))}] = failover.Cluster{
						State: failover.FailingOver, Since: w.now, Reason: "2 of 2 routers of its region: refused",
					}
				}
			}
			w.compute(b, w.input())
		})
	}
}

// publish puts the plan of now in force.
func (w *wide) publish() {
	out := Compute(w.input())
	revision := w.table.GetRef().GetRevision() + 10
	w.table, w.congestion = out.Table, out.Congestion
	w.table.Ref = &routerpb.TableRef{ClusterId: "c", Epoch: 1, Revision: revision}
}

// compute measures one plan.
func (w *wide) compute(b *testing.B, in Input) {
	b.ReportAllocs()
	changed, before := 0, processor(b)
	for b.Loop() {
		if Compute(in).Changed {
			changed++
		}
	}
	b.ReportMetric(float64(processor(b)-before)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(changed)/float64(b.N), "changed/op")
}
