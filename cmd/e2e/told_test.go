package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"time"

	"anabranch/cmd/anabranch/client"
	"anabranch/cmd/anabranch/dev/seed"
	"anabranch/controlplane/rest"
)

// toldRecord is what these checks look at of a router's record.
type toldRecord struct {
	ID       string
	Tenant   string
	Region   string
	Attempts []struct{ Cluster string }
	From     rest.Origin
}

// told explains a request of each region by every node, of which at most one holds the router's stream,
// and follows one tenant's requests among those of others.
func (s *System) told() {
	for region := range s.routers {
		a := s.ask(region, "acme", chat(seed.SmallModel, false))
		id, at := a.header.Get("x-anabranch-request-id"), map[any]bool{}
		for _, n := range s.nodes {
			one := &client.Client{Servers: []string{"http://" + n.at.HTTP}, Token: s.tokens["viewer"]}
			var r toldRecord
			s.await(10*time.Second, string(n.options.ID)+" to explain "+id, func() error { // the record is made when all has been answered
				return one.JSON(s.t.Context(), "/v1/explain/"+url.PathEscape(id), nil, &r)
			})
			if r.ID != id || r.Tenant != "acme" || r.Region != region || len(r.Attempts) == 0 || string(r.From.Region) != region {
				s.t.Errorf("%s says of %s: %+v", n.options.ID, id, r)
			}
			at[r.From.Node] = true
		}
		if len(at) != 1 {
			s.t.Errorf("the router of %s is connected to several nodes: %v", region, at)
		}
	}

	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	seen := make(chan string, 1024)
	ended := make(chan error, 1)
	go func() {
		ended <- s.as("viewer").Events(ctx, "/v1/decisions", url.Values{"tenant": {"globex"}}, func(name string, data []byte) error {
			if name != "decision" {
				return nil
			}
			var r toldRecord
			if err := json.Unmarshal(data, &r); err != nil {
				return err
			}
			if r.Tenant != "globex" {
				return errors.New("told of a request of " + r.Tenant)
			}
			select {
			case seen <- r.ID:
			default:
			}
			return nil
		})
	}()
	for followed := false; !followed && ctx.Err() == nil; { // it begins at the routers a moment after it has begun here
		a := s.ask("us-east-1", "globex", chat(seed.SmallModel, false))
		s.ask("us-east-1", "acme", chat(seed.SmallModel, false))
		id := a.header.Get("x-anabranch-request-id")
		soon := time.After(2 * time.Second)
		for waiting := true; waiting && !followed; {
			select {
			case got := <-seen:
				followed = got == id
			case <-soon:
				waiting = false
			case err := <-ended:
				s.t.Fatalf("the tail ended: %v", err)
			}
		}
	}
	if ctx.Err() != nil {
		s.t.Error("the tail of globex shows none of its requests")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) && !errors.Is(err, client.ErrStreamEnded) {
		s.t.Errorf("the tail ended: %v", err)
	}
}
