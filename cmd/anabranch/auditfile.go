package main

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"anabranch/controlplane/audit"
)

// readPath adds what is in a file, or in the files of a folder, in the order of their names.
func (t *checked) readPath(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return t.readFile(path)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		if name := e.Name(); !e.IsDir() && (strings.HasSuffix(name, ".ndjson") || strings.HasSuffix(name, ".ndjson.gz")) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("%s holds no .ndjson or .ndjson.gz files", path)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := t.readFile(filepath.Join(path, name)); err != nil {
			return err
		}
	}
	return nil
}

func (t *checked) readFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	buffered := bufio.NewReader(f)
	var r io.Reader = buffered
	if start, err := buffered.Peek(2); err == nil && start[0] == 0x1f && start[1] == 0x8b {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		r = z
	}
	if err := audit.Read(r, t.add); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (a *app) exportAudit() *cobra.Command {
	var stale bool
	cmd := &cobra.Command{
		Use:   "export [FILE]",
		Short: "Write the whole audit trail that is kept, an entry a line",
		Long: `Write the whole audit trail that is kept, an entry a line as JSON, oldest first.

A file appears only when it has come whole and its chain of hashes holds; without one the trail goes to
the output as it comes. It can be checked again with ` + "`anabranch audit verify --file`" + `.`,
		Example: `  anabranch audit export audit-$(date +%F).ndjson
  anabranch audit export | jq 'select(.action == "denied")'`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().BoolVar(&stale, "stale", false, "take what the server has, without asking a leader")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect("")
		if err != nil {
			return err
		}
		if len(args) == 0 {
			return export(cmd.Context(), c, stale, func(r io.Reader) error {
				_, err := io.Copy(a.out, r)
				return err
			})
		}
		t := newTrail(a)
		err = whole(args[0], func(w io.Writer) error {
			return export(cmd.Context(), c, stale, func(r io.Reader) error { return audit.Read(io.TeeReader(r, w), t.add) })
		})
		t.line.end()
		if err != nil {
			return err
		}
		return a.printf("exported %d entries to %s\n", t.chain.Count(), args[0])
	}
	return cmd
}

// whole makes a file of what write writes, or none.
func whole(path string, write func(io.Writer) error) error {
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(f)
	err = write(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		_ = os.Remove(part) // what went wrong is told already
	}
	return err
}
