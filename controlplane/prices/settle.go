package prices

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
	"anabranch/costmodel/pricelist"
)

const (
	// doubtful is how many times dearer or cheaper a price may become before it is doubted.
	doubtful = 10
	// doubtFor is how long a source must say so until it is believed all the same.
	doubtFor = 24 * time.Hour
	// maxText bounds texts that are kept, in bytes.
	maxText = 256
)

// settle makes of a source's answer what is to be kept of it, after what was known (nil: nothing).
//
//   - Of the offers those that a cluster needs are kept, at most [state.MaxSourceOffers].
//   - A source that has no good answer keeps what it had.
//   - A price that has become more than ten times what it was, or a tenth, or nothing, and one that is not
//     told any more, is doubted: what was known stays for a day. Then the source is believed.
//   - What a price was before is kept beside it.
//   - A capacity block that has begun is not offered any more. Its price holds until it ends.
func settle(before *statepb.PriceSource, a pricelist.Answer, needs []Need, every time.Duration, now time.Time) *statepb.PriceSource {
	s := &statepb.PriceSource{
		Name: a.Source, Standing: string(a.Standing), Error: text(a.Error),
		ReadUnixMs: before.GetReadUnixMs(), AskedUnixMs: unixMs(a.Asked), EveryMs: every.Milliseconds(), Needs: fingerprint(needs),
	}
	old := slices.DeleteFunc(slices.Clone(before.GetOffers()), func(o *statepb.PriceOffer) bool {
		return !needed(needs, state.OfferOf(before, o))
	})
	if a.Standing != pricelist.Good {
		s.Offers = old
		return s
	}
	s.ReadUnixMs = unixMs(a.Read)
	known := map[goods]*statepb.PriceOffer{}
	for _, o := range old {
		known[goodsOf(o)] = o
	}
	told := map[goods]bool{}
	for _, offer := range a.Offers {
		o, ok := kept(offer)
		if !ok || !needed(needs, offer) || told[goodsOf(o)] || ended(o, now) {
			continue
		}
		told[goodsOf(o)] = true
		s.Offers = append(s.Offers, believe(known[goodsOf(o)], o, before.GetReadUnixMs(), now))
	}
	for _, o := range old {
		if o = remember(o, told[goodsOf(o)], before.GetReadUnixMs(), now); o != nil {
			s.Offers = append(s.Offers, o)
		}
	}
	for _, o := range s.Offers {
		succeed(o, known[goodsOf(o)], now)
	}
	slices.SortFunc(s.Offers, func(a, b *statepb.PriceOffer) int { return goodsOf(a).compare(goodsOf(b)) })
	if n := len(s.Offers); n > state.MaxSourceOffers {
		s.Offers, s.Error = s.Offers[:state.MaxSourceOffers], fmt.Sprintf("%d prices are needed, %d are kept", n, state.MaxSourceOffers)
	}
	return s
}

// believe says what is kept of a price that a source has told after another one; nil: there was none. That
// one was read at a time.
func believe(before, now *statepb.PriceOffer, readUnixMs int64, at time.Time) *statepb.PriceOffer {
	if before == nil || !jumps(before.GetMicrosPerHour(), now.GetMicrosPerHour()) {
		return now
	}
	since := at.UnixMilli()
	if d := before.GetDoubt(); d != nil && !d.GetGone() && !jumps(d.GetMicrosPerHour(), now.GetMicrosPerHour()) {
		since = d.GetSinceUnixMs()
	}
	if at.UnixMilli()-since >= doubtFor.Milliseconds() {
		return now
	}
	return doubt(before, &statepb.Doubt{SinceUnixMs: since, MicrosPerHour: now.GetMicrosPerHour()}, readUnixMs)
}

// succeed notes what an offer cost until now, for minutes that are billed when they are over; before is what was
// known of it, nil: nothing was.
func succeed(o, before *statepb.PriceOffer, now time.Time) {
	switch {
	case before == nil || o == before:
	case o.GetMicrosPerHour() == before.GetMicrosPerHour():
		o.WasMicrosPerHour, o.WasUntilUnixMs = before.GetWasMicrosPerHour(), before.GetWasUntilUnixMs()
	default:
		o.WasMicrosPerHour, o.WasUntilUnixMs = before.GetMicrosPerHour(), now.UnixMilli()
	}
}

// doubt keeps a price, and when it was read, beside what has been said of it since.
func doubt(o *statepb.PriceOffer, d *statepb.Doubt, readUnixMs int64) *statepb.PriceOffer {
	o = proto.CloneOf(o)
	o.Doubt = d
	if costmodel.Origin(o.GetOrigin()) == costmodel.Live && o.GetAsOfUnixMs() == 0 {
		o.AsOfUnixMs = readUnixMs
	}
	return o
}

// remember says what is kept of a price that was known; nil: nothing, or it has been told anew.
func remember(o *statepb.PriceOffer, told bool, readUnixMs int64, now time.Time) *statepb.PriceOffer {
	if told || ended(o, now) {
		return nil
	}
	if costmodel.Origin(o.GetOrigin()) == costmodel.File {
		return nil // somebody took the line away
	}
	if costmodel.Purchase(o.GetPurchase()) == costmodel.CapacityBlock {
		if o.GetFromUnixMs() > now.UnixMilli() {
			return nil // sold to somebody
		}
		return o
	}
	d := o.GetDoubt()
	if !d.GetGone() {
		d = &statepb.Doubt{SinceUnixMs: now.UnixMilli(), Gone: true}
	}
	if now.UnixMilli()-d.GetSinceUnixMs() >= doubtFor.Milliseconds() {
		return nil
	}
	return doubt(o, d, readUnixMs)
}

// jumps says whether a price has moved further than prices do. One that was nothing may become anything.
func jumps(from, to int64) bool {
	return from > 0 && (to == 0 || to/doubtful > from || from/doubtful > to)
}

func ended(o *statepb.PriceOffer, now time.Time) bool {
	return o.GetUntilUnixMs() != 0 && o.GetUntilUnixMs() <= now.UnixMilli()
}

// goods is what tells the offers of one source apart: of two for the same goods the first is kept.
type goods struct {
	class, instance, region, zone, purchase string
	from, until                             int64
}

// goodsOf leaves out since when a live price is in force: it is that of the one before, too. Capacity blocks
// are for their time.
func goodsOf(o *statepb.PriceOffer) goods {
	g := goods{o.GetClass(), o.GetInstance(), o.GetRegion(), o.GetZone(), o.GetPurchase(), o.GetFromUnixMs(), o.GetUntilUnixMs()}
	if costmodel.Origin(o.GetOrigin()) == costmodel.Live && costmodel.Purchase(o.GetPurchase()) != costmodel.CapacityBlock {
		g.from, g.until = 0, 0
	}
	return g
}

func (g goods) compare(h goods) int {
	return cmp.Or(
		cmp.Compare(g.region, h.region), cmp.Compare(g.class, h.class), cmp.Compare(g.purchase, h.purchase), cmp.Compare(g.instance, h.instance),
		cmp.Compare(g.zone, h.zone), cmp.Compare(g.from, h.from), cmp.Compare(g.until, h.until),
	)
}

// kept is an offer as the state keeps it; false: its words are too long. When a live price was read is its
// source's time, so that an answer that says the same is the same.
func kept(o costmodel.Offer) (*statepb.PriceOffer, bool) {
	out := &statepb.PriceOffer{
		Class: strings.ToLower(o.Class), Instance: o.Instance, Gpus: uint32(min(max(o.GPUs, 1), 1<<20)), Region: o.Region, Zone: o.Zone,
		Purchase: string(cmp.Or(o.Purchase, costmodel.OnDemand)), MicrosPerHour: int64(max(o.PerHour, 0)),
		FromUnixMs: unixMs(o.From), UntilUnixMs: unixMs(o.Until), AsOfUnixMs: unixMs(o.AsOf),
		Origin: uint32(o.Origin), Source: text(o.Source), Estimate: o.Estimate,
	}
	if o.Origin == costmodel.Live {
		out.AsOfUnixMs = 0
	}
	for _, name := range []string{out.GetClass(), out.GetInstance(), out.GetRegion(), out.GetZone(), out.GetPurchase()} {
		if name != text(name) {
			return nil, false
		}
	}
	return out, true
}

// text is one that can be kept.
func text(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxText)], "")
}

// unixMs keeps none 0.
func unixMs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
