package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

// found is what sources of prices have said, at the second second of 1970.
func found(p *statepb.PutPrices) *statepb.Command {
	return &statepb.Command{Format: FormatOf(&statepb.Command{Op: &statepb.Command_PutPrices{}}), AtUnixMs: 2000, Actor: &statepb.Actor{Name: "system/prices"}, Op: &statepb.Command_PutPrices{PutPrices: p}}
}

func seller(name string, read int64, offers ...*statepb.PriceOffer) *statepb.PriceSource {
	return &statepb.PriceSource{Name: name, Standing: "good", ReadUnixMs: read, AskedUnixMs: read, EveryMs: 60_000, Offers: offers}
}

func live(class string, micros int64) *statepb.PriceOffer {
	return &statepb.PriceOffer{Class: class, Gpus: 1, Region: "us", Purchase: "on-demand", MicrosPerHour: micros, Origin: uint32(costmodel.Live), Source: "the market"}
}

// offered is "class micros" of each offer that plans go by.
func offered(v *View) string {
	var all []string
	for _, o := range v.Offers() {
		all = append(all, fmt.Sprintf("%s %d", o.Class, o.PerHour))
	}
	return strings.Join(all, ", ")
}

func TestPricesThatSourcesFindAreKept(t *testing.T) {
	h := fourth(t)
	if h.Offers() != nil || h.PricesRevision() != 0 || h.PriceSource("a") != nil {
		t.Error("nobody was asked, and there are prices")
	}
	entries := h.AuditKept()
	h.want(h.do(found(&statepb.PutPrices{Sources: []*statepb.PriceSource{seller("a", 1000, live("h100", 7), live("l4", 1)), seller("c", 1500, live("b200", 9))}})), "", "")
	first := h.PricesRevision()
	if offered(h.View) != "h100 7, l4 1, b200 9" || first != h.Index() || h.PriceSource("c").GetRevision() != first {
		t.Errorf("%s at %d of %d", offered(h.View), first, h.Index())
	}
	// The same, read later, is no change; another price is.
	h.do(found(&statepb.PutPrices{Sources: []*statepb.PriceSource{seller("a", 9000, live("h100", 7), live("l4", 1))}}))
	same := seller("c", 9500)
	same.SameOffers = true
	h.do(found(&statepb.PutPrices{Sources: []*statepb.PriceSource{same}}))
	if h.PricesRevision() != first || !h.Offers()[0].AsOf.Equal(time.UnixMilli(9000)) || !h.Offers()[2].AsOf.Equal(time.UnixMilli(9500)) || h.PriceSource("c").GetSameOffers() {
		t.Errorf("read anew: revision %d, want %d; %+v", h.PricesRevision(), first, h.Offers())
	}
	doubted := live("h100", 7)
	doubted.Doubt, doubted.AsOfUnixMs = &statepb.Doubt{SinceUnixMs: 5, MicrosPerHour: 700}, 9000
	h.do(found(&statepb.PutPrices{Sources: []*statepb.PriceSource{seller("a", 9900, doubted, live("l4", 1))}}))
	if h.PricesRevision() != first || !h.Offers()[0].AsOf.Equal(time.UnixMilli(9000)) {
		t.Errorf("a doubt is a change of price: revision %d, %+v", h.PricesRevision(), h.Offers()[0])
	}
	if h.AuditKept() != entries {
		t.Error("what changes no cluster's cost is in the audit trail")
	}
	h.do(found(&statepb.PutPrices{
		Sources: []*statepb.PriceSource{seller("b", 9900, live("h100", 8))}, Gone: []string{"c", "nobody"},
		Repricings: []*statepb.Repricing{{Source: "b", Detail: "us-1 costs more"}},
	}))
	if offered(h.View) != "h100 7, l4 1, h100 8" || h.PricesRevision() != h.Index() || h.PriceSource("a").GetRevision() != first {
		t.Errorf("%s at %d of %d", offered(h.View), h.PricesRevision(), h.Index())
	}
	if e := h.Audit(h.Index()-1, 0); len(e) != 1 || e[0].GetAction() != ActionReprice || e[0].GetKind() != KindPriceSource || e[0].GetName() != "b" || e[0].GetReason() != "us-1 costs more" {
		t.Errorf("the audit trail says %v", e)
	}
	changed := h.Index()
	back := again(t, h.View)
	if !Equal(h.View, back) || offered(back) != offered(h.View) || back.PricesRevision() != changed || !slices.Equal(back.Offers(), h.Offers()) {
		t.Error("a snapshot does not restore them")
	}
	h.do(found(&statepb.PutPrices{Gone: []string{"a", "b"}}))
	if len(h.Offers()) != 0 || h.PricesRevision() != h.Index() {
		t.Errorf("of forgotten sources: %s at %d", offered(h.View), h.PricesRevision())
	}
	if back = again(t, h.View); !Equal(h.View, back) || back.PricesRevision() != h.Index() {
		t.Error("a snapshot does not restore that there are none any more")
	}
}

func TestAnOfferIsOneOfTheCostModel(t *testing.T) {
	o := &statepb.PriceOffer{
		Class: "h100", Instance: "p5.48xlarge", Gpus: 8, Region: "eu", Zone: "eu-a", Purchase: "spot", MicrosPerHour: 5,
		FromUnixMs: 1000, UntilUnixMs: 2000, Origin: uint32(costmodel.File), Source: "contract", Estimate: true,
	}
	want := costmodel.Offer{
		Class: "h100", Instance: "p5.48xlarge", GPUs: 8, Region: "eu", Zone: "eu-a", Purchase: costmodel.Spot, PerHour: 5,
		From: time.UnixMilli(1000).UTC(), Until: time.UnixMilli(2000).UTC(), Origin: costmodel.File, Source: "contract", Estimate: true,
	}
	if got := OfferOf(&statepb.PriceSource{ReadUnixMs: 7000}, o); got != want { // how old a file's figures are, only the file can say
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestPricesThatCannotBeAreRefused(t *testing.T) {
	long := strings.Repeat("x", maxPriceText+1)
	for name, c := range map[string]struct {
		put         *statepb.PutPrices
		code, field string
	}{
		"no name":        {&statepb.PutPrices{Sources: []*statepb.PriceSource{seller("", 1)}}, CodeInvalid, "sources.name"},
		"a long name":    {&statepb.PutPrices{Sources: []*statepb.PriceSource{seller(long, 1)}}, CodeInvalid, "sources.name"},
		"out of order":   {&statepb.PutPrices{Sources: []*statepb.PriceSource{seller("b", 1), seller("a", 1)}}, CodeInvalid, "sources.name"},
		"twice":          {&statepb.PutPrices{Sources: []*statepb.PriceSource{seller("a", 1), seller("a", 1)}}, CodeInvalid, "sources.name"},
		"below nothing":  {&statepb.PutPrices{Sources: []*statepb.PriceSource{seller("a", 1, live("h100", -1))}}, CodeInvalid, "sources.offers"},
		"of no class":    {&statepb.PutPrices{Sources: []*statepb.PriceSource{seller("a", 1, live("", 1))}}, CodeInvalid, "sources.offers"},
		"long":           {&statepb.PutPrices{Sources: []*statepb.PriceSource{seller("a", 1, live(long, 1))}}, CodeInvalid, "sources.offers"},
		"an operator's":  {&statepb.PutPrices{Sources: []*statepb.PriceSource{seller("a", 1, &statepb.PriceOffer{Class: "h", Region: "us", Origin: uint32(costmodel.Override)})}}, CodeInvalid, "sources.offers"},
		"same and other": {&statepb.PutPrices{Sources: []*statepb.PriceSource{{Name: "a", SameOffers: true, Offers: []*statepb.PriceOffer{live("h", 1)}}}}, CodeInvalid, "sources.offers"},
		"many of one":    {&statepb.PutPrices{Sources: []*statepb.PriceSource{seller("a", 1, many(MaxSourceOffers+1)...)}}, CodeInvalid, "sources.offers"},
		"many":           {&statepb.PutPrices{Sources: sellers(6, MaxSourceOffers)}, CodeTooMany, "sources"},
		"many sources":   {&statepb.PutPrices{Sources: sellers(MaxPriceSources+1, 0)}, CodeTooMany, "sources"},
	} {
		t.Run(name, func(t *testing.T) {
			h := fourth(t)
			h.do(found(&statepb.PutPrices{Sources: []*statepb.PriceSource{seller("z", 1, live("l4", 3))}}))
			before, revision := offered(h.View), h.PricesRevision()
			h.want(h.do(found(c.put)), c.code, c.field)
			if offered(h.View) != before || h.PricesRevision() != revision || len(h.PriceSources()) != 1 {
				t.Errorf("left %s", offered(h.View))
			}
		})
	}
	h := fourth(t)
	h.want(h.do(found(&statepb.PutPrices{Sources: sellers(5, MaxSourceOffers)})), "", "")
}

func many(n int) []*statepb.PriceOffer {
	out := make([]*statepb.PriceOffer, n)
	for i := range out {
		out[i] = live("h100", int64(i))
	}
	return out
}

func sellers(sources, offers int) []*statepb.PriceSource {
	out := make([]*statepb.PriceSource, sources)
	for i := range out {
		out[i] = seller(fmt.Sprintf("s%03d", i), 1, many(offers)...)
	}
	return out
}

// Whatever comes, in whatever order: what is kept of each source is what was told of it last, the revision is
// that of the last change of a price, and a snapshot on the way makes no difference.
func TestPricesAgreeWithAPlainMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		view, _, err := Apply(Empty(), 1, initCommand())
		if err != nil {
			rt.Fatal(err)
		}
		kept, revision := map[string]*statepb.PriceSource{}, uint64(0)
		for range rapid.IntRange(1, 20).Draw(rt, "commands") {
			p, index := &statepb.PutPrices{}, view.Index()+1
			for _, name := range []string{"a", "b", "c"} {
				switch rapid.IntRange(0, 3).Draw(rt, name) {
				case 0:
					p.Gone = append(p.Gone, name)
					if len(kept[name].GetOffers()) > 0 {
						revision = index
					}
					delete(kept, name)
				case 1:
					s := seller(name, int64(index), live("h100", rapid.Int64Range(0, 2).Draw(rt, "price")))
					p.Sources = append(p.Sources, s)
					if before := kept[name].GetOffers(); len(before) == 0 || before[0].GetMicrosPerHour() != s.GetOffers()[0].GetMicrosPerHour() {
						revision = index
					}
					kept[name] = s
				}
			}
			if view, _, err = Apply(view, index, found(p)); err != nil {
				rt.Fatal(err)
			}
			if rapid.Bool().Draw(rt, "restart") {
				view = again(t, view)
			}
		}
		if view.PricesRevision() != revision || len(view.PriceSources()) != len(kept) || len(view.Offers()) != len(kept) {
			rt.Fatalf("revision %d, want %d; %v, want %v", view.PricesRevision(), revision, view.PriceSources(), kept)
		}
		for _, s := range view.PriceSources() {
			want := proto.CloneOf(kept[s.GetName()])
			if want.Revision = s.GetRevision(); !proto.Equal(s, want) {
				rt.Fatalf("kept %v, want %v", s, want)
			}
		}
	})
}
