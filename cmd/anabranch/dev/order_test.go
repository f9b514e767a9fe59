package dev

import (
	"errors"
	"strings"
	"testing"
)

func TestOrdersMeanUnits(t *testing.T) {
	all, r := demonstration(t), whole(t)
	leads := func() (string, error) { return "n2", nil }
	for name, c := range map[string]struct {
		order Order
		want  string // ids of units, or cluster/endpoint
	}{
		"region":             {Order{Kind: "region", Name: "us-east-1"}, "cluster-us-east-1-a cluster-us-east-1-b"},
		"region with router": {Order{Kind: "region", Name: "eu-west-1", WithRouter: true}, "cluster-eu-west-1-a cluster-eu-west-1-b router-eu-west-1"},
		"cluster":            {Order{Kind: "cluster", Name: "eu-west-1-b"}, "cluster-eu-west-1-b eu-west-1-b/"},
		"fault on a cluster": {Order{Kind: "cluster", Name: "eu-west-1-b", Fault: "slow", Factor: 2}, "cluster-eu-west-1-b eu-west-1-b/"},
		"endpoint":           {Order{Kind: "endpoint", Name: "us-east-1-a/h100-2", Fault: "hang", Ratio: 0.3}, "us-east-1-a/h100-2"},
		"router":             {Order{Kind: "router", Name: "ap-northeast-1"}, "router-ap-northeast-1"},
		"a node":             {Order{Kind: "controlplane", Name: "n3"}, "controlplane-n3"},
		"the leader":         {Order{Kind: "controlplane", Name: "leader"}, "controlplane-n2"},
		"all nodes":          {Order{Kind: "controlplane", Name: "all"}, "controlplane-n1 controlplane-n2 controlplane-n3"},
		"redis":              {Order{Kind: "redis"}, "redis"},
	} {
		p, err := resolve(c.order, all, r, leads)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, u := range p.units {
			got = append(got, u.ID())
		}
		if p.cluster != "" {
			got = append(got, p.cluster+"/"+p.endpoint)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
	if p, err := resolve(Order{Kind: "all"}, all, r, nil); err != nil || len(p.units) != len(all) {
		t.Errorf("all: %d units, %v", len(p.units), err)
	}
}

func TestWrongOrdersNameWhatIsRight(t *testing.T) {
	all, r := demonstration(t), whole(t)
	nobody := func() (string, error) { return "", errNoLeader }
	for name, c := range map[string]struct {
		order Order
		want  string
	}{
		"kind":                {Order{Kind: "planet", Name: "x"}, "choose one of region, cluster"},
		"no region":           {Order{Kind: "region"}, "which region? choose one of us-east-1, eu-west-1, ap-northeast-1"},
		"region":              {Order{Kind: "region", Name: "mars"}, `region "mars" is unknown; choose one of us-east-1`},
		"cluster":             {Order{Kind: "cluster", Name: "x"}, "eu-west-1-a"},
		"node":                {Order{Kind: "controlplane", Name: "n9"}, "n1, n2, n3, leader, all"},
		"leader of none":      {Order{Kind: "controlplane", Name: "leader"}, errNoLeader.Error()},
		"endpoint form":       {Order{Kind: "endpoint", Name: "us-east-1-a"}, "write CLUSTER/ENDPOINT, such as us-east-1-a/h100-1"},
		"endpoint":            {Order{Kind: "endpoint", Name: "us-east-1-b/x"}, "cluster us-east-1-b has h100-1, a100-1"},
		"endpoint of nowhere": {Order{Kind: "endpoint", Name: "x/y"}, `cluster "x" is unknown`},
		"fault":               {Order{Kind: "endpoint", Name: "us-east-1-a/h100-1", Fault: "tired"}, "choose one of refuse, hang"},
		"fault of a region":   {Order{Kind: "region", Name: "us-east-1", Fault: "slow"}, "only an endpoint or a cluster"},
		"ratio":               {Order{Kind: "cluster", Name: "us-east-1-a", Fault: "slow", Ratio: 2}, "outside 0 to 1"},
		"factor":              {Order{Kind: "cluster", Name: "us-east-1-a", Fault: "slow", Factor: -1}, "outside 0 to 1,000"},
		"name of redis":       {Order{Kind: "redis", Name: "us-east-1"}, `redis takes no name, and "us-east-1" is one`},
		"name of all":         {Order{Kind: "all", Name: "us-east-1"}, "all takes no name"},
		"router of a cluster": {Order{Kind: "cluster", Name: "us-east-1-a", WithRouter: true}, "with-router belongs to a region"},
	} {
		if p, err := resolve(c.order, all, r, nobody); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v; want %q", name, p, err, c.want)
		}
	}
	if _, err := resolve(Order{Kind: "controlplane", Name: "leader"}, all, r, nobody); !errors.Is(err, errNoLeader) {
		t.Errorf("no leader: %v", err)
	}
}
