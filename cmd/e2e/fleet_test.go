package e2e

import (
	"context"
	"errors"
	"strings"
	"sync"

	"anabranch/api/fleet"
	"anabranch/cmd/anabranch/dev/seed"
	"anabranch/sim/gateway"
	"anabranch/sim/modelserver"
)

// Cluster is the model servers of one cluster, and the gateway in front of them if there is one.
type Cluster struct {
	spec    *seed.Cluster
	servers *modelserver.Server
	part    *part
	// at keeps addresses over a restart.
	at, events     map[fleet.EndpointID]string // events: of those that publish them
	front, metrics string
}

// startFleet starts all clusters on free ports and lays the fleet out at where they are.
func (s *System) startFleet() {
	s.t.Helper()
	s.layout = seed.New(func(int) string { return "127.0.0.1:0" })
	for i := range s.layout.Regions {
		for j := range s.layout.Regions[i].Clusters {
			spec := &s.layout.Regions[i].Clusters[j]
			c := &Cluster{spec: spec, at: map[fleet.EndpointID]string{}, events: map[fleet.EndpointID]string{}, front: "127.0.0.1:0", metrics: "127.0.0.1:0"}
			for _, e := range spec.Endpoints {
				c.at[fleet.EndpointID(e.ID)] = "127.0.0.1:0"
				if e.KVEventsURL != "" {
					c.events[fleet.EndpointID(e.ID)] = "127.0.0.1:0"
				}
			}
			s.clusters[spec.Name] = c
			s.startCluster(c)
			for k := range spec.Endpoints {
				e := &spec.Endpoints[k]
				e.URL = "http://" + c.at[fleet.EndpointID(e.ID)]
				e.KVEventsURL = c.servers.EventURLs()[fleet.EndpointID(e.ID)]
			}
			if spec.GatewayURL != "" {
				spec.GatewayURL, spec.MetricsURL = "http://"+c.front, "http://"+c.metrics+"/metrics"
			}
			s.t.Cleanup(func() { s.kill(c.spec.Name) })
		}
	}
}

// startCluster starts a cluster for the first time or again.
func (s *System) startCluster(c *Cluster) {
	s.t.Helper()
	options := modelserver.Options{
		Cluster: fleet.ClusterID(c.spec.Name), Logger: s.log.With("process", c.spec.Name),
		Models: []modelserver.Model{{Name: fleet.ModelID(c.spec.Model)}},
	}
	for _, a := range c.spec.Adapters() {
		options.Models[0].Adapters = append(options.Models[0].Adapters, fleet.ModelID(a))
	}
	for _, e := range c.spec.Endpoints {
		id := fleet.EndpointID(e.ID)
		options.Endpoints = append(options.Endpoints, modelserver.Endpoint{ID: id, Listen: c.at[id], Class: e.Class, KVEvents: c.events[id]})
	}
	servers, err := modelserver.New(options)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := servers.Listen(context.Background()); err != nil {
		s.t.Fatal(err)
	}
	c.servers, c.at = servers, servers.Addrs()
	for id, url := range servers.EventURLs() {
		c.events[id] = strings.TrimPrefix(url, "tcp://")
	}
	run := servers.Run
	if c.spec.GatewayURL != "" {
		front := s.startGateway(c)
		run = func(ctx context.Context) error {
			var both sync.WaitGroup
			var errs [2]error
			both.Go(func() { errs[0] = servers.Run(ctx) })
			both.Go(func() { errs[1] = front.Run(ctx) })
			both.Wait()
			return errors.Join(errs[:]...)
		}
	}
	c.part = begin(run)
}

func (s *System) startGateway(c *Cluster) *gateway.Gateway {
	s.t.Helper()
	options := gateway.Options{
		Name: c.spec.Name, Listen: c.front, Metrics: c.metrics, Logger: s.log.With("process", c.spec.Name+"-gateway"),
		Models: []fleet.ModelID{fleet.ModelID(c.spec.Model)},
	}
	for id, addr := range c.at {
		options.Endpoints = append(options.Endpoints, gateway.Endpoint{ID: id, URL: "http://" + addr})
	}
	front, err := gateway.New(options)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := front.Listen(context.Background()); err != nil {
		s.t.Fatal(err)
	}
	c.front, c.metrics = front.Addr(), front.MetricsAddr()
	return front
}

// kill takes a cluster away as SIGKILL would: connections are reset and new ones refused.
func (s *System) kill(cluster string) {
	c := s.clusters[cluster]
	if err := c.part.end(); err != nil {
		s.t.Errorf("cluster %s: %v", cluster, err)
	}
}

// killRegion takes all clusters of a region away at once.
func (s *System) killRegion(region string) {
	var all sync.WaitGroup
	for name, c := range s.clusters {
		if c.spec.Region == region {
			all.Go(func() { s.kill(name) })
		}
	}
	all.Wait()
}

// healRegion starts the clusters of a region again where they were.
func (s *System) healRegion(region string) {
	s.t.Helper()
	for _, c := range s.clusters {
		if c.spec.Region == region {
			s.startCluster(c)
		}
	}
}
