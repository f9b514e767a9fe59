package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
)

// etcd is three embedded servers, as they are unless told otherwise.
type etcd struct {
	configs []*embed.Config
	nodes   []*embed.Etcd
	leader  *etcdserver.EtcdServer
}

func openEtcd(ctx context.Context, dir string) (system, error) {
	e := &etcd{}
	var initial []string
	for i := range 3 {
		peer, err := freeURL(ctx)
		if err != nil {
			return nil, err
		}
		client, err := freeURL(ctx)
		if err != nil {
			return nil, err
		}
		c := embed.NewConfig()
		c.Name, c.Dir = fmt.Sprintf("n%d", i+1), filepath.Join(dir, fmt.Sprintf("n%d", i+1))
		c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
		c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
		c.LogLevel = "fatal"
		initial = append(initial, c.Name+"="+peer.String())
		e.configs = append(e.configs, c)
	}
	for _, c := range e.configs {
		c.InitialCluster = strings.Join(initial, ",")
	}
	return e, e.start(ctx)
}

func freeURL(ctx context.Context) (url.URL, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return url.URL{}, err
	}
	defer l.Close()
	return url.URL{Scheme: "http", Host: l.Addr().String()}, nil
}

// start runs the servers and waits until one leads and writes.
func (e *etcd) start(ctx context.Context) error {
	e.nodes = nil
	for _, c := range e.configs {
		n, err := embed.StartEtcd(c)
		if err != nil {
			return err
		}
		e.nodes = append(e.nodes, n)
	}
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		for _, n := range e.nodes {
			if n.Server.Leader() != n.Server.MemberID() {
				continue
			}
			if e.leader = n.Server; e.Put(ctx, 0, "x") == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		}
	}
}

func (e *etcd) Put(ctx context.Context, key int, value string) error {
	_, err := e.leader.Put(ctx, &etcdserverpb.PutRequest{Key: fmt.Append(nil, "key-", key), Value: []byte(value)})
	return err
}

func (e *etcd) Restart(ctx context.Context) error {
	if err := e.Close(); err != nil {
		return err
	}
	return e.start(ctx)
}

func (e *etcd) Close() error {
	for _, n := range e.nodes {
		n.Close()
	}
	return nil
}
