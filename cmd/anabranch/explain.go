package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
	"anabranch/cmd/anabranch/dev"
)

func (a *app) explain() *cobra.Command {
	var router string
	cmd := &cobra.Command{
		Use:   "explain REQUEST_ID",
		Short: "Say where a request went and why",
		Long: `Say where a request went and why: which clusters could have served it and what removed the others,
which endpoints were tried, what was expected of each and what came.

The id stands in the answer's header x-anabranch-request-id and begins with the router's id. The
router keeps its latest requests and is asked at its admin address: --router, or the router of
` + "`anabranch dev`" + ` in this folder. There a request that went on to another region's router is followed
to that. With --router the client's own x-request-id will do too, of which there may be several.`,
		Example: `  anabranch explain us-east-1-r1-4f0c21aa9be34d10
  anabranch explain us-east-1-r1-4f0c21aa9be34d10 --router http://127.0.0.1:8201 -o json`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&router, "router", "", "URL of the router's admin page")
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var others map[string]string // admin URLs of routers by region
		at := router
		if at == "" {
			var err error
			if at, others, err = adminOf(args[0]); err != nil {
				return err
			}
		}
		raw, err := recordOf(cmd.Context(), at, args[0])
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
			if err := a.follow(cmd.Context(), r, others); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
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
func (a *app) follow(ctx context.Context, r *record, others map[string]string) error {
	seen := map[string]bool{}
	for _, t := range r.Attempts {
		at, known := others[t.Region]
		if t.Why != "hop" || !known || seen[t.Region] {
			continue
		}
		seen[t.Region] = true
		raw, err := recordOf(ctx, at, r.ID)
		switch {
		case client.IsStatus(err, http.StatusNotFound):
			err = a.printf("\nthe router of %s has no record of it\n", t.Region)
		case errors.Is(err, client.ErrUnreachable):
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

// adminOf finds the router of the demonstration that made the id, and those of other regions.
func adminOf(id string) (at string, others map[string]string, err error) {
	r, err := dev.Folder(dev.FolderName).Load()
	if errors.Is(err, os.ErrNotExist) {
		return "", nil, errors.New("which router? give its admin URL with --router")
	}
	if err != nil {
		return "", nil, err
	}
	others = map[string]string{}
	for _, router := range r.Routers {
		if strings.HasPrefix(id, router.Region+"-") {
			at = router.Admin
		} else {
			others[router.Region] = router.Admin
		}
	}
	if at == "" {
		return "", nil, fmt.Errorf("request id %q begins with no router of this folder's demonstration; give the admin URL with --router", id)
	}
	return at, others, nil
}
