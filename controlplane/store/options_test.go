package store

import (
	"net"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// mute is a transport that cannot pre-vote.
type mute struct{ raft.Transport }

func TestOptionsNameTheFieldAndTheFix(t *testing.T) {
	good := Options{Dir: "d", ID: "n1", RaftListen: ":0", Peers: []Peer{{"n1", "a:1"}, {"n2", "a:2"}}}
	for _, c := range []struct {
		name   string
		change func(*Options)
		says   string
	}{
		{"good", func(*Options) {}, ""},
		{"no peers", func(o *Options) { o.Peers = nil }, ""},
		{"no folder", func(o *Options) { o.Dir = "" }, "option Dir"},
		{"no port", func(o *Options) { o.RaftListen = "" }, "option RaftListen"},
		{"bad id", func(o *Options) { o.ID = "N 1" }, "option ID"},
		{"negative scale", func(o *Options) { o.TimeScale = -1 }, "option TimeScale"},
		{"unknown self", func(o *Options) { o.ID = "n3" }, "does not list this node"},
		{"peers without own id", func(o *Options) { o.ID = "" }, "does not list this node"},
		{"twice", func(o *Options) { o.Peers = append(o.Peers, Peer{"n2", "a:3"}) }, "n2 is listed twice"},
		{"same address", func(o *Options) { o.Peers = append(o.Peers, Peer{"n3", "a:2"}) }, "a:2 is listed twice"},
		{"peer without address", func(o *Options) { o.Peers = append(o.Peers, Peer{ID: "n3"}) }, "both id and address"},
		{"transport without pre-vote", func(o *Options) { o.Transport = mute{} }, "raft.WithPreVote"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := good
			o.Peers = append([]Peer(nil), good.Peers...)
			c.change(&o)
			err := o.Validate()
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
}

func TestRaftAcceptsTheTimingAtEveryScale(t *testing.T) {
	for _, scale := range []float64{0.02, 0.5, 1, 10} {
		c := Options{TimeScale: scale}.withDefaults().raftConfig("n1")
		if err := raft.ValidateConfig(c); err != nil {
			t.Errorf("scale %v: %v", scale, err)
		}
	}
}

func TestASmallLogIsNotCutInFrontOfProposalsInFlight(t *testing.T) {
	if o := (Options{}).withDefaults(); o.TrailingLogs < 10*MaxInFlight {
		t.Errorf("%d entries are kept, %d may be in flight", o.TrailingLogs, MaxInFlight)
	}
}

func TestTheAddressThatOthersUse(t *testing.T) {
	here, everywhere := listen(t), listenOn(t, ":0")
	defer here.Close()
	defer everywhere.Close()
	self := []Peer{{"n1", "a:1"}}
	for _, c := range []struct {
		name string
		o    Options
		l    net.Listener
		want string
	}{
		{"as told", Options{ID: "n1", RaftAdvertise: "b:2", Peers: self}, here, "b:2"},
		{"from the list", Options{ID: "n1", Peers: self}, everywhere, "a:1"},
		{"where it listens", Options{ID: "n1"}, here, here.Addr().String()},
		{"nowhere", Options{ID: "n1"}, everywhere, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.o.advertise(c.l)
			if got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("%q, %v, want %q", got, err, c.want)
			}
		})
	}
}
