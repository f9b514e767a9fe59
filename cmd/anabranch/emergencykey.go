package main

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	orders "anabranch/api/order"
	sealed "anabranch/api/order/signed"
	"anabranch/api/routerpb"
	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/rest"
)

// keyPath is the file of the private key that orders are to be signed with; empty: they are not.
func keyPath(flag string) string {
	if flag != "" {
		return flag
	}
	return environment("ANABRANCH_EMERGENCY_KEY")
}

func (a *app) keygen() *cobra.Command {
	var name, who string
	cmd := &cobra.Command{
		Use:   "keygen FILE",
		Short: "Make a key to sign emergency orders with",
		Long: `Make a key to sign emergency orders with.

The private half is written to FILE, which only you may read. The public half is printed: put the line into
the files that --emergency-keys of nodes and routers name, which are read again when they change. Taking it
out ends the key, and the orders that it gave.`,
		Example: "  anabranch emergency keygen ~/.anabranch/emergency.pem --name ann --who \"Ann, SRE on call\"",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&name, "name", "", "who signs with it, as lists and the audit trail say (required)")
	cmd.Flags().StringVar(&who, "who", "", "more of that, for people")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		private, err := sealed.Generate()
		if err != nil {
			return err
		}
		public := private.Public().(ed25519.PublicKey) //nolint:forcetypeassert // package ed25519 says so
		line := sealed.Key{ID: sealed.KeyID(public), Name: name, Who: who, Public: public}.String()
		switch read, err := sealed.ParseKeys([]byte(line)); {
		case err != nil:
			return fmt.Errorf("--name or --who: %w", err)
		case len(read) != 1 || read[0].Name != name || read[0].Who != who:
			return fmt.Errorf("--name %q or --who %q would not be read as it is written: give one word as the name, and one line of single-spaced text as who", name, who)
		}
		text, err := sealed.EncodePrivate(private)
		if err != nil {
			return err
		}
		f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s is there already: orders that its key signed could not be taken back; name another file", args[0])
		}
		if err != nil {
			return err
		}
		_, err = f.Write(text)
		if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(a.err, "private key in %s; key id %s; public half:\n", args[0], sealed.KeyID(public)) // the line is what counts
		return a.printf("%s\n", line)
	}
	return cmd
}

// sign gives an order under a signature to every node that answers.
func (a *app) sign(ctx context.Context, c *client.Client, path string, o orders.Order) error {
	p := &routerpb.SignedPayload{Order: o.Proto()}
	id, taken, err := a.signed(ctx, c, path, p)
	if err != nil {
		return err
	}
	return a.printGiven(id, &o, o.Expires, taken.OverruledBy)
}

func (a *app) signCancel(ctx context.Context, c *client.Client, path, id string) error {
	if _, _, err := a.signed(ctx, c, path, &routerpb.SignedPayload{Cancel: id}); err != nil {
		return err
	}
	return a.printf("order %s ended\n", id)
}

// signedTaken is a node's answer.
type signedTaken struct {
	ID          string `json:"id"`
	Actor       string `json:"actor"`
	OverruledBy string `json:"overruledBy"`
}

// signed signs a payload and sends it to each server in turn, since they may not reach each other. One that takes it is
// enough; those that don't are told of.
func (a *app) signed(ctx context.Context, c *client.Client, path string, p *routerpb.SignedPayload) (string, signedTaken, error) {
	private, err := sealed.ReadPrivate(path)
	if err != nil {
		return "", signedTaken{}, err
	}
	if p.ClusterId, err = clusterID(ctx, c); err != nil {
		return "", signedTaken{}, err
	}
	if p.Counter, err = count(path, time.Now()); err != nil {
		return "", signedTaken{}, err
	}
	m, err := sealed.Sign(private, p)
	if err != nil {
		return "", signedTaken{}, err
	}
	body, err := json.Marshal(map[string]string{
		"payload": base64.StdEncoding.EncodeToString(m.GetPayload()), "key": m.GetKey(), "signature": base64.StdEncoding.EncodeToString(m.GetSignature()),
	})
	if err != nil {
		return "", signedTaken{}, err
	}
	var taken signedTaken
	var failed error
	var took []string
	for _, server := range c.Servers {
		one := *c
		one.Servers = []string{server}
		answer, err := one.Do(ctx, client.Call{Method: http.MethodPost, Path: "/v1/emergency/signed", Body: body})
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", server, err))
			continue
		}
		if err := json.Unmarshal(answer.Body, &taken); err != nil {
			return "", taken, fmt.Errorf("answer of %s: %w", server, err)
		}
		took = append(took, server)
	}
	if len(took) == 0 {
		return "", taken, fmt.Errorf("no node took the order; on each router's machine: anabranch-router order\n%w", failed)
	}
	if failed != nil {
		_, _ = fmt.Fprintf(a.err, "note: taken by %s, and not by all that were asked:\n%v\n", strings.Join(took, ", "), failed) // it holds all the same
	}
	id := p.GetCancel()
	if p.GetOrder() != nil {
		id = sealed.ID(m.GetKey(), p.GetCounter())
	}
	return id, taken, nil
}

// clusterID is which control plane orders are for. Any node tells it, with no quorum and no token.
func clusterID(ctx context.Context, c *client.Client) (string, error) {
	var what rest.SignedFor
	if err := c.JSON(ctx, "/v1/emergency/signed", nil, &what); err != nil {
		return "", fmt.Errorf("ask which control plane this is: %w", err)
	}
	return what.ClusterID, nil
}

// count gives the next counter of a key: the time in milliseconds, or one more than the last, which is kept beside the
// key. So a counter is not used twice though that file is lost, or two machines have the key.
func count(keyFile string, now time.Time) (uint64, error) {
	path := keyFile + ".counter"
	next := uint64(max(1, now.UnixMilli()))
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return 0, err
	default:
		last, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s holds no counter: remove it", path)
		}
		next = max(next, last+1)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return 0, err
	}
	_, err = f.WriteString(strconv.FormatUint(next, 10) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // best effort: it is small
		return 0, fmt.Errorf("keep the counter of the key: %w", err)
	}
	return next, nil
}
