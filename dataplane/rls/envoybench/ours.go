package main

import (
	"context"
	"errors"
	"net"
	"strconv"

	"anabranch/api/routerpb"
	"anabranch/dataplane/admit"
	"anabranch/dataplane/rls"
	"anabranch/dataplane/table"
	"anabranch/ratelimit/redisbucket"
)

// serve is this project's door beside a Redis, with the limits of [rules], until ctx ends.
func serve(ctx context.Context, address, redis string, tenants int) error {
	t, err := limits(tenants)
	if err != nil {
		return err
	}
	lender, err := redisbucket.NewLender(redisbucket.LenderOptions{Addrs: []string{redis}})
	if err != nil {
		return err
	}
	defer func() { _ = lender.Close() }() // the process ends
	admitter, err := admit.New(admit.Options{Stores: admit.Own(lender), Region: "here"})
	if err != nil {
		return err
	}
	var tables table.Holder
	tables.Store(t)
	server, err := rls.New(rls.Options{Tables: &tables, Quotas: admitter})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() { ended <- admitter.Run(ctx) }()
	go func() { ended <- lender.Run(ctx) }()
	return errors.Join(server.Run(ctx, listener), <-ended, <-ended)
}

func limits(tenants int) (*table.Table, error) {
	pb := &routerpb.Table{
		Ref:     &routerpb.TableRef{ClusterId: "bench", Epoch: 1, Revision: 1},
		Regions: []*routerpb.Region{{Id: "here"}},
		Clusters: []*routerpb.Cluster{{
			Id: "gpus", Region: "here", Kind: table.KindGateway, GatewayUrl: "http://127.0.0.1:1", Models: []string{model},
		}},
		Models: []*routerpb.Model{{Id: model}},
	}
	for i := range tenants {
		pb.Tenants = append(pb.Tenants, &routerpb.Tenant{Id: name(i)})
		for _, of := range []string{"", model} {
			pb.Quotas = append(pb.Quotas, &routerpb.Quota{
				Id: strconv.Itoa(i) + of, Tenant: name(i), Model: of, Kind: "requests", Share: 1,
				Limit: 1_000_000_000, PeriodMs: 60_000, Burst: 1_000_000_000,
			})
		}
	}
	return table.Build(pb)
}
