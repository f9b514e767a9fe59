package prices

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
	"anabranch/costmodel/pricelist"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

var everything = []Need{
	{Region: "us-east-1", Class: "h100", Purchase: costmodel.Spot},
	{Region: "us-east-1", Class: "h100", Purchase: costmodel.CapacityBlock},
	{Region: "us-east-1", Class: "h100", Purchase: costmodel.OnDemand},
}

// answers plays what a source says at times, in hours, and gives what is kept after each: the price in
// dollars, with a question mark where it is doubted, and a dash for none.
func answers(t *testing.T, steps ...step) string {
	t.Helper()
	var s *statepb.PriceSource
	var told []string
	for _, x := range steps {
		at := noon.Add(time.Duration(x.hour * float64(time.Hour)))
		a := pricelist.Answer{State: pricelist.State{Source: "a", Standing: pricelist.Good, Read: at, Asked: at}, Offers: x.offers}
		if x.fails {
			a.Standing, a.Read = pricelist.Failing, time.Time{}
		}
		s = settle(s, a, everything, time.Hour, at)
		word := "-"
		for _, o := range s.GetOffers() {
			if word = fmt.Sprint(costmodel.Micros(o.GetMicrosPerHour()).USD()); o.GetDoubt() != nil {
				word += "?"
			}
		}
		told = append(told, word)
	}
	return strings.Join(told, " ")
}

type step struct {
	hour   float64
	fails  bool
	offers []costmodel.Offer
}

func at(hour float64, offers ...costmodel.Offer) step { return step{hour, false, offers} }

// A minute is billed when it is over, and with what its price was then.
func TestWhatAPriceWasIsKept(t *testing.T) {
	var s *statepb.PriceSource
	for _, x := range []struct {
		usd   float64
		was   string
		until float64
	}{{3, "$0.00", 0}, {3, "$0.00", 0}, {4, "$3.00", 2}, {4, "$3.00", 2}, {400, "$3.00", 2}, {5, "$4.00", 5}} {
		hour := 0.0
		if s != nil {
			hour = time.UnixMilli(s.GetReadUnixMs()).Sub(noon).Hours() + 1
		}
		now := noon.Add(time.Duration(hour * float64(time.Hour)))
		s = settle(s, pricelist.Answer{State: pricelist.State{Source: "a", Standing: pricelist.Good, Read: now, Asked: now}, Offers: []costmodel.Offer{spot(x.usd)}}, everything, time.Hour, now)
		o := s.GetOffers()[0]
		until := int64(0)
		if x.until > 0 {
			until = noon.Add(time.Duration(x.until * float64(time.Hour))).UnixMilli()
		}
		if costmodel.Micros(o.GetWasMicrosPerHour()).String() != x.was || o.GetWasUntilUnixMs() != until {
			t.Errorf("after %g: was %s until %d, want %s until %d", x.usd, costmodel.Micros(o.GetWasMicrosPerHour()), o.GetWasUntilUnixMs(), x.was, until)
		}
	}
}

func TestPricesThatJumpAreDoubtedForADay(t *testing.T) {
	file := func(usd float64) costmodel.Offer {
		o := spot(usd)
		o.Origin = costmodel.File
		return o
	}
	block := func(from, until float64) costmodel.Offer {
		o := spot(30)
		o.Purchase = costmodel.CapacityBlock
		o.From, o.Until = noon.Add(time.Duration(from*float64(time.Hour))), noon.Add(time.Duration(until*float64(time.Hour)))
		return o
	}
	for name, c := range map[string]struct {
		want  string
		steps []step
	}{
		"an ordinary move":                 {"24 48 5 50", []step{at(0, spot(24)), at(1, spot(48)), at(2, spot(5)), at(3, spot(50))}},
		"ten times is the most":            {"24 240 24", []step{at(0, spot(24)), at(1, spot(240)), at(2, spot(24))}},
		"a slip":                           {"24 24? 24", []step{at(0, spot(24)), at(1, spot(2400)), at(2, spot(25-1))}},
		"far dearer, and it stays so":      {"24 24? 24? 300", []step{at(0, spot(24)), at(1, spot(300)), at(24.9, spot(310)), at(25, spot(300))}},
		"far cheaper, and it stays so":     {"24 24? 24? 2", []step{at(0, spot(24)), at(1, spot(2)), at(24.9, spot(2.1)), at(25, spot(2))}},
		"nothing, and it stays so":         {"24 24? 24? 0 7", []step{at(0, spot(24)), at(1, spot(0)), at(20, spot(0)), at(26, spot(0)), at(27, spot(7))}},
		"each time another slip":           {"24 24? 24? 24? 0", []step{at(0, spot(24)), at(1, spot(300)), at(20, spot(1)), at(43.9, spot(0)), at(68, spot(0))}},
		"a slip of a file":                 {"24 24?", []step{at(0, file(24)), at(1, file(2400))}},
		"not told any more":                {"24 24? 24? -", []step{at(0, spot(24)), at(1), at(24), at(25)}},
		"not told for a while":             {"24 24? 26", []step{at(0, spot(24)), at(1), at(2, spot(26))}},
		"a line taken out of a file":       {"24 -", []step{at(0, file(24)), at(1)}},
		"no answer":                        {"24 24 25", []step{at(0, spot(24)), {1, true, nil}, at(2, spot(25))}},
		"no answer while it is doubted":    {"24 24? 24? 300", []step{at(0, spot(24)), at(1, spot(300)), {20, true, nil}, at(25, spot(300))}},
		"never an answer":                  {"- -", []step{{0, true, nil}, {1, true, nil}}},
		"a block that has begun":           {"30 30 30 -", []step{at(0, block(1, 25)), at(2), at(24.9), at(25)}},
		"a block that somebody has bought": {"30 -", []step{at(0, block(2, 26)), at(1)}},
		"a block that is over":             {"-", []step{at(0, block(-24, 0))}},
		"of two for the same the first":    {"24", []step{at(0, spot(24), spot(30))}},
		"nobody's": {"-", []step{at(0, costmodel.Offer{Class: "l4", Region: "us-east-1"}, costmodel.Offer{Class: "h100", Region: "us"},
			costmodel.Offer{Class: "h100", Region: "us-east-1", Purchase: costmodel.Reserved})}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := answers(t, c.steps...); got != c.want {
				t.Errorf("kept %s, want %s", got, c.want)
			}
		})
	}
}

func TestAPriceThatIsDoubtedKeepsItsAge(t *testing.T) {
	good := pricelist.State{Source: "a", Standing: pricelist.Good, Read: noon, Asked: noon}
	s := settle(nil, pricelist.Answer{State: good, Offers: []costmodel.Offer{spot(24)}}, everything, time.Hour, noon)
	for hour := range 3 {
		later := noon.Add(time.Duration(hour+1) * time.Hour)
		good.Read = later
		s = settle(s, pricelist.Answer{State: good, Offers: []costmodel.Offer{spot(2400)}}, everything, time.Hour, later)
		o := s.GetOffers()[0]
		if !state.OfferOf(s, o).AsOf.Equal(noon) || o.GetDoubt().GetMicrosPerHour() != 2_400_000_000 || o.GetDoubt().GetSinceUnixMs() != noon.Add(time.Hour).UnixMilli() {
			t.Errorf("after %d hours: %v", hour+1, o)
		}
	}
}

func TestWhatNobodyNeedsAnyMoreIsNotKept(t *testing.T) {
	good := pricelist.State{Source: "a", Standing: pricelist.Good, Read: noon, Asked: noon}
	s := settle(nil, pricelist.Answer{State: good, Offers: []costmodel.Offer{spot(24)}}, everything, time.Hour, noon)
	bad := pricelist.State{Source: "a", Standing: pricelist.Failing, Asked: noon.Add(time.Hour), Error: "throttled"}
	next := settle(s, pricelist.Answer{State: bad}, everything[2:], time.Hour, noon.Add(time.Hour))
	if len(next.GetOffers()) != 0 || next.GetReadUnixMs() != noon.UnixMilli() || next.GetNeeds() == s.GetNeeds() || next.GetError() != "throttled" {
		t.Errorf("kept %v", next)
	}
}

func TestTooManyPricesAreBoundedAndTold(t *testing.T) {
	var all []costmodel.Offer
	for i := range state.MaxSourceOffers + 7 {
		o := spot(24)
		o.Zone = fmt.Sprintf("z%04d", i)
		all = append(all, o)
	}
	s := settle(nil, pricelist.Answer{State: pricelist.State{Source: "a", Standing: pricelist.Good, Read: noon}, Offers: all}, everything, time.Hour, noon)
	if len(s.GetOffers()) != state.MaxSourceOffers || s.GetError() != "1007 prices are needed, 1000 are kept" {
		t.Errorf("%d kept, error %q", len(s.GetOffers()), s.GetError())
	}
}

func TestTextsAreKeptWithinBoundsAndReadable(t *testing.T) {
	o := spot(24)
	o.Source = strings.Repeat("é", maxText)
	k, ok := kept(o)
	if !ok || len(k.GetSource()) > maxText || strings.Contains(k.GetSource(), "\uFFFD") {
		t.Errorf("kept %v", k)
	}
	for _, bad := range []string{strings.Repeat("x", maxText+1), "a\xff"} {
		o = spot(24)
		o.Instance = bad
		if _, ok := kept(o); ok {
			t.Errorf("an instance called %.10q is kept", bad)
		}
	}
}

func TestNeedsAreThoseOfClusters(t *testing.T) {
	n := found(t, "{class: H100, count: 8, instance: p5.48xlarge, purchase: spot, availabilityZone: us-east-1a}, {class: a100, count: 2, purchase: owned}")
	n.cluster("us-2", "us-east-1", "{class: h100, count: 16, instance: p5.48xlarge, purchase: spot, availabilityZone: us-east-1a}")
	n.cluster("eu-1", "eu-west-1", "{class: l4, count: 1}")
	got := Needs(n.View())
	want := []Need{
		{"eu-west-1", "l4", "", "", costmodel.OnDemand},
		{"us-east-1", "a100", "", "", costmodel.Owned},
		{"us-east-1", "h100", "p5.48xlarge", "us-east-1a", costmodel.Spot},
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got %+v", got)
	}
	if !got[0].Fits("g6.xlarge", "L4") || got[2].Fits("p5.4xlarge", "h100") || got[2].Fits("p5.48xlarge", "h200") {
		t.Error("instance types do not fit as they should")
	}
	for name, c := range map[string]struct {
		zone, instance, class string
		takes                 bool
	}{
		"the very one":     {"us-east-1a", "p5.48xlarge", "H100", true},
		"for any":          {"", "", "h100", true},
		"another zone":     {"us-east-1b", "p5.48xlarge", "h100", false},
		"another instance": {"us-east-1a", "p5.4xlarge", "h100", false},
		"another class":    {"us-east-1a", "p5.48xlarge", "h200", false},
	} {
		o := costmodel.Offer{Class: c.class, Region: "us-east-1", Instance: c.instance, Zone: c.zone, Purchase: costmodel.Spot}
		if got[2].Takes(o) != c.takes {
			t.Errorf("%s: takes it: %v", name, !c.takes)
		}
	}
	if fingerprint(got) == fingerprint(got[1:]) || fingerprint(nil) == 0 {
		t.Error("needs are not told apart")
	}
}

// Whatever a source says: nothing that is not needed is kept, the order is one, what is kept settles to
// itself, and no price is other than one that was told.
func TestWhatIsKeptWasTold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s *statepb.PriceSource
		told := map[int64]bool{}
		when := noon
		for range rapid.IntRange(1, 8).Draw(t, "answers") {
			when = when.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "hours")) * time.Hour)
			var offers []costmodel.Offer
			for range rapid.IntRange(0, 4).Draw(t, "offers") {
				o := spot(rapid.SampledFrom([]float64{0, 1, 5, 24, 300}).Draw(t, "usd"))
				o.Zone = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone")
				o.Region = rapid.SampledFrom([]string{"us-east-1", "eu"}).Draw(t, "region")
				told[int64(o.PerHour)] = true
				offers = append(offers, o)
			}
			a := pricelist.Answer{State: pricelist.State{Source: "a", Standing: rapid.SampledFrom([]pricelist.Standing{pricelist.Good, pricelist.Failing}).Draw(t, "standing"), Read: when, Asked: when}, Offers: offers}
			s = settle(s, a, everything, time.Hour, when)
			for i, o := range s.GetOffers() {
				if o.GetRegion() != "us-east-1" || !told[o.GetMicrosPerHour()] || i > 0 && goodsOf(s.GetOffers()[i-1]).compare(goodsOf(o)) >= 0 {
					t.Fatalf("kept %v", s.GetOffers())
				}
			}
			if again := settle(s, a, everything, time.Hour, when); !sameOffers(s, again) {
				t.Fatalf("kept %v, and of the same answer %v", s.GetOffers(), again.GetOffers())
			}
		}
	})
}
