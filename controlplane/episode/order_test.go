package episode

import (
	"testing"
	"time"

	"anabranch/api/order"
	"anabranch/controlplane/state/statepb"
)

func TestOrdersToEvacuateAreEpisodes(t *testing.T) {
	given := func(kind order.Kind, target string, ended string) *statepb.PutOrder {
		o := order.Order{ID: "7", Kind: kind, Target: target, At: clock(t, "10:00:00"), Expires: clock(t, "11:00:00"), Actor: "ann", Reason: "smoke"}
		p := &statepb.PutOrder{Order: o.Proto()}
		if ended != "" {
			p.EndedUnixMs = clock(t, ended).UnixMilli()
		}
		return p
	}
	for name, tt := range map[string]struct {
		o    *statepb.PutOrder
		now  string
		want string
	}{
		"of a region":      {given(order.Evacuate, "region/eu", ""), "10:30:00", "order eu7 [] 10:00:00–now"},
		"of a cluster":     {given(order.Evacuate, "cluster/eu-a", ""), "10:30:00", "order eu7 [eu-a] 10:00:00–now"},
		"over by itself":   {given(order.Evacuate, "region/eu", ""), "12:00:00", "order eu7 [] 10:00:00–11:00:00"},
		"taken back":       {given(order.Evacuate, "region/eu", "10:20:00"), "10:30:00", "order eu7 [] 10:00:00–10:20:00"},
		"that moves none":  {given(order.Freeze, "", ""), "10:30:00", ""},
		"that brings back": {given(order.Restore, "region/eu", ""), "10:30:00", ""},
	} {
		list := Find(Input{Orders: []*statepb.PutOrder{tt.o}, Region: regionOf, Now: clock(t, tt.now)}, clock(t, "09:00:00"), clock(t, "13:00:00"))
		if got := told(list); got != tt.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestWhatIsComparedForAnEpisode(t *testing.T) {
	for name, tt := range map[string]struct {
		since, from, until, begun, closed string // until empty: it goes on
		day                               int    // of the account's clock, later
		want                              string // before, from, until
		hours                             bool
	}{
		"as long before as it took":      {"10:00:30", "10:00:30", "10:12:10", "08:00:00", "10:30:00", 0, "09:47 10:00 10:13", false},
		"five minutes at least":          {"10:00:30", "10:00:30", "10:01:10", "08:00:00", "10:30:00", 0, "09:55 10:00 10:02", false},
		"half an hour at most":           {"10:00:30", "10:00:30", "", "08:00:00", "11:30:00", 0, "09:30 10:00 11:30", false},
		"the baseline of a drill":        {"09:50:00", "10:00:30", "10:02:10", "08:00:00", "10:30:00", 0, "09:50 10:00 10:03", false},
		"up to what is closed":           {"10:00:30", "10:00:30", "10:12:10", "08:00:00", "10:05:00", 0, "09:55 10:00 10:05", false},
		"not before the account begins":  {"10:00:30", "10:00:30", "10:12:10", "09:58:00", "10:30:00", 0, "09:58 10:00 10:13", false},
		"nothing is closed of it":        {"10:00:30", "10:00:30", "", "08:00:00", "10:00:00", 0, "the minutes of it are not closed yet", false},
		"the account began with it":      {"10:00:30", "10:00:30", "", "10:00:00", "10:30:00", 0, "the account knows nothing of the time before it", false},
		"the account has not begun":      {"10:00:30", "10:00:30", "", "", "", 0, "the account has not begun", false},
		"by the hour when it is old":     {"10:20:30", "10:20:30", "11:05:00", "01:00:00", "14:00:00", 0, "09:00 10:00 12:00", true},
		"not when it is older than that": {"10:20:30", "10:20:30", "11:05:00", "01:00:00", "14:00:00", 9, "the account keeps minutes for two hours and hours for eight days", false},
	} {
		t.Run(name, func(t *testing.T) {
			e := Episode{Since: clock(t, tt.since), From: clock(t, tt.from)}
			var begun, closed time.Time
			if tt.until != "" {
				e.Until = clock(t, tt.until)
			}
			if tt.begun != "" {
				begun, closed = clock(t, tt.begun), clock(t, tt.closed).AddDate(0, 0, tt.day)
			}
			w, why := e.Window(begun, closed)
			got := why
			if why == "" {
				got = w.BeforeFrom.Format("15:04 ") + w.From.Format("15:04 ") + w.Until.Format("15:04")
			}
			if got != tt.want || w.Hours != tt.hours {
				t.Errorf("got %s, %v", got, w.Hours)
			}
		})
	}
}
