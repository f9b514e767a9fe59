package main

import (
	"encoding/json"
	"errors"
	"fmt"
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
		Long: `Say where a request went and why.

The id stands in the answer's header x-anabranch-request-id and begins with the router's id. The
router keeps its latest requests and is asked at its admin address: --router, or the router of
` + "`anabranch dev`" + ` in this folder.`,
		Example: `  anabranch explain us-east-1-r1-4f0c21aa9be34d10
  anabranch explain us-east-1-r1-4f0c21aa9be34d10 --router http://127.0.0.1:8201 -o json`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&router, "router", "", "URL of the router's admin page")
	format := formats(cmd, "yaml", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		at := router
		if at == "" {
			var err error
			if at, err = adminOf(args[0]); err != nil {
				return err
			}
		}
		c := &client.Client{Servers: []string{trimURL(at)}}
		var raw json.RawMessage
		err := c.JSON(cmd.Context(), "/explain/"+url.PathEscape(args[0]), nil, &raw)
		if errors.Is(err, client.ErrUnreachable) {
			return fmt.Errorf("ask router %s: %w", at, err)
		}
		if err != nil {
			return err
		}
		return a.write(*format, raw)
	}
	return cmd
}

// adminOf finds the router of the demonstration that made the id.
func adminOf(id string) (string, error) {
	r, err := dev.Folder(dev.FolderName).Load()
	if errors.Is(err, os.ErrNotExist) {
		return "", errors.New("which router? give its admin URL with --router")
	}
	if err != nil {
		return "", err
	}
	for _, router := range r.Routers {
		if strings.HasPrefix(id, router.Region+"-") {
			return router.Admin, nil
		}
	}
	return "", fmt.Errorf("request id %q begins with no router of this folder's demonstration; give the admin URL with --router", id)
}
