package override

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/order"
)

// A slow and obvious book: all orders ever given, with the time at which each ended.
type model struct {
	orders []Order
	ended  map[string]bool
}

func (m *model) holds(now time.Time, kind Kind, names ...string) bool {
	return slices.ContainsFunc(m.orders, func(o Order) bool {
		return o.Kind == kind && !m.ended[o.ID] && now.Before(o.Expires) && (names == nil || slices.Contains(names, o.Target))
	})
}

// Whatever is given, cancelled and waited for, and whenever the router is killed, the book says what
// the model says.
func TestTheBookAgreesWithAModel(t *testing.T) {
	places := map[fleet.ClusterID]fleet.RegionID{"us-a": "us", "us-b": "us", "both": "eu"}
	targets := []string{"us", "us-a", "us-b", "eu", "cluster/both", "region/both", "region/us"}
	rapid.Check(t, func(rt *rapid.T) {
		var ns atomic.Int64
		ns.Store(noon.UnixNano())
		dir := t.TempDir()
		d := open(t, dir, &ns)
		m := &model{ended: map[string]bool{}}
		check := func() {
			now := time.Unix(0, ns.Load())
			v := d.Current()
			for cluster, region := range places {
				names := []string{string(cluster), string(region), "cluster/" + string(cluster), "region/" + string(region)}
				restored := m.holds(now, Restore, names...)
				_, left := v.Evacuated(cluster, region)
				if v.Restored(cluster, region) != restored || left != (m.holds(now, Evacuate, names...) && !restored) {
					rt.Fatalf("%s of %s: left %v, restored %v", cluster, region, left, v.Restored(cluster, region))
				}
			}
			if _, sheds := v.ShedBelow(); sheds != m.holds(now, Shed) || v.Frozen() != m.holds(now, Freeze) {
				rt.Fatalf("sheds %v, frozen %v", sheds, v.Frozen())
			}
			if n := len(v.Given()); n != len(d.Status().Orders) {
				rt.Fatalf("%d orders in the view, %d in the status", n, len(d.Status().Orders))
			}
		}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0, 1, 2:
				a := Ask{
					Kind: rapid.SampledFrom([]Kind{Freeze, Evacuate, Restore, Shed}).Draw(rt, "kind"), Actor: "ann", Reason: "test",
					For: rapid.SampledFrom([]string{"1s", "5s", "1m", ""}).Draw(rt, "term"),
				}
				switch a.Kind {
				case Evacuate, Restore:
					a.Target = rapid.SampledFrom(targets).Draw(rt, "target")
				case Shed:
					a.Priority = at(rapid.Int32Range(-10, order.MaxPriority).Draw(rt, "priority"))
				}
				given, err := d.Give(a)
				if err != nil {
					rt.Fatal(err)
				}
				if a.Kind == Restore {
					for _, o := range m.orders {
						if o.Kind == Evacuate && o.Target == a.Target {
							m.ended[o.ID] = true
						}
					}
				}
				m.orders = append(m.orders, given.Order)
			case 3:
				if len(m.orders) == 0 {
					continue
				}
				o := rapid.SampledFrom(m.orders).Draw(rt, "cancelled")
				gone := m.ended[o.ID] || !time.Unix(0, ns.Load()).Before(o.Expires)
				if err := d.Cancel(o.ID, "bob"); (err != nil) != gone {
					rt.Fatalf("cancelled %s, gone %v: %v", o.ID, gone, err)
				}
				m.ended[o.ID] = true
			case 4:
				d.pass(time.Duration(rapid.IntRange(1, 8).Draw(rt, "seconds")) * time.Second)
			case 5:
				d = open(t, dir, &ns)
			}
			check()
		}
	})
}

func TestManyMayReadAndOrderAtOnce(t *testing.T) {
	d := newDesk(t)
	var people, readers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				v := d.Current()
				if _, left := v.Evacuated("us-a", "us"); left && v.Restored("us-a", "us") {
					t.Error("left and restored at once")
					return
				}
				d.Status()
			}
		})
	}
	given := make([]map[string]bool, 3)
	for i := range given {
		given[i] = map[string]bool{}
		people.Go(func() {
			for n := range 8 {
				kind := Evacuate
				if (n+i)%3 == 0 {
					kind = Restore
				}
				g, err := d.Give(Ask{Kind: kind, Target: "us-a", Actor: "ann", Reason: "test"})
				if err != nil {
					t.Error(err)
					return
				}
				given[i][g.ID] = true
			}
		})
	}
	people.Wait()
	close(stop)
	readers.Wait()
	all := map[string]bool{}
	for _, ids := range given {
		maps.Copy(all, ids)
	}
	if len(all) != 24 {
		t.Errorf("%d names for 24 orders", len(all))
	}
	again := open(t, d.dir, d.ns)
	if a, b := len(again.Status().Orders), len(d.Status().Orders); a != b || a == 0 {
		t.Errorf("%d orders after a restart, %d before", a, b)
	}
}
