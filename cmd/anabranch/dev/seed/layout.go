package seed

import "fmt"

// Layout is a fleet: what it is made of and where it listens.
type Layout struct {
	Regions []Region
}

// Region is one place of a [Layout].
type Region struct {
	Name string
	// Zone is the jurisdiction that residency names.
	Zone string
	// PeerURL is where the region's router takes the hop from other regions, https.
	PeerURL string
	// RTTMs is the round trip to other regions in milliseconds.
	RTTMs    map[string]float64
	Clusters []Cluster
}

// Cluster is one process of model servers. With GatewayURL it is of kind gateway, and its endpoints
// stand behind that; otherwise routers reach the endpoints themselves.
type Cluster struct {
	Name, Region string
	// Model is the one base model that its servers have loaded.
	Model     string
	Endpoints []Endpoint
	// GatewayURL and MetricsURL are both set, or both empty.
	GatewayURL, MetricsURL string
	// GPUsPerEndpoint is how many GPUs one model server spans, by class.
	GPUsPerEndpoint map[string]int
	// PriorWork is the capacity in work units per second that is believed until it is measured:
	// about what routers measure of these simulated servers, so that a part of the fleet that has
	// been measured weighs no more than one that has not.
	PriorWork float64
}

// Endpoint is one model server.
type Endpoint struct {
	ID, URL string
	// Class is the GPU class, "h100" or "a100-80" (80 GB).
	Class string
	// KVEventsURL is where it publishes what its KV cache holds, tcp://host:port. Empty: nowhere.
	KVEventsURL string
}

// GPUs counts the cluster's GPUs of one class.
type GPUs struct {
	Class string
	Count int
}

// GPUs lists what the cluster is made of, in the order in which its endpoints first name a class.
func (c Cluster) GPUs() []GPUs {
	var all []GPUs
	at := map[string]int{}
	for _, e := range c.Endpoints {
		i, ok := at[e.Class]
		if !ok {
			i = len(all)
			at[e.Class] = i
			all = append(all, GPUs{Class: e.Class})
		}
		all[i].Count += max(1, c.GPUsPerEndpoint[e.Class])
	}
	return all
}

// Adapters lists the LoRA adapters that the cluster's servers may load; nil: none.
func (c Cluster) Adapters() []string { return AdaptersOf(c.Model) }

// Clusters lists those of all regions.
func (l Layout) Clusters() []Cluster {
	var all []Cluster
	for _, r := range l.Regions {
		all = append(all, r.Clusters...)
	}
	return all
}

// places are the regions of the demonstration. Round trips are AWS's between the regions, as
// measured by cloudping.co, rounded to a millisecond.
var places = []struct {
	name, zone string
	rtt        map[string]float64
}{
	{"us-east-1", "us", map[string]float64{"eu-west-1": 70, "ap-northeast-1": 157}},
	{"eu-west-1", "eu", map[string]float64{"us-east-1": 70, "ap-northeast-1": 204}},
	{"ap-northeast-1", "ap", map[string]float64{"us-east-1": 157, "eu-west-1": 204}},
}

// GatewayCluster is the one cluster of the layout that stands behind a tier-1 gateway.
const GatewayCluster = "ap-northeast-1-b"

// Ports hands out an address for one listener of the layout. suggested is the port that
// `anabranch dev` uses; a test may return any other.
type Ports func(suggested int) (hostPort string)

// Loopback is the layout at its documented ports of 127.0.0.1.
func Loopback() Layout {
	return New(func(suggested int) string { return fmt.Sprintf("127.0.0.1:%d", suggested) })
}

// New lays the fleet out at the addresses given: in each region cluster "a" with the small model on
// two H100 and two A100 endpoints that publish KV events, and cluster "b" with the large one on one of
// each. Region i, from 1, takes suggested ports from 9i01 for endpoints, 19i01 for their events, 9i81
// and 9i91 for a gateway and its metrics, and 8300+i for the router's peer listener.
func New(ports Ports) Layout {
	var l Layout
	for i, p := range places {
		base := 9100 + 100*i
		at := func(n int) string { return "http://" + ports(base+n) }
		events := func(n int) string { return "tcp://" + ports(10_000+base+n) }
		small := Cluster{
			Name: p.name + "-a", Region: p.name, Model: SmallModel,
			Endpoints: []Endpoint{
				{ID: "h100-1", URL: at(1), Class: "h100", KVEventsURL: events(1)},
				{ID: "h100-2", URL: at(2), Class: "h100", KVEventsURL: events(2)},
				{ID: "a100-1", URL: at(3), Class: "a100-80", KVEventsURL: events(3)},
				{ID: "a100-2", URL: at(4), Class: "a100-80", KVEventsURL: events(4)},
			},
			GPUsPerEndpoint: map[string]int{"h100": 1, "a100-80": 1},
			PriorWork:       200_000,
		}
		large := Cluster{
			Name: p.name + "-b", Region: p.name, Model: LargeModel,
			Endpoints: []Endpoint{
				{ID: "h100-1", URL: at(5), Class: "h100"},
				{ID: "a100-1", URL: at(6), Class: "a100-80"},
			},
			GPUsPerEndpoint: map[string]int{"h100": 4, "a100-80": 8},
			PriorWork:       75_000,
		}
		if large.Name == GatewayCluster {
			large.GatewayURL, large.MetricsURL = at(81), at(91)+"/metrics"
		}
		l.Regions = append(l.Regions, Region{
			Name: p.name, Zone: p.zone, PeerURL: "https://" + ports(8301+i), RTTMs: p.rtt,
			Clusters: []Cluster{small, large},
		})
	}
	return l
}
