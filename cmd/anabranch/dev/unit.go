package dev

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"anabranch/cmd/anabranch/dev/child"
	"anabranch/cmd/anabranch/dev/seed"
)

// Kind is what a unit is.
type Kind string

// The kinds of unit, in the order in which they start.
const (
	KindRedis   Kind = "redis"
	KindNode    Kind = "controlplane"
	KindCluster Kind = "cluster"
	KindRouter  Kind = "router"
)

// Unit is one process of the demonstration, running or not.
type Unit struct {
	Kind Kind
	// Name is unique within the kind: a node's id, a cluster's name, a router's region, "redis".
	Name string
	// Region of clusters and routers.
	Region string
	// Address is where people reach it, Ready where it is asked whether it is up; both URLs, but
	// of Redis addresses.
	Address, Ready string
	// Orders is the socket where a router takes emergency orders. Empty: it takes none.
	Orders string
	// Ports that must be free before it starts.
	Ports   []string
	Command child.Command
}

// ID names the unit among all, and its log.
func (u Unit) ID() string {
	if u.Kind == KindRedis {
		return "redis"
	}
	return string(u.Kind) + "-" + u.Name
}

// binaries are the programs that units run.
type binaries struct{ anabranch, controlPlane, router, redis string }

// units lists every process, in the order in which they start.
func units(f Folder, r *Record, l seed.Layout, b binaries) []Unit {
	all := []Unit{redisUnit(f, r, b)}
	for i := range r.ControlPlane {
		all = append(all, nodeUnit(f, r, i, b))
	}
	for i, c := range l.Clusters() {
		all = append(all, clusterUnit(c, r.Clusters[i], b))
	}
	for i, region := range l.Regions {
		all = append(all, routerUnit(f, r, i, region, b))
	}
	env := environment(os.Environ())
	for i := range all {
		c := &all[i].Command
		c.Name, c.Log, c.Env = all[i].ID(), f.Log(all[i].ID()), env
	}
	return all
}

// environment drops our own variables, so that what a user has set for the command line does not
// reconfigure the children.
func environment(own []string) []string {
	kept := make([]string, 0, len(own))
	for _, v := range own {
		if !strings.HasPrefix(v, "ANABRANCH_") {
			kept = append(kept, v)
		}
	}
	return kept
}

func redisUnit(f Folder, r *Record, b binaries) Unit {
	return Unit{
		Kind: KindRedis, Name: "redis", Address: r.Redis.Addr, Ready: r.Redis.Addr, Ports: []string{r.Redis.Addr},
		Command: child.Command{Path: b.redis, Args: []string{
			"--port", portOf(r.Redis.Addr), "--bind", host, "--save", "", "--appendonly", "no",
			"--maxmemory-policy", "noeviction", "--daemonize", "no", "--dir", f.data(""),
		}},
	}
}

func nodeUnit(f Folder, r *Record, i int, b binaries) Unit {
	n := r.ControlPlane[i]
	peers := make([]string, 0, len(r.ControlPlane))
	for _, p := range r.ControlPlane {
		peers = append(peers, p.ID+"="+p.Raft)
	}
	http := strings.TrimPrefix(n.HTTP, "http://")
	return Unit{
		Kind: KindNode, Name: n.ID, Address: n.HTTP, Ready: n.HTTP + "/readyz", Ports: []string{http, n.GRPC, n.Raft},
		Command: child.Command{Path: b.controlPlane, Args: append([]string{
			"--id", n.ID, "--data-dir", f.data(n.ID), "--http", http, "--grpc", n.GRPC, "--raft", n.Raft,
			"--raft-advertise", n.Raft, "--peers", strings.Join(peers, ","), "--tokens-file", f.tokens(),
		}, tlsArgs(f, n.ID)...)},
	}
}

func clusterUnit(c seed.Cluster, r ClusterRecord, b binaries) Unit {
	admin := strings.TrimPrefix(r.Admin, "http://")
	u := Unit{Kind: KindCluster, Name: c.Name, Region: c.Region, Address: r.Admin, Ready: r.Admin + "/status?recent=0", Ports: []string{admin}}
	args := []string{"modelserver", "--cluster", c.Name, "--admin", admin, "--model", c.Model}
	if a := c.Adapters(); len(a) > 0 {
		args = append(args, "--adapters", strings.Join(a, ","))
	}
	for _, e := range c.Endpoints {
		at := hostPort(e.URL)
		u.Ports = append(u.Ports, at)
		endpoint := fmt.Sprintf("id=%s,listen=%s,class=%s", e.ID, at, e.Class)
		if e.KVEventsURL != "" {
			events := hostPort(e.KVEventsURL)
			u.Ports = append(u.Ports, events)
			endpoint += ",events=" + events
		}
		args = append(args, "--endpoint", endpoint)
	}
	if c.GatewayURL != "" {
		u.Ports = append(u.Ports, hostPort(c.GatewayURL), hostPort(c.MetricsURL))
		args = append(args, "--gateway-listen", hostPort(c.GatewayURL), "--gateway-metrics", hostPort(c.MetricsURL))
	}
	u.Command = child.Command{Path: b.anabranch, Args: args}
	return u
}

func routerUnit(f Folder, r *Record, i int, region seed.Region, b binaries) Unit {
	router, id := r.Routers[i], routerID(region.Name)
	grpc := make([]string, 0, len(r.ControlPlane))
	for n := range r.ControlPlane { // each router begins with another node
		grpc = append(grpc, r.ControlPlane[(i+n)%len(r.ControlPlane)].GRPC)
	}
	listen, admin, peer := hostPort(router.HTTP), hostPort(router.Admin), hostPort(region.PeerURL)
	return Unit{
		Kind: KindRouter, Name: region.Name, Region: region.Name, Address: router.HTTP, Ready: router.Admin + "/readyz",
		Ports: []string{listen, admin, peer}, Orders: f.Orders(region.Name),
		Command: child.Command{Path: b.router, Args: append([]string{
			"--router-id", id, "--region", region.Name, "--listen", listen, "--peer-listen", peer,
			"--admin-listen", admin, "--controlplane", strings.Join(grpc, ","), "--redis", r.Redis.Addr,
			"--data-dir", f.data(id),
		}, tlsArgs(f, id)...)},
	}
}

func tlsArgs(f Folder, name string) []string {
	return []string{"--tls-cert", f.pki(name + ".crt"), "--tls-key", f.pki(name + ".key"), "--tls-ca", f.pki("ca.crt")}
}

// hostPort is the address in a URL of the layout.
func hostPort(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Host
}

func portOf(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// chooseAdmins gives every cluster without one an admin address whose port free says is free.
func (r *Record) chooseAdmins(free func(addr string) bool) error {
	port, used := adminPorts, map[string]bool{}
	for i := range r.Clusters {
		c := &r.Clusters[i]
		if c.Admin != "" && !used[hostPort(c.Admin)] && free(hostPort(c.Admin)) {
			used[hostPort(c.Admin)] = true
			continue
		}
		for ; ; port++ {
			if port > adminPorts+1000 {
				return fmt.Errorf("no free port for the admin page of cluster %s above %d", c.ID, adminPorts)
			}
			if addr := local(port); !used[addr] && free(addr) {
				c.Admin, used[addr] = "http://"+addr, true
				break
			}
		}
	}
	return nil
}

// siblings finds the programs: ours beside this binary, Redis on the path.
func siblings(self string, look func(string) (string, error)) (binaries, error) {
	beside := func(name string) string { return filepath.Join(filepath.Dir(self), name) }
	b := binaries{anabranch: self, controlPlane: beside("anabranch-controlplane"), router: beside("anabranch-router")}
	for _, p := range []string{b.controlPlane, b.router} {
		if info, err := os.Stat(p); err != nil || info.Mode()&0o111 == 0 {
			return binaries{}, fmt.Errorf("%s is missing; `make build` puts it beside anabranch", p)
		}
	}
	redis, err := look("redis-server")
	if err != nil {
		return binaries{}, fmt.Errorf("redis-server is not installed; install it with `make deps`, or `sudo apt-get install redis-server`: %w", err)
	}
	b.redis = redis
	return b, nil
}
