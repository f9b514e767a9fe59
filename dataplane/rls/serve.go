package rls

import (
	"context"
	"errors"
	"net"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
)

const (
	// maxMessage bounds a call in bytes: descriptors are names and numbers.
	maxMessage = 64 << 10
	// maxHeaders bounds a call's headers in bytes.
	maxHeaders = 16 << 10
	// maxStreams bounds the calls at the same time on one connection.
	maxStreams = 1024
	// workers answer calls one after the other, and have the stack for it; calls beyond their number get
	// one of their own, which must grow first.
	workers = 64
	// handshake bounds the making of a connection.
	handshake = 5 * time.Second
	// ping is how long a connection is silent before the other end is asked for a sign of life, and dead how
	// long that is waited for.
	ping, dead = 30 * time.Second, 10 * time.Second
	// sweep is how often it is looked for requests that nothing was heard of.
	sweep = time.Second
	// grace is how long calls are waited for at the end. Those that watch the health never end.
	grace = time.Second
)

// Run serves on the listener until ctx ends. Calls that are open then are answered, which takes no
// longer than the budget; requests whose end was not told are settled by what they reserved. It
// closes the listener. Stop whoever judges after it.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	server, well := s.server()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	tick := time.NewTicker(sweep)
	defer tick.Stop()
	s.look(well)
	var err error
	for running := true; running; {
		select {
		case <-tick.C:
			s.look(well)
		case <-ctx.Done():
			well.Shutdown() // who asks is told to go elsewhere
			end(server)
			err, running = <-served, false
		case err = <-served:
			running = false
		}
	}
	for _, h := range s.open.all() {
		h.estimate()
		s.metrics.ended(endStopped)
	}
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// end takes no new calls, waits for those that are open, and cuts what is left.
func end(server *grpc.Server) {
	cut := time.AfterFunc(grace, server.Stop)
	defer cut.Stop()
	server.GracefulStop()
}

// server makes the gRPC server and its health service.
func (s *Server) server() (*grpc.Server, *health.Server) {
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshake),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: ping, Timeout: dead}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: dead, PermitWithoutStream: true}),
		grpc.NumStreamWorkers(workers),
		grpc.WaitForHandlers(true),
	}
	if s.o.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.o.TLS)))
	}
	server, well := grpc.NewServer(options...), health.NewServer()
	rlsv3.RegisterRateLimitServiceServer(server, s)
	healthv1.RegisterHealthServer(server, well)
	return server, well
}

// look settles requests whose time is over, and says whether calls can be judged.
func (s *Server) look(well *health.Server) {
	for _, h := range s.open.due(s.o.Now()) {
		h.estimate()
		s.metrics.ended(endExpired)
	}
	can := healthv1.HealthCheckResponse_NOT_SERVING
	if s.o.Tables.Load() != nil {
		can = healthv1.HealthCheckResponse_SERVING
	}
	for _, service := range []string{"", rlsv3.RateLimitService_ServiceDesc.ServiceName} {
		well.SetServingStatus(service, can)
	}
}
