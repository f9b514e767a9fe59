package order

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// ordered reads orders from lines "ID KIND ARGUMENT FROM TO", in minutes after noon; "-" is no
// argument, "3/41" a table's epoch and revision.
func ordered(t testing.TB, lines string) []Order {
	t.Helper()
	var orders []Order
	for line := range strings.Lines(lines) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		o := Order{
			ID: f[0], Kind: Kind(f[1]), Actor: "ann", Reason: "test",
			At: noon.Add(minutes(t, f[3])), Expires: noon.Add(minutes(t, f[4])),
		}
		switch o.Kind {
		case Evacuate, Restore:
			o.Target = f[2]
		case Shed:
			o.Priority = int32(number(t, f[2]))
		case Revert:
			epoch, revision, _ := strings.Cut(f[2], "/")
			o.Epoch, o.Revision = uint64(number(t, epoch)), uint64(number(t, revision))
		}
		if err := o.Check(o.At); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		orders = append(orders, o)
	}
	return orders
}

func number(t testing.TB, s string) int {
	t.Helper()
	n, sign := 0, 1
	for i, c := range s {
		switch {
		case c == '-' && i == 0:
			sign = -1
		case c < '0' || c > '9':
			t.Fatalf("%q is no number", s)
		default:
			n = 10*n + int(c-'0')
		}
	}
	return sign * n
}

func minutes(t testing.TB, s string) time.Duration {
	t.Helper()
	return time.Duration(number(t, s)) * time.Minute
}

// tells what a view says, in words.
func tells(v *View) string {
	var out []string
	if v.Frozen() {
		out = append(out, "frozen")
	}
	for _, c := range []struct {
		cluster fleet.ClusterID
		region  fleet.RegionID
	}{{"us-a", "us"}, {"us-b", "us"}, {"eu-a", "eu"}, {"us", "eu"}} {
		if _, yes := v.Evacuated(c.cluster, c.region); yes {
			out = append(out, "not "+string(c.cluster))
		}
		if v.Restored(c.cluster, c.region) {
			out = append(out, "use "+string(c.cluster))
		}
	}
	if p, ok := v.ShedBelow(); ok {
		out = append(out, "shed<"+string('0'+p/10))
	}
	if ref := v.Revert(); ref != nil {
		out = append(out, "table "+string(rune('0'+ref.Epoch))+"/"+string(rune('0'+ref.Revision)))
	}
	return strings.Join(out, ", ")
}

func TestWhatHolds(t *testing.T) {
	for name, c := range map[string]struct {
		orders string
		at     int // minutes after noon
		want   string
	}{
		"nothing":                               {"", 0, ""},
		"a freeze":                              {"a freeze - 0 30", 10, "frozen"},
		"until it ends":                         {"a freeze - 0 30", 30, ""},
		"also when given by a clock ahead":      {"a freeze - 3 30", 0, "frozen"},
		"the longer of two":                     {"a freeze - 0 30\nb freeze - 0 60", 45, "frozen"},
		"a cluster is left":                     {"a evacuate us-a 0 30", 0, "not us-a"},
		"a region is left":                      {"a evacuate eu 0 30", 0, "not eu-a, not us"},
		"a name that is both":                   {"a evacuate us 0 30", 0, "not us-a, not us-b, not us"},
		"only the region of that name":          {"a evacuate region/us 0 30", 0, "not us-a, not us-b"},
		"only the cluster of that name":         {"a evacuate cluster/us 0 30", 0, "not us"},
		"restore wins":                          {"a restore us-a 0 30\nb evacuate us-a 5 60", 10, "use us-a"},
		"restore wins in the other order":       {"a evacuate us-a 0 60\nb restore us-a 5 30", 10, "use us-a"},
		"while it holds":                        {"a restore us-a 0 30\nb evacuate us-a 5 60", 40, "not us-a"},
		"a cluster is kept of a region":         {"a evacuate region/us 0 60\nb restore us-b 0 30", 10, "not us-a, use us-b"},
		"a region is kept whole":                {"a evacuate us-b 0 60\nb restore region/us 0 30", 10, "use us-a, use us-b"},
		"of two that shed the milder":           {"a shed 50 0 30\nb shed 10 5 30", 10, "shed<1"},
		"of two that shed the milder, reversed": {"a shed 10 0 30\nb shed 50 5 30", 10, "shed<1"},
		"the stricter after the milder ended":   {"a shed 10 0 15\nb shed 50 5 30", 20, "shed<5"},
		"shedding batch":                        {"a shed 0 0 30", 10, "shed<0"},
		"a revert freezes":                      {"a revert 1/7 0 30", 10, "frozen, table 1/7"},
		"of two reverts the newer table":        {"a revert 1/7 0 30\nb revert 1/5 5 30", 10, "frozen, table 1/7"},
		"of two reverts the newer epoch":        {"a revert 1/7 0 30\nb revert 2/1 5 30", 10, "frozen, table 2/1"},
		"no epoch is the newest":                {"a revert 3/9 0 30\nb revert 0/5 5 30", 10, "frozen, table 0/5"},
		"all kinds beside each other":           {"a freeze - 0 9\nb evacuate us-a 0 9\nc restore eu-a 0 9\nd shed 20 0 9\ne revert 1/2 0 9", 1, "frozen, not us-a, use eu-a, shed<2, table 1/2"},
	} {
		t.Run(name, func(t *testing.T) {
			orders := ordered(t, c.orders)
			half := len(orders) / 2
			v := Set{}.With(DoorFile, orders[half:]...).With(DoorSocket, orders[:half]...).At(noon.Add(time.Duration(c.at) * time.Minute))
			if got := tells(v); got != c.want {
				t.Errorf("says %q, want %q", got, c.want)
			}
		})
	}
}

func TestWhoIsOverruledByWhom(t *testing.T) {
	v := Set{}.With(DoorSocket, ordered(t, `
		a evacuate us-a 0 30
		b restore us-a 0 30
		c evacuate region/us 0 30
		d shed 50 0 30
		e shed 10 0 30
		f revert 1/5 0 30
		g revert 1/7 0 30
		h evacuate eu 0 30
		i restore cluster/eu 0 30
		j evacuate region/ap 0 30
		k restore ap 0 30
		l freeze - 0 1`)...).At(noon.Add(2 * time.Minute))
	want := map[string]string{"a": "b", "d": "e", "f": "g", "j": "k"}
	for _, o := range v.Given() {
		if got := v.Overruled(o.ID); got != want[o.ID] {
			t.Errorf("%s is overruled by %q, want %q", o.ID, got, want[o.ID])
		}
	}
	if n := len(v.Given()); n != 11 {
		t.Errorf("%d orders, want all but the expired", n)
	}
}

func TestAReasonNamesTheOrderAndItsActor(t *testing.T) {
	v := Set{}.With(DoorSocket, ordered(t, "a7 evacuate us-a 0 30")...).At(noon)
	if reason, yes := v.Evacuated("us-a", "us"); !yes || reason != "emergency order a7 by ann" {
		t.Errorf("%q, %v", reason, yes)
	}
}

func TestTheOrderOfAPlaceIsTheOneThatHolds(t *testing.T) {
	give := func(id string, kind Kind, target string) Order {
		return Order{ID: id, Kind: kind, Target: target, Actor: "ann", Reason: "x", At: time.Unix(0, 0), Expires: time.Unix(9, 0)}
	}
	v := Set{}.With(DoorSocket, give("1", Evacuate, "region/us"), give("2", Restore, "cluster/us-a"), give("3", Evacuate, "cluster/eu-a")).At(time.Unix(1, 0))
	for _, c := range []struct{ cluster, region, want string }{
		{"us-a", "us", "2"}, {"us-b", "us", "1"}, {"", "us", "1"}, {"eu-a", "eu", "3"}, {"", "eu", ""}, {"eu-b", "eu", ""},
	} {
		got := ""
		if o := v.Of(fleet.ClusterID(c.cluster), fleet.RegionID(c.region)); o != nil {
			got = o.ID
		}
		if got != c.want {
			t.Errorf("%s of %s: %q, want %q", c.cluster, c.region, got, c.want)
		}
	}
	if o := (*View)(nil).Of("us-a", "us"); o != nil {
		t.Errorf("nil has %v", o)
	}
}

func TestANilViewSaysNothing(t *testing.T) {
	var v *View
	if got := tells(v); got != "" || v.Given() != nil || v.Overruled("a") != "" {
		t.Errorf("says %q", got)
	}
}

// Whatever is ordered, adding a restore never takes a place away, and adding an evacuation never
// brings one back.
func TestLessDrasticWins(t *testing.T) {
	kinds := []Kind{Freeze, Evacuate, Restore, Shed, Revert}
	targets := []string{"us", "us-a", "eu", "eu-a", "region/us", "cluster/us", "cluster/eu-a"}
	rapid.Check(t, func(rt *rapid.T) {
		var orders []Order
		for i := range rapid.IntRange(0, 8).Draw(rt, "orders") {
			o := Order{ID: string(rune('a' + i)), Kind: rapid.SampledFrom(kinds).Draw(rt, "kind"), At: noon}
			o.Expires = noon.Add(time.Duration(rapid.IntRange(0, 3).Draw(rt, "term")) * time.Minute)
			switch o.Kind {
			case Evacuate, Restore:
				o.Target = rapid.SampledFrom(targets).Draw(rt, "target")
			case Shed:
				o.Priority = int32(rapid.IntRange(-10, 100).Draw(rt, "priority"))
			case Revert:
				o.Revision = uint64(rapid.IntRange(1, 9).Draw(rt, "revision"))
			}
			orders = append(orders, o)
		}
		now := noon.Add(time.Minute)
		before := Set{}.With(DoorSocket, orders...).At(now)
		after := Set{}.With(DoorSocket, orders...).With(DoorSigned, Order{ID: "z", Kind: Restore, Target: rapid.SampledFrom(targets).Draw(rt, "restored"), At: noon, Expires: noon.Add(time.Hour)}).At(now)
		milder := Set{}.With(DoorFile, orders...).With(DoorControlPlane, Order{ID: "z", Kind: Shed, Priority: -20, At: noon, Expires: noon.Add(time.Hour)}).At(now)
		if p, ok := milder.ShedBelow(); !ok || p != -20 {
			rt.Errorf("sheds below %d, %v", p, ok)
		}
		for _, c := range []struct {
			cluster fleet.ClusterID
			region  fleet.RegionID
		}{{"us-a", "us"}, {"eu-a", "eu"}, {"us", "eu"}} {
			_, was := before.Evacuated(c.cluster, c.region)
			_, is := after.Evacuated(c.cluster, c.region)
			if is && !was {
				rt.Errorf("a restore takes %s away", c.cluster)
			}
			if is && after.Restored(c.cluster, c.region) {
				rt.Errorf("%s is both left and used", c.cluster)
			}
			named := false // by an evacuation that holds, looked for the slow way
			for _, o := range orders {
				what, name := o.Place()
				named = named || o.Kind == Evacuate && now.Before(o.Expires) &&
					(what != "region" && name == string(c.cluster) || what != "cluster" && name == string(c.region))
			}
			if was != (named && !before.Restored(c.cluster, c.region)) {
				rt.Errorf("%s is left: %v, ordered: %v", c.cluster, was, named)
			}
		}
	})
}

func TestReadingAViewAllocatesNothing(t *testing.T) {
	empty, full := Set{}.At(noon), Set{}.With(DoorSocket, ordered(t, "a restore us 0 9\nb shed 50 0 9\nc freeze - 0 9")...).At(noon)
	if n := testing.AllocsPerRun(100, func() {
		for _, v := range []*View{nil, empty, full} {
			_, _ = v.Evacuated("us-a", "us")
			_, _ = v.ShedBelow()
			_ = v.Frozen()
			_ = v.Restored("us-a", "us")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestOrdersSayWhatTheirKindNeeds(t *testing.T) {
	good := Order{Kind: Freeze, Actor: "ann", Reason: "why", At: noon, Expires: noon.Add(time.Hour)}
	if err := good.Check(noon); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Order)
		says   string
	}{
		"no kind":          {func(o *Order) { o.Kind = "" }, "freeze, evacuate, restore, revert, shed or stop-drills"},
		"no actor":         {func(o *Order) { o.Actor = " " }, "actor"},
		"no reason":        {func(o *Order) { o.Reason = "" }, "reason"},
		"a long reason":    {func(o *Order) { o.Reason = strings.Repeat("x", MaxText+1) }, "reason has 513 bytes"},
		"two lines":        {func(o *Order) { o.Reason = "a\nb" }, "one line"},
		"no term":          {func(o *Order) { o.Expires = o.At }, "ends before it begins"},
		"too long":         {func(o *Order) { o.Expires = o.At.Add(MaxTerm + 1) }, "at most 24h"},
		"yet to come":      {func(o *Order) { o.At, o.Expires = noon.Add(time.Hour), noon.Add(2*time.Hour) }, "yet to come"},
		"a needless place": {func(o *Order) { o.Target = "us" }, "target is for evacuate and restore"},
		"needless table":   {func(o *Order) { o.Revision = 3 }, "are for revert"},
		"needless epoch":   {func(o *Order) { o.Epoch = 3 }, "are for revert"},
		"needless bound":   {func(o *Order) { o.Priority = 3 }, "priority is for shed"},
		"no place":         {func(o *Order) { o.Kind = Evacuate }, "cluster or a region"},
		"no name":          {func(o *Order) { o.Kind, o.Target = Restore, "zone/us" }, `"zone/us" is no name`},
		"no table":         {func(o *Order) { o.Kind, o.Epoch = Revert, 1 }, "revision is missing"},
		"the top tier":     {func(o *Order) { o.Kind, o.Priority = Shed, MaxPriority+1 }, "at most 100"},
	} {
		t.Run(name, func(t *testing.T) {
			o := good
			c.change(&o)
			if err := o.Check(noon); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v does not say %q", err, c.says)
			}
		})
	}
}

func TestRevertsOrderAsTablesDo(t *testing.T) {
	orders := []*Order{{Epoch: 1, Revision: 2}, {Epoch: 1, Revision: 9}, {Epoch: 2, Revision: 1}, {Epoch: 0, Revision: 1}} // from early to late
	for i, a := range orders {
		for j, b := range orders {
			if later(a, b) != (i > j) {
				t.Errorf("%+v after %+v: %v", a, b, later(a, b))
			}
		}
	}
}
