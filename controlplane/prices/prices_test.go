package prices

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
	"anabranch/costmodel/pricelist"
)

func TestTheLeaderAsksAndAllNodesKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a := found(t, spotH100), &seller{name: "a"}
		a.says(nil, spot(24), costmodel.Offer{Class: "l4", Region: "us-east-1", PerHour: 1, Origin: costmodel.Live})
		k, follower := n.keeper("n1", groupOf(time.Hour, a)), n.keeper("n2", groupOf(time.Hour, a))
		defer running(k)()
		defer running(follower)()
		pass(5 * time.Second)
		if got := n.View().Offers(); len(got) != 1 || n.price() != 24 || got[0].AsOf.IsZero() {
			t.Errorf("kept %+v, want what the cluster has", got)
		}
		if want := []Need{{"us-east-1", "h100", "p5.48xlarge", "", costmodel.Spot}}; !slices.Equal(a.wanted(), want) || a.times() != 1 {
			t.Errorf("asked for %+v", a.wanted())
		}
		if asked := k.Asked()["a"]; asked.Standing != pricelist.Good || asked.Next.Sub(asked.Asked) != time.Hour {
			t.Errorf("the leader says %+v", asked)
		}
		if len(follower.Asked()) != 0 {
			t.Errorf("a follower says %+v", follower.Asked())
		}
		if s := n.View().PriceSource("a"); s.GetStanding() != "good" || s.GetEveryMs() != time.Hour.Milliseconds() || s.GetReadUnixMs() == 0 {
			t.Errorf("the state says %v", s)
		}
	})
}

func TestNothingIsCommittedWhenOnlyAgesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a := found(t, spotH100), &seller{name: "a"}
		a.says(nil, spot(24))
		defer running(n.keeper("n1", groupOf(time.Minute, a)))()
		pass(5 * time.Second)
		n.committed()
		revision := n.View().PricesRevision()
		pass(2 * time.Hour)
		all := n.committed()
		if asked := a.times(); asked < 115 || len(all) != 2 {
			t.Errorf("asked %d times in two hours, and %d commands", asked, len(all))
		}
		for _, p := range all {
			if len(p.GetSources()) != 1 || len(p.GetSources()[0].GetOffers()) != 0 || !p.GetSources()[0].GetSameOffers() || len(p.GetRepricings()) != 0 {
				t.Errorf("committed %v", p)
			}
		}
		if n.View().PricesRevision() != revision || n.price() != 24 {
			t.Error("prices changed")
		}
		a.says(nil, spot(25))
		pass(2 * time.Minute)
		if all := n.committed(); len(all) != 1 || n.price() != 25 || n.View().PricesRevision() == revision {
			t.Errorf("another price: %v", all)
		}
	})
}

func TestTheLastGoodPriceOutlivesFailuresAndLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b := found(t, spotH100), &seller{name: "a"}, &seller{name: "a"}
		a.says(nil, spot(24))
		first := running(n.keeper("n1", groupOf(time.Hour, a)))
		second := running(n.keeper("n2", groupOf(time.Hour, b)))
		pass(5 * time.Second)
		a.says(fmt.Errorf("throttled, request %s", strings.Repeat("\xff", 2*maxText)))
		pass(time.Hour)
		s := n.View().PriceSource("a")
		if s.GetStanding() != "failing" || !strings.HasPrefix(s.GetError(), "throttled") || n.price() != 24 {
			t.Errorf("failing: %v", s)
		}
		a.times()
		n.committed()
		pass(16 * time.Minute) // after 1, 2, 4 and 8 minutes at first
		if asked := a.times(); asked < 2 || asked > 5 || len(n.committed()) != 0 {
			t.Errorf("a source that fails was asked %d times", asked)
		}

		b.says(errors.New("away, too"))
		n.lead("n2")
		pass(5 * time.Second)
		if b.times() != 1 || n.price() != 24 || a.times() != 0 {
			t.Error("a new leader has not asked, or has lost the last good price")
		}
		b.says(nil, spot(26))
		pass(2 * time.Minute)
		if s := n.View().PriceSource("a"); s.GetStanding() != "good" || s.GetError() != "" || n.price() != 26 {
			t.Errorf("it answers again: %v", s)
		}
		first()
		second()

		// After a restart the state is what it was, and nobody is asked before it is time again.
		c := &seller{name: "a"}
		c.says(nil, spot(27))
		third := running(n.keeper("n2", groupOf(time.Hour, c)))
		pass(30 * time.Minute)
		if c.times() != 0 || n.price() != 26 {
			t.Error("asked before it was time")
		}
		pass(time.Hour)
		if n.price() != 27 {
			t.Error("not asked when it was time")
		}
		third()
	})
}

func TestWithoutCredentialsNothingIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a := found(t, spotH100), &seller{name: "a"}
		a.says(fmt.Errorf("%w: no credentials", pricelist.ErrAbsent))
		defer running(n.keeper("n1", groupOf(time.Minute, a)))()
		pass(20 * time.Minute)
		if s := n.View().PriceSource("a"); s.GetStanding() != "absent" || !strings.Contains(s.GetError(), "no credentials") || len(n.committed()) != 1 {
			t.Errorf("%v", s)
		}
		if asked := a.times(); asked < 18 {
			t.Errorf("asked %d times, and credentials may come", asked)
		}
	})
}

func TestWhatClustersNeedAnewIsAskedForSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a := found(t, spotH100), &seller{name: "a"}
		a.says(nil, spot(24), costmodel.Offer{Class: "L4", Region: "eu-west-1", PerHour: costmodel.Dollar, Origin: costmodel.Live})
		defer running(n.keeper("n1", groupOf(time.Hour, a)))()
		pass(time.Minute)
		a.times()
		n.write("Model", "other", "{}") // which needs nothing
		pass(time.Minute)
		if a.times() != 0 {
			t.Error("asked anew for what is known")
		}
		for i := range 5 {
			n.cluster(fmt.Sprintf("eu-%d", i), "eu-west-1", fmt.Sprintf("{class: l4, count: %d}", i+1))
		}
		pass(5 * time.Second)
		if got := a.times(); got != 1 || len(a.wanted()) != 2 || len(n.View().Offers()) != 2 {
			t.Errorf("asked %d times for %+v, kept %+v", got, a.wanted(), n.View().Offers())
		}
	})
}

func TestPricesThatNobodyNeedsOrAsksForAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := found(t, spotH100)
		read := time.Now().Add(5*time.Minute - forgetAfter).UnixMilli()
		put := func(name string, o *statepb.PriceOffer) {
			n.do(&statepb.Command{Op: &statepb.Command_PutPrices{PutPrices: &statepb.PutPrices{Sources: []*statepb.PriceSource{{
				Name: name, Standing: "good", ReadUnixMs: read, AskedUnixMs: read, Offers: []*statepb.PriceOffer{o},
			}}}}})
		}
		wanted, _ := kept(spot(24))
		other, _ := kept(costmodel.Offer{Class: "l4", Region: "us-east-1", Origin: costmodel.Live})
		put("of another setup", wanted)
		put("of a cluster that is gone", other)
		defer running(n.keeper("n1"))()
		pass(2 * time.Minute)
		if v := n.View(); v.PriceSource("of another setup") == nil || v.PriceSource("of a cluster that is gone") != nil {
			t.Errorf("after two minutes: %v", v.PriceSources())
		}
		pass(5 * time.Minute)
		if len(n.View().PriceSources()) != 0 {
			t.Errorf("after a week: %v", n.View().PriceSources())
		}
	})
}

func TestWhatCannotBeCommittedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a := found(t, spotH100), &seller{name: "a"}
		a.says(nil, spot(24))
		n.refusing(errors.New("no quorum"))
		defer running(n.keeper("n1", groupOf(time.Hour, a)))()
		pass(time.Minute)
		n.refusing(nil)
		pass(2 * time.Second)
		if n.price() != 24 || a.times() != 1 {
			t.Error("not committed, or asked anew for it")
		}
	})
}

func TestRunWaitsForQuestionsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a := found(t, spotH100), &seller{name: "a", hangs: time.Hour}
		a.says(nil, spot(24))
		stop := running(n.keeper("n1", groupOf(time.Minute, a)))
		pass(30 * time.Second)
		stop() // or the test would end with a goroutine left
		if n.price() != -1 || len(n.committed()) != 0 {
			t.Error("an answer that never came is kept")
		}
	})
}

func TestPricesWaitForAnUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a := found(t, spotH100), &seller{name: "a"}
		n.view = state.Empty()
		n.do(&statepb.Command{Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c", Tokens: []*statepb.Token{{Name: "a", Role: "admin", Sha256: make([]byte, 32)}}}}})
		defer running(n.keeper("n1", groupOf(time.Minute, a)))()
		pass(10 * time.Minute)
		if a.times() != 0 || len(n.committed()) != 0 {
			t.Error("prices were asked for before all nodes can keep them")
		}
	})
}

func TestOptionsSayWhatIsWrong(t *testing.T) {
	n := found(t, spotH100)
	good := Options{Leading: func() bool { return true }, View: n.View, Propose: n.keeper("n1").o.Propose}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Options){
		"View":   func(o *Options) { o.View = nil },
		"least":  func(o *Options) { o.Groups = []Group{groupOf(time.Millisecond)} },
		"no Sou": func(o *Options) { o.Groups = []Group{{Every: time.Hour}} },
	} {
		o := good
		spoil(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSourcesThatCannotBeMadeStopNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a := found(t, spotH100), &seller{name: "a"}
		a.says(nil, spot(24))
		broken := Group{Name: "broken", Every: time.Hour, Sources: func([]Need) ([]pricelist.Source, error) { return nil, errors.New("no such place") }}
		defer running(n.keeper("n1", broken, groupOf(time.Hour, a, &seller{name: "b"})))()
		pass(5 * time.Second)
		if n.price() != 24 {
			t.Error("another group was not asked")
		}
	})
}
