package node

import (
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/sim/report"
	"anabranch/sim/report/stat"
	"anabranch/sim/whatif"
)

// small is a state of two regions with a cluster each; the health of that of eu is given.
func small(t *testing.T, drained, health string) *state.View {
	t.Helper()
	v := state.Empty()
	apply := func(cmd *statepb.Command) {
		cmd.Format = 1
		next, out, err := state.Apply(v, v.Index()+1, cmd)
		if err != nil || out.GetCode() != "" {
			t.Fatalf("%v, %v", out, err)
		}
		v = next
	}
	apply(&statepb.Command{Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c"}}})
	for _, r := range []struct{ kind, name, spec string }{
		{"Region", "eu", `{"peerURLs":["https://eu"],"rttMs":{"us":80}}`},
		{"Region", "us", `{"peerURLs":["https://us"]}`},
		{"Model", "m", `{}`},
		{"Cluster", "eu-1", `{"region":"eu","models":["m"],"endpoints":[{"id":"a","url":"http://a","class":"h100"}]}`},
		{"Cluster", "us-1", `{"region":"us","models":["m"],"endpoints":[{"id":"a","url":"http://b","class":"h100"}],"drained":` + drained + `}`},
	} {
		apply(&statepb.Command{Op: &statepb.Command_Put{Put: &statepb.Put{Kind: r.kind, Name: r.name, Doc: []byte(`{"spec":` + r.spec + `}`), AnyRevision: true}}})
	}
	if health != "" {
		apply(&statepb.Command{Op: &statepb.Command_Publish{Publish: &statepb.Publish{Health: []*statepb.ClusterHealth{{Cluster: "eu-1", State: health}}}}})
	}
	return v
}

func heard() signal.Snapshot {
	now := time.Unix(1_800_000_000, 0)
	s := signal.New(func() time.Time { return now })
	for range 50 {
		now = now.Add(time.Second)
		s.Put(signal.Observation{Node: "n", Connected: true, Received: now, Hello: &routerpb.Hello{RouterId: "r", Region: "us"}, Report: &routerpb.Report{
			AtUnixMs: now.UnixMilli(), WindowMs: 1000, Demand: []*routerpb.DemandSignal{{Model: "m", Class: "interactive", RequestsPerS: 2, WorkPerS: 2000}},
		}})
	}
	return s.Snapshot(now)
}

func TestTheSimulatorForecastsADrain(t *testing.T) {
	was, willBe, note, err := simulator{}.Simulate(t.Context(), small(t, "false", ""), small(t, "true", ""), heard())
	if err != nil || note == "" || was == nil || willBe == nil {
		t.Fatalf("%v, %v, %q, %v", was, willBe, note, err)
	}
	if was.Requests < 50 || was.Requests != willBe.Requests || was.Goodput < 0.9 || was.Seconds < 10 {
		t.Errorf("before %+v, after %+v", was, willBe)
	}
	if was.TTFTP50Ms == nil || willBe.TTFTP50Ms == nil || *willBe.TTFTP50Ms < *was.TTFTP50Ms+40 { // all cross the ocean
		t.Errorf("before %v, after %v", was.TTFTP50Ms, willBe.TTFTP50Ms)
	}
	if was.MicroUSDPerAnswer != nil {
		t.Errorf("an answer costs %v, and nothing has a price", *was.MicroUSDPerAnswer)
	}
}

func TestWhatIsDeadTakesNothing(t *testing.T) {
	_, willBe, _, err := simulator{}.Simulate(t.Context(), small(t, "false", "EVACUATED"), small(t, "true", "EVACUATED"), heard())
	if err != nil || willBe == nil || willBe.Goodput > 0 || willBe.Failed+willBe.Shed < 0.99 {
		t.Errorf("all is dead or drained: %+v, %v", willBe, err)
	}
}

func TestForecastsLeaveOutWhatIsNotKnown(t *testing.T) {
	if forecast(whatif.Outcome{}, nil) != nil {
		t.Error("a forecast of nothing")
	}
	f := forecast(whatif.Outcome{Span: time.Minute}, &report.Figures{TTFT: stat.Spread{P50: stat.Unknown, P99: stat.Unknown}, Goodput: report.Goodput{Share: stat.Unknown}, Cost: report.Cost{PerAnswer: stat.Unknown}})
	if f.TTFTP50Ms != nil || f.TTFTP99Ms != nil || f.MicroUSDPerAnswer != nil || f.Goodput != 0 || f.Shed != 0 || f.Seconds != 60 {
		t.Errorf("%+v", f)
	}
}
