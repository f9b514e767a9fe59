package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/policy"
	"anabranch/costmodel"
	"anabranch/costmodel/pricelist"
)

// rateCards is a source of prices: what operators wrote.
type rateCards struct{ client *client.Client }

// Name is "rate cards".
func (rateCards) Name() string { return "rate cards" }

// Offers reads all rate cards of the control plane.
func (r rateCards) Offers(ctx context.Context) ([]costmodel.Offer, error) {
	list, err := everyPage(ctx, r.client, "/v1/"+policy.Plural(policy.KindRateCard), url.Values{})
	if err != nil {
		return nil, err
	}
	var all []costmodel.Offer
	for _, raw := range list.Items {
		var card struct {
			Metadata struct{ Name string }
			Spec     policy.RateCardSpec
		}
		if err := json.Unmarshal(raw, &card); err != nil {
			return nil, fmt.Errorf("read a rate card: %w", err)
		}
		for _, o := range card.Spec.Offers() {
			o.Source = "rate card " + card.Metadata.Name
			all = append(all, o)
		}
	}
	return all, nil
}

// shipped is a source of prices: those that come with the program.
type shipped struct{}

// Name is "shipped".
func (shipped) Name() string { return "shipped" }

// Offers are always there.
func (shipped) Offers(context.Context) ([]costmodel.Offer, error) {
	return costmodel.ShippedOffers(), nil
}

// priced is an offer as it is shown. Amounts are decimal numbers of dollars.
type priced struct {
	Class           string    `json:"class"`
	Instance        string    `json:"instance,omitempty"`
	GPUs            int       `json:"gpus"`
	Region          string    `json:"region"`
	Zone            string    `json:"zone,omitempty"`
	Purchase        string    `json:"purchase"`
	USDPerHour      string    `json:"usdPerHour"`
	USDPerGPUHour   string    `json:"usdPerGpuHour"` // rounded up
	Estimate        bool      `json:"estimate,omitempty"`
	From            time.Time `json:"from,omitzero"`
	Until           time.Time `json:"until,omitzero"`
	AsOf            time.Time `json:"asOf,omitzero"`
	Origin          string    `json:"origin"`
	Source          string    `json:"source"`
	Used            bool      `json:"used"`
	Why             string    `json:"why"` // it is used, or not
	perHour, perGPU costmodel.Micros
}

// pricedOf shows the offers that the flags ask for, sorted, and which of them hold.
func (f priceFlags) pricedOf(now time.Time, offers []costmodel.Offer) []priced {
	book := costmodel.NewBook(now, offers)
	all := []priced{}
	for _, o := range offers {
		o.Purchase = cmp.Or(o.Purchase, costmodel.OnDemand)
		if f.class != "" && !strings.EqualFold(f.class, o.Class) || f.region != "" && f.region != o.Region || f.purchase != "" && f.purchase != string(o.Purchase) {
			continue
		}
		p := priced{
			Class: o.Class, Instance: o.Instance, GPUs: max(o.GPUs, 1), Region: o.Region, Zone: o.Zone, Purchase: string(o.Purchase),
			USDPerHour: decimal(o.PerHour), USDPerGPUHour: decimal(o.GPUsPerHour(1)), Estimate: o.Estimate, From: o.From, Until: o.Until, AsOf: o.AsOf,
			Origin: o.Origin.String(), Source: o.Source, perHour: o.PerHour, perGPU: o.GPUsPerHour(1),
		}
		found, ok := book.Find(costmodel.Want{Class: o.Class, Region: o.Region, Instance: o.Instance, Zone: o.Zone, Purchase: o.Purchase})
		switch {
		case now.Before(o.From):
			p.Why = "begins " + o.From.UTC().Format(time.RFC3339)
		case !o.Until.IsZero() && !now.Before(o.Until):
			p.Why = "over"
		case ok && found.Offer == o:
			p.Used, p.Why = true, found.Why()
		case ok:
			p.Why = fmt.Sprintf("%s at %s", found.Why(), found.GPUsPerHour(1))
		}
		all = append(all, p)
	}
	slices.SortStableFunc(all, func(a, b priced) int {
		return cmp.Or(
			cmp.Compare(a.Class, b.Class), cmp.Compare(a.Region, b.Region), cmp.Compare(a.Purchase, b.Purchase),
			cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Zone, b.Zone), a.From.Compare(b.From),
		)
	})
	return all
}

func decimal(m costmodel.Micros) string { return strings.Replace(m.String(), "$", "", 1) }

// printPrices shows offers, then sources.
func (a *app) printPrices(f priceFlags, list *pricelist.List, format string) error {
	now := time.Now()
	offers, states := f.pricedOf(now, list.Offers()), list.States()
	if format != "table" {
		return a.write(format, map[string]any{"at": now.UTC(), "offers": offers, "sources": states})
	}
	var rows [][]string
	for _, p := range offers {
		source := p.Source
		if p.Estimate {
			source += " (estimate)"
		}
		rows = append(rows, []string{
			p.Class, dash(p.Instance), strconv.Itoa(p.GPUs), p.Region, dash(p.Zone), p.Purchase, p.perHour.String(), p.perGPU.String(),
			since(now, p.AsOf), source, yes(p.Used), p.Why,
		})
	}
	head := []string{"CLASS", "INSTANCE", "GPUS", "REGION", "ZONE", "PURCHASE", "PER HOUR", "PER GPU-HOUR", "AGE", "SOURCE", "USED", "BECAUSE"}
	if err := a.table(head, rows); err != nil {
		return err
	}
	rows = nil
	for _, s := range states {
		rows = append(rows, []string{s.Source, string(s.Standing), strconv.Itoa(s.Offers), since(now, s.Read), strconv.Itoa(s.Failures), dash(s.Error)})
	}
	if err := a.printf("\n"); err != nil {
		return err
	}
	return a.table([]string{"ASKED", "ANSWER", "PRICES", "AGE", "FAILURES", "ERROR"}, rows)
}

// since is an age for people; a dash where nothing is known.
func since(now, then time.Time) string {
	if then.IsZero() {
		return "-"
	}
	switch d := now.Sub(then); {
	case d < time.Second:
		return "0s"
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}
