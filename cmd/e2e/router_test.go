package e2e

import (
	"path/filepath"
	"time"

	"anabranch/api/fleet"
	"anabranch/cmd/anabranch-router/instance"
)

// Router is the router of one region, running or not.
type Router struct {
	s       *System
	options instance.Options
	at      instance.Addresses
	part    *part
}

func (r *Router) url() string   { return "http://" + r.at.Front }
func (r *Router) admin() string { return "http://" + r.at.Admin }

// startRouters starts one in each region and tells the layout where peers reach it.
func (s *System) startRouters() {
	s.t.Helper()
	var nodes []string
	for _, n := range s.nodes {
		nodes = append(nodes, n.at.GRPC)
	}
	for i := range s.layout.Regions {
		region := &s.layout.Regions[i]
		id := region.Name + "-1"
		pair, err := s.authority.Router(region.Name, id, time.Now())
		r := &Router{s: s, options: instance.Options{
			Router: fleet.RouterID(id), Region: fleet.RegionID(region.Name),
			Listen: "127.0.0.1:0", PeerListen: "127.0.0.1:0", AdminListen: "127.0.0.1:0",
			ControlPlane: nodes, Redis: instance.Redis{Addresses: s.redis.Addr}, DataDir: filepath.Join(s.dir, id),
			TLS: s.certificate(id, pair, err), DrainWithin: 5 * time.Second,
			Logger: s.log.With("process", id), Version: "e2e",
		}}
		s.routers[region.Name] = r
		r.start()
		region.PeerURL = "https://" + r.at.Peer
	}
}

// start runs the router for the first time or again, then at the addresses that it had.
func (r *Router) start() {
	r.s.t.Helper()
	if r.at != (instance.Addresses{}) {
		r.options.Listen, r.options.PeerListen, r.options.AdminListen = r.at.Front, r.at.Peer, r.at.Admin
	}
	running, err := instance.New(r.options)
	if err != nil {
		r.s.t.Fatal(err)
	}
	if r.at == (instance.Addresses{}) { // traffic reads it meanwhile
		r.at = running.Addresses()
	}
	r.part = begin(running.Run)
	r.s.t.Cleanup(r.stop)
}

// stop takes the router away.
func (r *Router) stop() {
	if err := r.part.end(); err != nil {
		r.s.t.Errorf("%s: %v", r.options.Router, err)
	}
}
