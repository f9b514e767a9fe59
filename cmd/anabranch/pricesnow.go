package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/rest"
	"anabranch/costmodel"
)

// printPricesNow shows what the control plane's clusters cost now, and its sources of prices.
func (a *app) printPricesNow(ctx context.Context, f priceFlags, format string) error {
	c, err := a.connect("")
	if err != nil {
		return err
	}
	query := url.Values{}
	for name, value := range map[string]string{"cluster": f.cluster, "region": f.region} {
		if value != "" {
			query.Set(name, value)
		}
	}
	var all rest.PriceList
	for {
		var page rest.PriceList
		if err := c.JSON(ctx, "/v1/prices", query, &page); err != nil {
			return err
		}
		all.Items, all.At, all.Sources = append(all.Items, page.Items...), page.At, page.Sources
		if page.NextCursor == "" {
			break
		}
		query.Set("cursor", page.NextCursor)
	}
	if f.cluster != "" && len(all.Items) == 0 {
		return fmt.Errorf("there is no cluster %q; `anabranch get clusters` lists them", f.cluster)
	}
	if f.class != "" || f.purchase != "" {
		for i := range all.Items {
			all.Items[i].GPUs = slices.DeleteFunc(all.Items[i].GPUs, func(g rest.GPUsCost) bool {
				return f.class != "" && !strings.EqualFold(g.Class, f.class) || f.purchase != "" && g.Purchase != f.purchase
			})
		}
		all.Items = slices.DeleteFunc(all.Items, func(c rest.ClusterPrice) bool { return len(c.GPUs) == 0 })
	}
	if all.Items == nil {
		all.Items = []rest.ClusterPrice{}
	}
	if format != "table" {
		return a.write(format, all)
	}
	if len(all.Items) == 0 && f.class+f.region+f.purchase != "" {
		if _, err := fmt.Fprintln(a.err, "note: no cluster has GPUs that fit; without --class, --region and --purchase all are shown"); err != nil {
			return err
		}
	}
	var rows [][]string
	for i := range all.Items {
		rows = append(rows, priceRows(&all.Items[i], all.At)...)
	}
	if err := a.table([]string{"CLUSTER", "REGION", "GPUS", "PER GPU-HOUR", "PER HOUR", "AGE", "SOURCE", "BECAUSE"}, rows); err != nil {
		return err
	}
	if err := a.printf("\n"); err != nil {
		return err
	}
	if len(all.Sources) == 0 {
		return a.printf("nobody is asked for prices: --aws-prices and --price-file of the control plane's nodes say whom to ask\n")
	}
	rows = nil
	for i := range all.Sources {
		rows = append(rows, priceSourceRow(&all.Sources[i], all.At))
	}
	return a.table([]string{"ASKED", "ANSWER", "PRICES", "AGE", "EVERY", "NEXT", "FAILURES", "ERROR"}, rows)
}

// priceRows are a cluster for people: a line for each way in which its GPUs are bought.
func priceRows(c *rest.ClusterPrice, now time.Time) [][]string {
	if len(c.GPUs) == 0 {
		return [][]string{{string(c.Cluster), string(c.Region), "-", "-", "-", "-", "-", "it names no GPUs in spec.gpus"}}
	}
	var rows [][]string
	for i := range c.GPUs {
		g := &c.GPUs[i]
		goods := strings.Join(slices.DeleteFunc([]string{strconv.Itoa(g.Count), g.Class, g.Purchase, g.Instance, g.Zone}, func(s string) bool { return s == "" }), " ")
		each, all, age, source, because := "-", "-", "-", dash(g.Source), g.Why
		if g.USDPerGPUHour != nil {
			price := costmodel.FromUSD(*g.USDPerGPUHour)
			each, all = price.String(), (price * costmodel.Micros(g.Count)).String()
		}
		if g.AgeMs >= 0 {
			age = since(now, g.AsOf)
		}
		if g.Estimate {
			source += " (estimate)"
		}
		if d := g.Doubt; d != nil {
			told := "nothing any more"
			if d.USDPerGPUHour != nil {
				told = costmodel.FromUSD(*d.USDPerGPUHour).String()
			}
			because += fmt.Sprintf("; %s is told since %s and not believed", told, d.Since.UTC().Format(time.RFC3339))
		}
		rows = append(rows, []string{string(c.Cluster), string(c.Region), goods, each, all, age, source, because})
	}
	return rows
}

// priceSourceRow is a source of prices for people.
func priceSourceRow(s *rest.PriceSource, now time.Time) []string {
	prices, next := strconv.Itoa(s.Offers), "-"
	if s.Doubted > 0 {
		prices += fmt.Sprintf(" (%d doubted)", s.Doubted)
	}
	if !s.NextAt.IsZero() {
		next = "in " + max(s.NextAt.Sub(now), 0).Round(time.Second).String()
	}
	every := (time.Duration(s.IntervalMs) * time.Millisecond).String()
	return []string{s.Name, s.Standing, prices, since(now, s.ReadAt), cmp.Or(every, "-"), next, strconv.Itoa(s.Failures), dash(s.Error)}
}

// pricesOf are those that the control plane knows of a cluster's GPUs, for lint not to miss them; none of other
// kinds, or if it does not tell.
func pricesOf(ctx context.Context, c *client.Client, kind policy.Kind, name string) []costmodel.Offer {
	var list rest.PriceList
	if kind != policy.KindCluster || c.JSON(ctx, "/v1/prices", url.Values{"cluster": {name}}, &list) != nil {
		return nil
	}
	var offers []costmodel.Offer
	for i := range list.Items {
		for _, g := range list.Items[i].GPUs {
			if g.USDPerGPUHour != nil {
				offers = append(offers, costmodel.Offer{
					Class: g.Class, Instance: g.Instance, Region: string(list.Items[i].Region), Zone: g.Zone, Purchase: costmodel.Purchase(g.Purchase),
					PerHour: costmodel.FromUSD(*g.USDPerGPUHour), Origin: costmodel.File,
				})
			}
		}
	}
	return offers
}
