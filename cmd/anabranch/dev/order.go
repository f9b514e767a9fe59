package dev

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Order asks for something to be broken or healed.
type Order struct {
	// Kind is region, cluster, endpoint, router, controlplane, redis, or, to heal, all.
	Kind string `json:"kind"`
	// Name is a region for kinds region and router, a cluster, CLUSTER/ENDPOINT, or a node: its id,
	// "leader" or "all". Empty for redis and all.
	Name string `json:"name,omitempty"`
	// WithRouter breaks the router of a region too.
	WithRouter bool `json:"withRouter,omitempty"`
	// Fault is set on an endpoint, or on all of a cluster, instead of killing; see [Faults].
	Fault string `json:"fault,omitempty"`
	// Factor of fault slow, above 1; Ratio of requests that a fault meets, 0 to 1. 0: the model
	// server's default.
	Factor float64 `json:"factor,omitempty"`
	Ratio  float64 `json:"ratio,omitempty"`
}

// Kinds of order, and of faults.
var (
	OrderKinds = []string{"region", "cluster", "endpoint", "router", "controlplane", "redis"}
	Faults     = []string{"refuse", "hang", "slow", "error500", "error429", "cut", "freeze-metrics"}
)

// DefaultFault of an endpoint: it takes no connections, as if its process were gone.
const DefaultFault = "refuse"

// plan is what an order comes to: processes, or a fault on endpoints of one cluster.
type plan struct {
	units []Unit
	// cluster and endpoint take the fault; endpoint empty: all of them.
	cluster, endpoint string
}

// resolve finds what an order means in the fleet. leader names the node that leads; it is asked only
// when the order says so.
func resolve(o Order, all []Unit, r *Record, leader func() (string, error)) (plan, error) {
	if o.Fault != "" {
		switch {
		case o.Kind != "endpoint" && o.Kind != "cluster":
			return plan{}, fmt.Errorf("fault %q: only an endpoint or a cluster can have one, not a %s", o.Fault, o.Kind)
		case !slices.Contains(Faults, o.Fault):
			return plan{}, fmt.Errorf("fault %q is unknown; choose one of %s", o.Fault, strings.Join(Faults, ", "))
		case o.Ratio < 0 || o.Ratio > 1:
			return plan{}, fmt.Errorf("ratio %v is outside 0 to 1", o.Ratio)
		case o.Factor < 0 || o.Factor > 1000:
			return plan{}, fmt.Errorf("factor %v is outside 0 to 1,000", o.Factor)
		}
	}
	if o.Name != "" && (o.Kind == "redis" || o.Kind == "all") {
		return plan{}, fmt.Errorf("%s takes no name, and %q is one", o.Kind, o.Name)
	}
	if o.WithRouter && o.Kind != "region" {
		return plan{}, fmt.Errorf("with-router belongs to a region, not to a %s", o.Kind)
	}
	choose := func(keep func(Unit) bool) (plan, error) {
		var p plan
		for _, u := range all {
			if keep(u) {
				p.units = append(p.units, u)
			}
		}
		if len(p.units) == 0 {
			return plan{}, unknown(o, all)
		}
		return p, nil
	}
	switch o.Kind {
	case "all":
		return choose(func(Unit) bool { return true })
	case "redis":
		return choose(func(u Unit) bool { return u.Kind == KindRedis })
	case "region":
		return choose(func(u Unit) bool {
			return u.Region == o.Name && o.Name != "" && (u.Kind == KindCluster || o.WithRouter)
		})
	case "router":
		return choose(func(u Unit) bool { return u.Kind == KindRouter && u.Name == o.Name })
	case "cluster":
		p, err := choose(func(u Unit) bool { return u.Kind == KindCluster && u.Name == o.Name })
		p.cluster = o.Name
		return p, err
	case "endpoint":
		return endpointOf(o, r)
	case "controlplane":
		name := o.Name
		if name == "leader" {
			var err error
			if name, err = leader(); err != nil {
				return plan{}, err
			}
		}
		return choose(func(u Unit) bool { return u.Kind == KindNode && (u.Name == name || name == "all") })
	}
	return plan{}, fmt.Errorf("kind %q is unknown; choose one of %s", o.Kind, strings.Join(OrderKinds, ", "))
}

func endpointOf(o Order, r *Record) (plan, error) {
	cluster, endpoint, ok := strings.Cut(o.Name, "/")
	if !ok || endpoint == "" {
		return plan{}, fmt.Errorf("endpoint %q: write CLUSTER/ENDPOINT, such as %s/%s",
			o.Name, r.Clusters[0].ID, r.Clusters[0].Endpoints[0].ID)
	}
	for _, c := range r.Clusters {
		if c.ID != cluster {
			continue
		}
		var ids []string
		for _, e := range c.Endpoints {
			if e.ID == endpoint {
				return plan{cluster: cluster, endpoint: endpoint}, nil
			}
			ids = append(ids, e.ID)
		}
		return plan{}, fmt.Errorf("endpoint %q is unknown; cluster %s has %s", endpoint, cluster, strings.Join(ids, ", "))
	}
	return plan{}, fmt.Errorf("cluster %q is unknown", cluster)
}

// unknown names what could have been meant.
func unknown(o Order, all []Unit) error {
	var names []string
	for _, u := range all {
		switch {
		case o.Kind == "region" && u.Kind == KindRouter, o.Kind == string(u.Kind):
			names = append(names, u.Name)
		}
	}
	if o.Kind == "controlplane" {
		names = append(names, "leader", "all")
	}
	if o.Name == "" {
		return fmt.Errorf("which %s? choose one of %s", o.Kind, strings.Join(names, ", "))
	}
	return fmt.Errorf("%s %q is unknown; choose one of %s", o.Kind, o.Name, strings.Join(names, ", "))
}

// errNoLeader says that a leader was asked for and nobody leads.
var errNoLeader = errors.New("no control plane node leads at the moment; name a node, or all")
