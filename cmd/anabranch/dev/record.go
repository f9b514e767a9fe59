package dev

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"

	"anabranch/cmd/anabranch/dev/seed"
)

// Record is dev.json: where everything is and how to get in. It stays when the demonstration ends,
// so that the next start has the same tokens and keys; process ids are those of the last start.
type Record struct {
	ControlPlane []NodeRecord            `json:"controlplane"`
	Routers      []RouterRecord          `json:"routers"`
	Clusters     []ClusterRecord         `json:"clusters"`
	Redis        RedisRecord             `json:"redis"`
	Tokens       TokensRecord            `json:"tokens"`
	Tenants      map[string]TenantRecord `json:"tenants"`
	Models       []string                `json:"models"`
}

// NodeRecord is one control plane node. HTTP is a URL, GRPC and Raft are addresses.
type NodeRecord struct {
	ID   string `json:"id"`
	HTTP string `json:"http"`
	GRPC string `json:"grpc"`
	Raft string `json:"raft"`
	PID  int    `json:"pid"`
}

// RouterRecord is one router; HTTP and Admin are URLs.
type RouterRecord struct {
	Region string `json:"region"`
	HTTP   string `json:"http"`
	Admin  string `json:"admin"`
	PID    int    `json:"pid"`
}

// ClusterRecord is one process of model servers; Admin is the URL where faults are set. Endpoints of
// a cluster behind a gateway are its pods.
type ClusterRecord struct {
	ID        string           `json:"id"`
	Region    string           `json:"region"`
	PID       int              `json:"pid"`
	Admin     string           `json:"admin"`
	Endpoints []EndpointRecord `json:"endpoints"`
}

// EndpointRecord is one model server.
type EndpointRecord struct {
	ID    string `json:"id"`
	URL   string `json:"url"`
	Class string `json:"class"`
}

// RedisRecord is the Redis server.
type RedisRecord struct {
	Addr string `json:"addr"`
	PID  int    `json:"pid"`
}

// TokensRecord holds a bearer token of the control plane for each role.
type TokensRecord struct {
	Admin    string `json:"admin"`
	Operator string `json:"operator"`
	Approver string `json:"approver"`
	Viewer   string `json:"viewer"`
}

// TenantRecord is a tenant's API key.
type TenantRecord struct {
	Key  string `json:"key"`
	Tier string `json:"tier"`
}

// Load reads dev.json; it wraps [os.ErrNotExist] where there is none.
func (f Folder) Load() (*Record, error) {
	b, err := os.ReadFile(f.RecordPath())
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.RecordPath(), err)
	}
	var r Record
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("read %s: %w; if it is damaged, remove the folder %s and start anew", f.RecordPath(), err, f)
	}
	return &r, nil
}

func (f Folder) save(r *Record) error { return writeJSON(f.RecordPath(), r) }

// loadOrNew reads dev.json and keeps its secrets, or makes new ones for an empty folder. A folder
// with data and without dev.json is refused: its tokens are lost.
func (f Folder) loadOrNew(l seed.Layout) (*Record, error) {
	r, err := f.Load()
	switch {
	case errors.Is(err, os.ErrNotExist):
		if left, err := os.ReadDir(f.path("data")); err == nil && len(left) > 0 {
			return nil, fmt.Errorf("%s holds data but no dev.json, so its tokens are lost; remove the folder and start anew", f)
		}
		r = &Record{}
	case err != nil:
		return nil, err
	}
	r.lay(l)
	r.fillSecrets()
	return r, f.save(r)
}

// Addresses of the demonstration beside those of the layout.
const (
	host      = "127.0.0.1"
	nodes     = 3
	RedisAddr = host + ":7379"
	// adminPorts is where the search for free admin ports of clusters begins: below what the
	// system gives to outgoing connections, so that a port found free stays it.
	adminPorts = 9401
)

// local is a port of the loopback address.
func local(port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// lay writes down what runs where, without process ids. Admin URLs of clusters are kept.
func (r *Record) lay(l seed.Layout) {
	admin := map[string]string{}
	for _, c := range r.Clusters {
		admin[c.ID] = c.Admin
	}
	r.ControlPlane, r.Routers, r.Clusters = nil, nil, nil
	for i := range nodes {
		r.ControlPlane = append(r.ControlPlane, NodeRecord{
			ID:   fmt.Sprintf("n%d", i+1),
			HTTP: "http://" + local(7100+i), GRPC: local(7110 + i), Raft: local(7120 + i),
		})
	}
	for i, region := range l.Regions {
		r.Routers = append(r.Routers, RouterRecord{
			Region: region.Name,
			HTTP:   "http://" + local(8101+i), Admin: "http://" + local(8201+i),
		})
		for _, c := range region.Clusters {
			record := ClusterRecord{ID: c.Name, Region: region.Name, Admin: admin[c.Name]}
			for _, e := range c.Endpoints {
				record.Endpoints = append(record.Endpoints, EndpointRecord{ID: e.ID, URL: e.URL, Class: e.Class})
			}
			r.Clusters = append(r.Clusters, record)
		}
	}
	r.Redis = RedisRecord{Addr: RedisAddr}
	r.Models = []string{seed.SmallModel, seed.LargeModel}
}

// Router finds the router of a region.
func (r *Record) Router(region string) (RouterRecord, bool) {
	for _, router := range r.Routers {
		if router.Region == region {
			return router, true
		}
	}
	return RouterRecord{}, false
}

// withPIDs is the record with the process ids that pid knows; 0: it never started.
func (r *Record) withPIDs(pid func(Kind, string) int) *Record {
	c := *r
	c.ControlPlane, c.Routers, c.Clusters = slices.Clone(r.ControlPlane), slices.Clone(r.Routers), slices.Clone(r.Clusters)
	c.Redis.PID = pid(KindRedis, "redis")
	for i := range c.ControlPlane {
		c.ControlPlane[i].PID = pid(KindNode, c.ControlPlane[i].ID)
	}
	for i := range c.Routers {
		c.Routers[i].PID = pid(KindRouter, c.Routers[i].Region)
	}
	for i := range c.Clusters {
		c.Clusters[i].PID = pid(KindCluster, c.Clusters[i].ID)
	}
	return &c
}
