package kube

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/labels"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

// serviceLabel is how an EndpointSlice says whose it is.
const serviceLabel = "kubernetes.io/service-name"

// endpointSlice is what is read of a discovery.k8s.io/v1 EndpointSlice.
type endpointSlice struct {
	Metadata struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	AddressType string `json:"addressType"`
	Endpoints   []struct {
		Addresses  []string `json:"addresses"`
		Conditions struct {
			Ready       *bool `json:"ready"`
			Serving     *bool `json:"serving"`
			Terminating *bool `json:"terminating"`
		} `json:"conditions"`
		NodeName  string `json:"nodeName"`
		TargetRef struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"targetRef"`
	} `json:"endpoints"`
	Ports []port `json:"ports"`
}

type port struct {
	Name     string `json:"name"`
	Protocol string `json:"protocol"`
	Port     int    `json:"port"`
}

func (f *Finder) watchSlices(ctx context.Context, spec table.Discovery, wake chan struct{}, found func([]table.Endpoint, error)) error {
	m, err := newMirror(f.client, scope{
		resource: sliceResource, namespace: spec.Namespace, labels: labels.SelectorFromSet(labels.Set{serviceLabel: spec.Name}),
	}, func() { poke(wake) })
	if err != nil {
		return err
	}
	defer m.start(ctx)()
	for f.next(ctx, wake) {
		ready, err := m.state()
		switch {
		case err != nil:
			found(nil, err)
		case ready && f.nodes.ready():
			found(f.ofSlices(m, spec))
		}
	}
	return ctx.Err()
}

// ofSlices are the endpoints of a Service that are ready, serving and don't terminate. An endpoint
// may be in several slices, while it moves from one to the other or under addresses of both families;
// it is one endpoint, at its IPv4 address if it has one.
func (f *Finder) ofSlices(m *mirror, spec table.Discovery) ([]table.Endpoint, error) {
	var parts []endpointSlice
	for _, u := range m.objects() {
		s, err := read[endpointSlice](u)
		if err != nil {
			return nil, err
		}
		parts = append(parts, s)
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("service %s/%s has no EndpointSlices: it is not there, or has just been made", spec.Namespace, spec.Name)
	}
	slices.SortFunc(parts, func(a, b endpointSlice) int {
		return cmp.Or(cmp.Compare(a.AddressType, b.AddressType), cmp.Compare(a.Metadata.Name, b.Metadata.Name))
	})
	out := []table.Endpoint{}
	seen := make(map[fleet.EndpointID]bool)
	for _, s := range parts {
		if len(s.Endpoints) == 0 || s.AddressType == "FQDN" {
			continue
		}
		number, err := choose(s.Ports, spec)
		if err != nil {
			return nil, fmt.Errorf("service %s/%s: %w", spec.Namespace, spec.Name, err)
		}
		for _, e := range s.Endpoints {
			c := e.Conditions
			ready := c.Ready == nil || *c.Ready
			if serving := c.Serving == nil || *c.Serving; !ready || !serving || c.Terminating != nil && *c.Terminating || len(e.Addresses) == 0 {
				continue
			}
			pod := ""
			if e.TargetRef.Kind == "Pod" {
				pod = e.TargetRef.Name
			}
			p, err := place(pod, e.Addresses[0], number, spec)
			if err != nil {
				return nil, err
			}
			if seen[p.ID] {
				continue
			}
			seen[p.ID] = true
			p.Class = cmp.Or(f.nodes.class(e.NodeName), s.Metadata.Labels[ClassLabel])
			out = append(out, p)
		}
	}
	return out, nil
}

// choose finds the port of the model servers: the one with the wanted number, or the only one, or
// the one that is named like the scheme. A slice without ports stands for all.
func choose(ports []port, spec table.Discovery) (int, error) {
	var tcp []port
	for _, p := range ports {
		if p.Port == spec.Port {
			return p.Port, nil
		}
		if (p.Protocol == "" || p.Protocol == "TCP") && p.Port != 0 {
			tcp = append(tcp, p)
		}
	}
	switch {
	case len(ports) == 0:
		return spec.Port, nil
	case len(tcp) == 1:
		return tcp[0].Port, nil
	}
	for _, p := range tcp {
		if p.Name == spec.Scheme {
			return p.Port, nil
		}
	}
	return 0, fmt.Errorf("none of its %d ports is number %d or named %s", len(ports), spec.Port, spec.Scheme)
}

// place makes an endpoint. It is named after its pod, so that another pod that gets the same address
// is another endpoint, or else after its address.
func place(pod, address string, port int, spec table.Discovery) (table.Endpoint, error) {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return table.Endpoint{}, fmt.Errorf("%q is no address", address)
	}
	number := strconv.Itoa(port)
	host := net.JoinHostPort(a.Unmap().WithZone("").String(), number)
	id := host
	if pod != "" {
		id = pod + ":" + number
	}
	return table.Endpoint{ID: fleet.EndpointID(id), URL: spec.Scheme + "://" + host}, nil
}
