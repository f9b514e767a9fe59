package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
	"anabranch/cmd/anabranch/dev"
)

func (a *app) explain() *cobra.Command {
	var router, region string
	var now bool
	cmd := &cobra.Command{
		Use:   "explain REQUEST_ID",
		Short: "Say where a request went and why",
		Long: `Say where a request went and why: which clusters could have served it and what removed the others,
which endpoints were tried, what was expected of each and what came.

The id stands in the answer's header x-anabranch-request-id and begins with the router's id. Any node of
the control plane asks that router, which remembers its latest requests, and the routers of other
regions that the request went on to. When the control plane can't be asked, the router of ` + "`anabranch dev`" + `
in this folder is. With --router the router is asked at its admin address alone, and the client's own
x-request-id will do too, of which there may be several.

With --now the control plane compares what the router remembers with the table, the signals and the plan
of now: where such a request would go, and why not elsewhere. --why-not narrows that to one region.`,
		Example: `  anabranch explain us-east-1-r1-4f0c21aa9be34d10
  anabranch explain us-east-1-r1-4f0c21aa9be34d10 --router http://127.0.0.1:8201 -o json
  anabranch explain us-east-1-r1-4f0c21aa9be34d10 --why-not eu-west-1`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&router, "router", "", "URL of the router's admin page, which is asked instead of the control plane")
	cmd.Flags().BoolVar(&now, "now", false, "say what would become of it now")
	cmd.Flags().StringVar(&region, "why-not", "", "say what would become of it now in this `region`, and why it would not go there")
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if now || region != "" {
			if router != "" {
				return misused(errors.New("what is now the control plane tells, and no router: leave --router out"))
			}
			c, err := a.connect("")
			if err != nil {
				return err
			}
			return a.explainNow(cmd.Context(), c, args[0], region, *format)
		}
		raw, from, err := a.ask(cmd.Context(), args[0], router)
		if err != nil {
			return err
		}
		if *format != "table" {
			return a.write(*format, raw)
		}
		for i, one := range eachOf(raw) {
			if i > 0 {
				if err := a.printf("\n"); err != nil {
					return err
				}
			}
			r, err := a.printRecord(one)
			if err != nil {
				return err
			}
			if err := a.follow(cmd.Context(), r, from); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

// teller tells what routers remember of a request.
type teller interface {
	// record is of the router that gave the request its name, elsewhere of one of another region that it
	// went on to. False: no such router is known.
	record(ctx context.Context, id string) (json.RawMessage, error)
	elsewhere(ctx context.Context, region, id string) (raw json.RawMessage, known bool, err error)
}

// ask finds who has a record of a request: the router at a URL, or with none the control plane, or else
// the demonstration of this folder.
func (a *app) ask(ctx context.Context, id, router string) (json.RawMessage, teller, error) {
	if router != "" {
		from := pages{at: router}
		raw, err := from.record(ctx, id)
		return raw, from, err
	}
	c, err := a.connect("")
	if err != nil {
		return nil, nil, fmt.Errorf("%w; or give the router's admin URL with --router", err)
	}
	raw, err := central{c}.record(ctx, id)
	if err == nil || !askRouter(err) {
		return raw, central{c}, err
	}
	from, missing := demoRouters(id)
	if missing != nil {
		return nil, nil, fmt.Errorf("%w; the router itself can be asked at its admin URL with --router", err)
	}
	raw, err = from.record(ctx, id)
	return raw, from, err
}

// askRouter says whether the router itself may know more than the control plane, which could not ask it
// or does not know how to.
func askRouter(err error) bool {
	var p *client.ProblemError
	if !errors.As(err, &p) {
		return errors.Is(err, client.ErrUnreachable)
	}
	return slices.Contains([]string{"router_not_connected", "router_too_old", "router_silent", "unknown_router", "not_found"}, p.Code)
}

// central asks routers by way of the control plane.
type central struct{ c *client.Client }

// maxSiblings bounds how many routers of a region are asked for what one of them knows.
const maxSiblings = 16

func (t central) record(ctx context.Context, id string) (json.RawMessage, error) {
	return t.of(ctx, id, nil)
}

func (t central) of(ctx context.Context, id string, query url.Values) (json.RawMessage, error) {
	var raw json.RawMessage
	err := t.c.JSON(ctx, "/v1/explain/"+url.PathEscape(id), query, &raw)
	return raw, err
}

// elsewhere asks the routers of a region in turn: nobody knows which of them it came to.
func (t central) elsewhere(ctx context.Context, region, id string) (json.RawMessage, bool, error) {
	var page struct {
		Items []router `json:"items"`
	}
	if err := t.c.JSON(ctx, "/v1/routers", url.Values{"region": {region}, "limit": {strconv.Itoa(maxSiblings)}}, &page); err != nil {
		return nil, false, err
	}
	var err error
	for _, r := range page.Items {
		var raw json.RawMessage
		if raw, err = t.of(ctx, id, url.Values{"router": {r.ID}}); err == nil {
			return raw, true, nil
		}
	}
	return nil, len(page.Items) > 0, err
}

// pages asks routers at their admin addresses: the one at a URL, and those of other regions by region.
type pages struct {
	at     string
	others map[string]string
}

func (t pages) record(ctx context.Context, id string) (json.RawMessage, error) {
	return recordOf(ctx, t.at, id)
}

func (t pages) elsewhere(ctx context.Context, region, id string) (json.RawMessage, bool, error) {
	at, known := t.others[region]
	if !known {
		return nil, false, nil
	}
	raw, err := recordOf(ctx, at, id)
	return raw, true, err
}

// eachOf is the records of an answer: a client may have given several requests the same name.
func eachOf(raw json.RawMessage) []json.RawMessage {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if json.Unmarshal(raw, &list) == nil && list.Items != nil {
		return list.Items
	}
	return []json.RawMessage{raw}
}

// recordOf asks a router at its admin address for its record of a request.
func recordOf(ctx context.Context, at, id string) (json.RawMessage, error) {
	c := &client.Client{Servers: []string{trimURL(at)}}
	var raw json.RawMessage
	err := c.JSON(ctx, "/explain/"+url.PathEscape(id), nil, &raw)
	switch {
	case errors.Is(err, client.ErrUnreachable):
		err = fmt.Errorf("ask router %s: %w", at, err)
	case client.IsStatus(err, http.StatusNotFound):
		err = fmt.Errorf("router %s has no record of %s: %w", at, id, err)
	}
	return raw, err
}

// follow shows what the routers of other regions that a request went on to have to say of it, where
// they are known and have something.
func (a *app) follow(ctx context.Context, r *record, from teller) error {
	seen := map[string]bool{}
	for _, t := range r.Attempts {
		if t.Why != "hop" || seen[t.Region] {
			continue
		}
		seen[t.Region] = true
		raw, known, err := from.elsewhere(ctx, t.Region, r.ID)
		var p *client.ProblemError
		switch {
		case !known && err == nil:
		case client.IsStatus(err, http.StatusNotFound):
			err = a.printf("\nthe router of %s has no record of it\n", t.Region)
		case errors.Is(err, client.ErrUnreachable), errors.As(err, &p):
			err = a.printf("\nthe router of %s can't be asked\n", t.Region)
		case err == nil:
			if err = a.printf("\n"); err == nil {
				_, err = a.printRecord(raw)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// demoRouters finds the router of this folder's demonstration that made the id, and those of other
// regions.
func demoRouters(id string) (pages, error) {
	r, err := dev.Folder(dev.FolderName).Load()
	if err != nil {
		return pages{}, err
	}
	from := pages{others: map[string]string{}}
	for _, router := range r.Routers {
		if strings.HasPrefix(id, router.Region+"-") {
			from.at = router.Admin
		} else {
			from.others[router.Region] = router.Admin
		}
	}
	if from.at == "" {
		return pages{}, fmt.Errorf("request id %q begins with no router of this folder's demonstration", id)
	}
	return from, nil
}
