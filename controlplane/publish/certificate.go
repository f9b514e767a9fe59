package publish

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"anabranch/api/fleet"
	"anabranch/api/identity"
)

// FromCertificate identifies a router by the certificate of its connection, which must have been
// verified. It is for [Options.Identify].
func FromCertificate(ctx context.Context) (fleet.RegionID, fleet.RouterID, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return "", "", errors.New("the stream has no peer")
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 || len(info.State.PeerCertificates) == 0 {
		return "", "", errors.New("the peer showed none that is trusted")
	}
	who, err := identity.Of(info.State.PeerCertificates[0])
	if err != nil {
		return "", "", err
	}
	if who.Kind != identity.KindRouter {
		return "", "", fmt.Errorf("%s is not a router", who)
	}
	return who.Region, who.Router, nil
}
