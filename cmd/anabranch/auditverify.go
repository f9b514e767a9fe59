package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/audit"
	"anabranch/controlplane/state/statepb"
)

// verified is what a check has found, for people and programs.
type verified struct {
	Entries uint64       `json:"entries"`
	First   audit.Anchor `json:"first"`
	Last    audit.Anchor `json:"last"`
	// Complete: it begins with the first entry of all. Else Before is the hash that it goes on from.
	Complete bool   `json:"complete"`
	Before   string `json:"before,omitempty"`
	// Servers that were found to hold the same; empty: there was one, or none was asked.
	Servers []string `json:"servers,omitempty"`
}

// verifyOptions are the flags of a check.
type verifyOptions struct {
	files                   []string
	after, anchor           string
	allServers, live, stale bool
}

func (a *app) verifyAudit() *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that nothing in the audit trail was changed, added or taken out",
		Long: `Check that nothing in the audit trail was changed, added or taken out.

The trail is fetched and its chain of hashes computed here: the servers are not trusted. What this can't
see by itself is a whole history that was written anew, so keep an anchor: the hash of the last entry, in a
file that the servers can't reach. The next run then finds a history that is another one, or shorter.

The control plane keeps the newest entries. Archives of the older ones are checked with --file, which takes
exports, archived files, and folders of them, and with --live goes on with what the servers have.

Exit codes: 0 all is good, 1 something is not, and which entry it is.`,
		Example: `  anabranch audit verify --anchor /media/stick/audit.anchor
  anabranch audit verify --all-servers
  anabranch audit verify --file archive/ --live
  anabranch audit verify --file export.ndjson --after 9f86d081884c7d65…`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.files, "file", nil, "exports or archived files, or folders of them, instead of the servers' trail")
	f.BoolVar(&o.live, "live", false, "with --file: go on with the servers' trail")
	f.StringVar(&o.after, "after", "", "hash of an entry that must be there, or just before the first")
	f.StringVar(&o.anchor, "anchor", "", "file that remembers the last entry found good; made if it is not there")
	f.BoolVar(&o.allServers, "all-servers", false, "ask every server named, and compare them")
	f.BoolVar(&o.stale, "stale", false, "take what a server has, without asking a leader")
	cmd.MarkFlagsMutuallyExclusive("after", "anchor")
	cmd.MarkFlagsMutuallyExclusive("file", "all-servers")
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		found, err := a.verify(cmd.Context(), o)
		if err != nil {
			return err
		}
		if *format != "table" {
			return a.write(*format, found)
		}
		return a.printVerified(found)
	}
	return cmd
}

func (a *app) printVerified(v *verified) error {
	if err := a.printf("good: %d entries, %d to %d\nlast      %s\n", v.Entries, v.First.Sequence, v.Last.Sequence, v.Last.SHA256); err != nil {
		return err
	}
	if len(v.Servers) > 0 {
		if err := a.printf("servers   %d hold the same\n", len(v.Servers)); err != nil {
			return err
		}
	}
	if v.Complete {
		return a.printf("complete  from the first entry on\n")
	}
	return a.printf("complete  from entry %d on; %d before it are not here, the last with the hash\n          %s\n", v.First.Sequence, v.First.Sequence-1, v.Before)
}

// verify checks what the options name.
func (a *app) verify(ctx context.Context, o verifyOptions) (*verified, error) {
	if o.live && len(o.files) == 0 {
		return nil, errors.New("--live goes with --file; without it the servers' trail is checked anyway")
	}
	t := newTrail(a)
	defer t.line.end()
	if err := t.follow(o); err != nil {
		return nil, err
	}
	for _, path := range o.files {
		if err := t.readPath(path); err != nil {
			return nil, err
		}
	}
	var servers []string
	if len(o.files) == 0 || o.live {
		c, err := a.connect("")
		if err != nil {
			return nil, err
		}
		if !o.allServers {
			if err := t.fetch(ctx, c, o.stale); err != nil {
				return nil, err
			}
		} else if servers, err = t.fetchAll(ctx, c, o.stale); err != nil {
			return nil, err
		}
	}
	if t.chain.Count() == 0 {
		return nil, errors.New("there is no audit entry to check")
	}
	if t.follower != nil {
		if err := t.follower.End(); err != nil {
			return nil, err
		}
	}
	found := t.verified()
	found.Servers = servers
	if o.anchor != "" {
		return found, writeAnchor(o.anchor, found.Last)
	}
	return found, nil
}

// checked is a trail that is being checked.
type checked struct {
	line     *line
	chain    audit.Chain
	follower *audit.Follower // nil: there is no anchor
	sums     [][]byte        // of the entries added, to meet them again
}

func newTrail(a *app) *checked { return &checked{line: a.line()} }

// follow reads the anchor, if there is one.
func (t *checked) follow(o verifyOptions) error {
	from := audit.Anchor{SHA256: o.after}
	if o.anchor != "" {
		text, err := os.ReadFile(o.anchor)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil {
			err = json.Unmarshal(text, &from)
		}
		if err != nil {
			return fmt.Errorf("read anchor %s: %w", o.anchor, err)
		}
	} else if o.after == "" {
		return nil
	}
	var err error
	t.follower, err = audit.Follow(from)
	return err
}

// add takes an entry. One that was there already must be the same: archives overlap where a leader was lost.
func (t *checked) add(e audit.Entry) error {
	h, err := e.Hashed()
	if err != nil {
		return err
	}
	if first := t.chain.First(); first != nil && h.GetSequence() >= first.GetSequence() && h.GetSequence() <= t.chain.Last().GetSequence() {
		return t.again(h, t.sums[h.GetSequence()-first.GetSequence()])
	}
	if last := t.chain.Last(); last != nil && h.GetSequence() > last.GetSequence()+1 {
		return fmt.Errorf("the entries %d to %d are missing", last.GetSequence()+1, h.GetSequence()-1)
	}
	if err := t.chain.Add(h); err != nil {
		return err
	}
	t.sums = append(t.sums, h.GetSha256())
	t.line.show("%d entries checked", t.chain.Count())
	if t.follower != nil {
		return t.follower.Add(h)
	}
	return nil
}

// again meets an entry that was added before.
func (t *checked) again(h *statepb.AuditEntry, known []byte) error {
	if sum := audit.Sum(h); string(sum[:]) != string(h.GetSha256()) || string(known) != string(sum[:]) {
		return &audit.BrokenError{Sequence: h.GetSequence(), Index: h.GetIndex(), Reason: "is there twice, and not the same: one of the two was changed, or the cluster was restored from a backup before it"}
	}
	return nil
}

func (t *checked) verified() *verified {
	v := &verified{
		Entries: t.chain.Count(), First: audit.AnchorOf(t.chain.First()), Last: audit.AnchorOf(t.chain.Last()), Complete: t.chain.Whole(),
	}
	if !v.Complete {
		v.Before = hex.EncodeToString(t.chain.First().GetPreviousSha256())
	}
	return v
}

// fetch adds the trail of the first server that answers.
func (t *checked) fetch(ctx context.Context, c *client.Client, stale bool) error {
	return export(ctx, c, stale, func(r io.Reader) error { return audit.Read(r, t.add) })
}

// export hands the servers' trail to read as it comes.
func export(ctx context.Context, c *client.Client, stale bool, read func(io.Reader) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		query := url.Values{}
		if stale {
			query.Set("consistency", "stale")
		}
		err := c.Download(ctx, "/v1/audit/export", query, w)
		_ = w.CloseWithError(err) // always nil
		done <- err
	}()
	err := read(r)
	_ = r.CloseWithError(err) // always nil; ends the download if reading did
	cancel()
	if came := <-done; came != nil && (err == nil || errors.Is(err, came)) {
		return came
	}
	return err
}

// fetchAll adds the trail of every server, and says which entry they differ in.
func (t *checked) fetchAll(ctx context.Context, c *client.Client, stale bool) ([]string, error) {
	for i, server := range c.Servers {
		one := *c
		one.Servers = []string{server}
		if i == 0 {
			if err := t.fetch(ctx, &one, stale); err != nil {
				return nil, fmt.Errorf("%s: %w", server, err)
			}
			continue
		}
		other := &checked{line: t.line}
		err := other.fetch(ctx, &one, stale)
		if err == nil {
			err = t.compare(other)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", server, err)
		}
	}
	return c.Servers, nil
}

// compare holds another server's trail to this one, as far as both go.
func (t *checked) compare(other *checked) error {
	if t.chain.Count() == 0 || other.chain.Count() == 0 {
		return errors.New("a server has no audit entry yet")
	}
	from := max(t.chain.First().GetSequence(), other.chain.First().GetSequence())
	to := min(t.chain.Last().GetSequence(), other.chain.Last().GetSequence())
	if from > to {
		return fmt.Errorf("it holds the entries %d to %d, of which the first server has none", other.chain.First().GetSequence(), other.chain.Last().GetSequence())
	}
	for n := from; n <= to; n++ {
		a, b := t.sums[n-t.chain.First().GetSequence()], other.sums[n-other.chain.First().GetSequence()]
		if string(a) != string(b) {
			return fmt.Errorf("audit entry %d is not the one of the first server: %x there, %x here", n, a, b)
		}
	}
	return nil
}

// writeAnchor replaces the file whole.
func writeAnchor(path string, at audit.Anchor) error {
	text, err := json.Marshal(at)
	if err != nil {
		return fmt.Errorf("write anchor: %w", err)
	}
	part := path + ".part"
	if err := os.WriteFile(part, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write anchor: %w", err)
	}
	if err := os.Rename(part, filepath.Clean(path)); err != nil {
		return fmt.Errorf("write anchor: %w", err)
	}
	return nil
}
