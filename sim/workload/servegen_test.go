package workload

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
)

func servegen(t testing.TB, o TraceOptions) *Clients {
	t.Helper()
	s, err := ServeGen(bytes.NewReader(load(t, "servegen_clients.csv")), bytes.NewReader(zipped(t, load(t, "servegen_lengths.csv"))), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestServeGenKeepsTheRates(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	list := drain(t, servegen(t, TraceOptions{Seed: 1}), 1e7, 0)
	got, want := map[string][24]float64{}, map[string][24]float64{}
	for _, row := range strings.Fields(string(load(t, "servegen_clients.csv")))[1:] {
		v := strings.Split(row, ",")
		var start, rate float64
		for i, to := range map[int]*float64{2: &start, 3: &rate} {
			tab := &table{lines: &lines{}, columns: make([]string, 8)}
			x, err := tab.number(v, i, 0, 1e6)
			if err != nil {
				t.Fatal(err)
			}
			*to = x
		}
		hours := want[v[0]]
		hours[int(start)/3600] += rate * 600
		want[v[0]] = hours
	}
	for _, r := range list {
		hours := got[string(r.Model)]
		hours[int(r.At.Hours())]++
		got[string(r.Model)] = hours
	}
	for model, hours := range want {
		for h, n := range hours {
			// Of each client's window a part of a request may fall to the next.
			if math.Abs(got[model][h]-n) > 2.01 {
				t.Errorf("%s in hour %d: %v requests, want %v", model, h, got[model][h], n)
			}
		}
	}
	if last := list[len(list)-1].At; last < 23*time.Hour || last >= 24*time.Hour {
		t.Errorf("the last request comes at %v", last)
	}
}

func TestServeGenIsAsBurstyAsItsClients(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	o := TraceOptions{Seed: 1, ModelMap: map[string]fleet.ModelID{"large": "big"}}
	list := drain(t, servegen(t, o), 1e7, 0)
	_, cv := gapsOf(list)
	if cv < 1.7 || cv > 2.4 {
		t.Errorf("CV is %v, the client's is 2", cv)
	}
	o.Thin = 0.2
	thin := drain(t, servegen(t, o), 1e7, 0)
	near(t, "the share that is kept", float64(len(thin))/float64(len(list)), 0.2, 0.01)
	if _, cv := gapsOf(thin); cv < 1.6 || cv > 2.5 {
		t.Errorf("thinned, CV is %v, the client's is 2", cv)
	}
	for _, r := range list {
		if r.Model != "big" {
			t.Fatalf("a request for %s", r.Model)
		}
	}
}

func TestServeGenLengthsFollowTheirTables(t *testing.T) {
	st, err := Measure(servegen(t, TraceOptions{ModelMap: map[string]fleet.ModelID{"large": "big"}, Length: 6 * time.Hour}), 1e7, 0)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "the mean prompt", st.Prompt.Mean, 400, 0.05)
	near(t, "the median prompt", float64(st.Prompt.P50), 250, 0.05)
	near(t, "the 90th percentile", float64(st.Prompt.P90), 900, 0.08)
	near(t, "the median answer", float64(st.Output.P50), 80, 0.05)
	later, _ := Measure(servegen(t, TraceOptions{ModelMap: map[string]fleet.ModelID{"large": "big"}, From: 18 * time.Hour, Length: 6 * time.Hour}), 1e7, 0)
	near(t, "the median prompt in the evening", float64(later.Prompt.P50), 400, 0.05)
	// Client b of small has no table; client a's is the only one to borrow.
	borrowed, _ := Measure(servegen(t, TraceOptions{ModelMap: map[string]fleet.ModelID{"small": "s"}, From: 6 * time.Hour, Length: 6 * time.Hour}), 1e7, 0)
	near(t, "the median of borrowed lengths", float64(borrowed.Prompt.P50), 300, 0.05)
}

func TestServeGenMapsClientsAndTurnsItsDays(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	o := TraceOptions{
		Seed: 3, Regions: []Origin{{Region: "us", Shift: 5 * time.Hour}, {Region: "eu", Shift: -2 * time.Hour}},
		RegionMap: map[string]fleet.RegionID{"small/a": "us", "small/b": "us", "large/a": "eu"},
		TenantMap: map[string]fleet.TenantID{"large/a": "acme"},
		Mix:       Mix{Tenants: []Share[fleet.TenantID]{{Value: "globex"}}},
	}
	busiest := map[fleet.RegionID][24]int{}
	for _, r := range drain(t, servegen(t, o), 1e7, 0) {
		if (r.Region == "eu") != (r.Model == "large") || (r.Tenant == "acme") != (r.Model == "large") {
			t.Fatalf("a request for %s of %s in %s", r.Model, r.Tenant, r.Region)
		}
		hours := busiest[r.Region]
		hours[int(r.At.Hours())]++
		busiest[r.Region] = hours
	}
	for region, want := range map[fleet.RegionID]int{"us": 19, "eu": 12} {
		best := 0
		for h, n := range busiest[region] {
			if n > busiest[region][best] {
				best = h
			}
		}
		if best != want {
			t.Errorf("%s is busiest in hour %d, want %d: %v", region, best, want, busiest[region])
		}
	}
}

func TestServeGenWindowIsACutOfTheDay(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	day := drain(t, servegen(t, TraceOptions{Seed: 1}), 1e7, 0)
	inside := 0
	for _, r := range day {
		if r.At >= 13*time.Hour && r.At < 14*time.Hour {
			inside++
		}
	}
	cut := servegen(t, TraceOptions{Seed: 1, From: 13 * time.Hour, Length: time.Hour, Speedup: 60})
	list := drain(t, cut, 1e7, 0)
	if d := len(list) - inside; d < -3 || d > 3 || list[len(list)-1].At >= time.Minute {
		t.Errorf("%d requests up to %v, want %d within a minute", len(list), list[len(list)-1].At, inside)
	}
	if c := cut.Counts(); c.Given != len(list) || c.Thin != 1 {
		t.Errorf("counts %+v", c)
	}
	two := drain(t, servegen(t, TraceOptions{Seed: 1, Length: 48 * time.Hour}), 1e7, 0)
	if d := len(two) - 2*len(day); d < -3 || d > 3 {
		t.Errorf("two days have %d requests, one %d", len(two), len(day))
	}
	if n := len(drain(t, servegen(t, TraceOptions{Requests: 9}), 1e7, 0)); n != 9 {
		t.Errorf("%d requests, want 9", n)
	}
	if reflect.DeepEqual(day[:50], drain(t, servegen(t, TraceOptions{Seed: 2}), 50, 0)) {
		t.Error("another seed gives the same")
	}
	if !reflect.DeepEqual(day[:50], drain(t, servegen(t, TraceOptions{Seed: 1}), 50, 0)) {
		t.Error("the same seed gives others")
	}
}

func TestBadServeGenTables(t *testing.T) {
	const (
		head  = "model,client,window_s,rate_rps,cv,pattern,shape,scale\n"
		good  = head + "m,1,0,2,2,Gamma,0.25,1\n"
		lhead = "model,client,window_s,in_mean,in_p50,in_p90,in_p99,out_mean,out_p50,out_p90,out_p99\n"
		lgood = lhead + "m,1,0,100,80,200,300,100,80,200,300\n"
	)
	for _, c := range []struct {
		name, clients, lengths, says string
		opts                         TraceOptions
	}{
		{"no header", "", lgood, "ServeGen clients: is empty", TraceOptions{}},
		{"no rows", head, lgood, "no client of a wanted model", TraceOptions{}},
		{"no wanted model", good, lgood, "check modelMap", TraceOptions{ModelMap: map[string]fleet.ModelID{"x": "y"}}},
		{"another pattern", head + "m,1,0,2,2,Pareto,1,1\n", lgood, `line 2: pattern is "Pareto"`, TraceOptions{}},
		{"no rate", head + "m,1,0,,2,Gamma,1,1\n", lgood, `line 2: rate_rps is ""`, TraceOptions{}},
		{"a rate that is no number", head + "m,1,0,NaN,2,Gamma,1,1\n", lgood, "line 2: rate_rps", TraceOptions{}},
		{"a rate beyond all", head + "m,1,0,1e9,2,Gamma,1,1\n", lgood, "line 2: rate_rps is 1e+09, want 0 to 5000", TraceOptions{}},
		{"negative shape", head + "m,1,0,2,2,Gamma,-1,1\n", lgood, "line 2: shape is -1", TraceOptions{}},
		{"windows overlap", good + "m,1,300,2,2,Gamma,0.25,1\n", lgood, "line 3: window_s 300 of client m/1", TraceOptions{}},
		{"windows go back", good + "m,1,600,2,2,Gamma,0.25,1\nm,1,0,2,2,Gamma,0.25,1\n", lgood, "line 4: window_s 0", TraceOptions{}},
		{"a model without a legal name", head + "a b,1,0,2,2,Gamma,1,1\n", lgood, "line 2: model", TraceOptions{}},
		{"lengths without header", good, "x\n", "ServeGen lengths, line 1: the header has no column model", TraceOptions{}},
		{"lengths that fall", good, lhead + "m,1,0,100,80,20,300,100,80,200,300\n", "line 2: percentiles 80, 20 and 300", TraceOptions{}},
		{"negative lengths", good, lhead + "m,1,0,100,-80,20,300,100,80,200,300\n", "line 2: in_p50 is -80", TraceOptions{}},
		{"lengths twice", good, lgood + "m,1,0,100,80,200,300,100,80,200,300\n", "line 3: window_s 0", TraceOptions{}},
		{"no lengths at all", good, lhead, "client m/1: no client of its model has lengths", TraceOptions{}},
		{"models in the mix", good, lgood, "mix.models", TraceOptions{Mix: Mix{Models: []Target{{Model: "m"}}}}},
		{"a grid", good, lgood, "grid", TraceOptions{Grid: time.Second}},
		{"bad options", good, lgood, "thin", TraceOptions{Thin: -1}},
		{"more than can be drawn", head + strings.ReplaceAll("m,1,0,5000,2,Gamma,1,1\nm,2,0,5000,2,Gamma,1,1\nm,3,0,5000,2,Gamma,1,1\nm,4,0,5000,2,Gamma,1,1\nm,5,0,5000,2,Gamma,1,1\nm,6,0,5000,2,Gamma,1,1\nm,7,0,5000,2,Gamma,1,1\n", "\r", ""), lgood, "keep a smaller share", TraceOptions{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ServeGen(strings.NewReader(c.clients), strings.NewReader(c.lengths), c.opts)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error is %v, want one that says %q", err, c.says)
			}
		})
	}
	s, err := ServeGen(strings.NewReader(good), strings.NewReader(lhead), TraceOptions{Prompt: Lengths{Fixed: 7}, Output: Lengths{Fixed: 8}})
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := s.Next(); !ok || r.PromptTokens != 7 || r.OutputTokens != 8 {
		t.Errorf("lengths of the options: %+v", r)
	}
}

func TestWindowsOfAnyShapeKeepTheirNumberAndTime(t *testing.T) {
	for _, w := range []window{
		{shape: minShape}, {shape: minShape, weibull: true}, {shape: 0.3}, {shape: 0.3, weibull: true}, {shape: 500}, {shape: 20, weibull: true},
	} {
		for n := range 50 {
			at := w.arrivals(random(uint64(n), tagTrace), n)
			if len(at) != n {
				t.Fatalf("%+v: %d times, want %d", w, len(at), n)
			}
			last := 0.0
			for _, s := range at {
				if !(s >= last && s <= servegenWindow) {
					t.Fatalf("%+v: times %v", w, at)
				}
				last = s
			}
		}
	}
}

func TestQuantileTablesKeepPercentilesAndMostlyMeans(t *testing.T) {
	for _, c := range []struct {
		q    [4]float32
		mean float64
	}{
		{[4]float32{400, 250, 900, 2500}, 400},
		{[4]float32{104, 75, 79, 146}, 104},         // by a long tail
		{[4]float32{621, 809, 865, 904}, 621},       // by short ones
		{[4]float32{5, 809, 865, 904}, 483.3},       // as short as percentiles allow
		{[4]float32{90_000, 809, 865, 904}, 1013.1}, // as long as is allowed
		{[4]float32{0, 0, 0, 0}, 1},                 // a token at least
	} {
		table := quantileTable(c.q)
		if err := checkQuantiles(table); err != nil {
			t.Fatalf("%v: %v", c.q, err)
		}
		mean := 0.0
		for i := 1; i < len(table); i++ {
			for k := range 2000 {
				mean += (table[i].P - table[i-1].P) / 2000 * interpolate(table, table[i-1].P+(float64(k)+0.5)/2000*(table[i].P-table[i-1].P))
			}
		}
		near(t, "the mean", mean, c.mean, 0.01)
		for i, p := range []float64{0.5, 0.9, 0.99} {
			if x := interpolate(table, p); math.Abs(x-max(1, float64(c.q[i+1]))) > 1e-6 {
				t.Errorf("%v: quantile %v is %v", c.q, p, x)
			}
		}
	}
}
