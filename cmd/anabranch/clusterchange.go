package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	orders "anabranch/api/order"
	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/policy"
)

// placeFlags are what commands take that change what operators say of a cluster, or of all of a region.
type placeFlags struct {
	reason string
	others consent
}

// clusterChange is what such a command sets.
type clusterChange struct {
	// field of a Cluster's spec, and its value; nil: it is taken out.
	field string
	value any
	// made and same end the sentence about a cluster: it was changed, or was so already.
	made, same string
}

func (f *placeFlags) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, for the audit trail (required)")
	f.others.flags(cmd)
}

func (a *app) completePlaces() completion {
	return completeOne(func(ctx context.Context, begun string) []string { return a.names(ctx, "region", begun) })
}

// changeClusters makes a change to each cluster that a target names.
func (a *app) changeClusters(ctx context.Context, f *placeFlags, target string, change clusterChange) error {
	if strings.TrimSpace(f.reason) == "" {
		return misused(errors.New("--reason is missing: say why, for whoever looks"))
	}
	c, err := a.connect(f.reason)
	if err != nil {
		return err
	}
	f.others.of(c)
	items, err := clustersOf(ctx, c, target)
	if err != nil {
		return err
	}
	for i := range items {
		if err := a.changeCluster(ctx, c, f, &items[i], change); err != nil {
			return err
		}
	}
	return nil
}

// clustersOf are those that a target as of evacuate names; none is an error.
func clustersOf(ctx context.Context, c *client.Client, target string) ([]client.Item, error) {
	o := orders.Order{Target: placeOf(target)}
	what, name := o.Place()
	if what == "cluster" {
		item, _, err := c.Get(ctx, policy.KindCluster, name)
		return []client.Item{item}, err
	}
	list, err := c.List(ctx, policy.KindCluster)
	if err != nil {
		return nil, err
	}
	var out []client.Item
	for _, item := range list.Items {
		var spec struct {
			Region string `json:"region"`
		}
		if json.Unmarshal(item.Spec, &spec) == nil && spec.Region == name {
			out = append(out, item)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there is no cluster in region %q: `anabranch get clusters` lists them; of one cluster write cluster/NAME", name)
	}
	return out, nil
}

// changeCluster writes one cluster as it was read, but for the change. If somebody else has changed it meanwhile nothing is.
func (a *app) changeCluster(ctx context.Context, c *client.Client, f *placeFlags, item *client.Item, change clusterChange) error {
	r, err := change.of(item)
	if err != nil {
		return err
	}
	what := title(r.Kind, r.Metadata.Name)
	done, _, err := c.Apply(ctx, r)
	if waits, err := a.proposed(ctx, c, what, err, f.others.wait); waits {
		return err
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case done == client.Unchanged:
		return a.printf("%s %s\n", what, change.same)
	}
	return a.printf("%s %s\n", what, change.made)
}

// of is a Cluster as it was read, but for the change.
func (change clusterChange) of(item *client.Item) (*policy.Resource, error) {
	var spec map[string]json.RawMessage
	if err := json.Unmarshal(item.Spec, &spec); err != nil {
		return nil, fmt.Errorf("read cluster %s: %w", item.Metadata.Name, err)
	}
	delete(spec, change.field)
	if change.value != nil {
		text, err := json.Marshal(change.value)
		if err != nil {
			return nil, err
		}
		spec[change.field] = text
	}
	doc, err := json.Marshal(policy.Resource{
		APIVersion: policy.APIVersion, Kind: policy.KindCluster, Spec: spec,
		Metadata: policy.Metadata{Name: item.Metadata.Name, Revision: item.Metadata.Revision, Labels: item.Metadata.Labels},
	})
	if err != nil {
		return nil, err
	}
	r, problems := policy.Parse(doc)
	if len(problems) > 0 {
		return nil, fmt.Errorf("cluster %s can't be written:%s", item.Metadata.Name, client.Fields(problems))
	}
	return r, nil
}
