// Package archive brings the audit trail to where backups are, before the control plane lets its oldest
// entries go: files of entries as package audit writes them, compressed. The leader writes them, and each is
// confirmed by a command, so that the next leader goes on after it.
package archive

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/audit"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

const (
	// DefaultEntries is the default of Options.Entries: a tenth of what the state keeps.
	DefaultEntries = state.MaxAudit / 10
	// DefaultInterval is the default of Options.Interval.
	DefaultInterval = time.Hour
	// maxEntries bounds a file: more is left to the next.
	maxEntries = 2 * DefaultEntries
	// look is how often the trail is looked at, and the wait after a failure.
	look = 10 * time.Second
	// timeout bounds one file at all places.
	timeout = 5 * time.Minute
)

// Folder is where the files are within a place.
const Folder = "audit"

// Place is where archives are kept, such as those of package backup.
type Place interface {
	// String names the place for logs, without secrets.
	String() string
	// Put keeps a file of size bytes under a name, whole or not at all.
	Put(ctx context.Context, name string, file io.ReadSeeker, size int64) error
}

// Options of an archiver. All but Entries, Interval, Now and Logger are required.
type Options struct {
	// Places get every file.
	Places []Place
	// Entries that are not archived make a file; 0: DefaultEntries.
	Entries uint64
	// Interval after which fewer make one too; 0: DefaultInterval.
	Interval time.Duration
	// Leading says whether this node leads: the others archive nothing.
	Leading func() bool
	View    func() *state.View
	Propose func(context.Context, *statepb.Command) (*statepb.Outcome, error)
	Node    fleet.NodeID
	// Now is time.Now when nil. Logger is slog.Default() when nil.
	Now    func() time.Time
	Logger *slog.Logger
}

// Validate names the option that is missing or wrong.
func (o Options) Validate() error {
	switch {
	case len(o.Places) == 0:
		return errors.New("archive: Places is empty: name a folder or a bucket")
	case o.Entries > maxEntries:
		return fmt.Errorf("archive: Entries is %d, the most is %d", o.Entries, maxEntries)
	case o.Interval < 0:
		return errors.New("archive: Interval is negative; 0 takes the default")
	case o.Leading == nil || o.View == nil || o.Propose == nil:
		return errors.New("archive: Leading, View and Propose are needed: give those of the node")
	}
	return nil
}

// Archiver writes archives while its node leads.
type Archiver struct {
	o      Options
	logger *slog.Logger
	// archived and lost count entries, failures files.
	archived, lost, failures atomic.Uint64
}

// New makes an archiver that Run starts.
func New(o Options) (*Archiver, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Entries == 0 {
		o.Entries = DefaultEntries
	}
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Archiver{o: o, logger: o.Logger.With("component", "archive")}, nil
}

// Run archives until ctx ends. What fails is logged, counted and tried again.
func (a *Archiver) Run(ctx context.Context) error {
	tick := time.NewTicker(min(look, a.o.Interval))
	defer tick.Stop()
	for {
		for a.step(ctx) { // one file after another until nothing is due
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// step writes a file if one is due, and says whether it did.
func (a *Archiver) step(ctx context.Context) bool {
	if ctx.Err() != nil || !a.o.Leading() {
		return false
	}
	view := a.o.View()
	from, to, ok := due(view, a.o.Entries, a.o.Interval, a.o.Now())
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := a.archive(ctx, view, from, to); err != nil {
		a.failures.Add(1)
		a.logger.Error("audit trail not archived", "from", from, "to", to, "error", err)
		return false
	}
	a.archived.Add(to - from + 1)
	return true
}

// due says which entries make the next file, by number: when there are enough, or when the oldest has
// waited long enough, unless they tell of nothing but archives.
func due(v *state.View, enough uint64, interval time.Duration, now time.Time) (from, to uint64, ok bool) {
	if v.FeatureLevel() < 3 {
		return 0, 0, false
	}
	archived, _ := v.AuditArchived()
	from = max(archived, v.AuditDropped()) + 1
	oldest, news := v.AuditEntry(from), false
	for to = from; to-from < maxEntries; to++ {
		e := v.AuditEntry(to)
		if e == nil {
			break
		}
		news = news || e.GetAction() != "archive"
	}
	switch {
	case to == from:
		return 0, 0, false
	case to-from >= enough, news && now.Sub(time.UnixMilli(oldest.GetAtUnixMs())) >= interval:
		return from, to - 1, true
	}
	return 0, 0, false
}

// archive writes a file to every place, and has that confirmed.
func (a *Archiver) archive(ctx context.Context, view *state.View, from, to uint64) error {
	file, err := pack(view, from, to)
	if err != nil {
		return err
	}
	name := Name(view, from, to)
	for _, p := range a.o.Places {
		if err := p.Put(ctx, name, bytes.NewReader(file), int64(len(file))); err != nil {
			return fmt.Errorf("put %s at %s: %w", name, p, err)
		}
	}
	sum := sha256.Sum256(file)
	out, err := a.o.Propose(ctx, &statepb.Command{
		AtUnixMs: a.o.Now().UnixMilli(), Actor: &statepb.Actor{Name: "system/" + string(a.o.Node), Role: "system"},
		Op: &statepb.Command_ArchiveAudit{ArchiveAudit: &statepb.ArchiveAudit{
			From: from, To: to, Sha256: view.AuditEntry(to).GetSha256(), FileSha256: sum[:], Name: name,
		}},
	})
	if err != nil {
		return fmt.Errorf("confirm %s: %w", name, err)
	}
	if out.GetCode() != "" {
		return fmt.Errorf("confirm %s: %s: %s", name, out.GetCode(), out.GetMessage())
	}
	if before, _ := view.AuditArchived(); from > before+1 {
		a.lost.Add(from - before - 1)
		a.logger.Error("audit entries fell out of the trail before they were archived", "from", before+1, "to", from-1)
	}
	a.logger.Info("audit trail archived", "name", name, "entries", to-from+1, "bytes", len(file))
	return nil
}

// Name is what a file is called at a place. Files of one history sort by their entries.
func Name(v *state.View, from, to uint64) string {
	lineage := v.Lineage()
	if lineage == "" {
		lineage = "0"
	}
	return fmt.Sprintf("%s/anabranch-%s-%s-%012d-%012d.ndjson.gz", Folder, v.ClusterID(), lineage, from, to)
}

// pack writes entries as a file, and proves it good by reading it again.
func pack(v *state.View, from, to uint64) ([]byte, error) {
	var file bytes.Buffer
	z := gzip.NewWriter(&file)
	err := audit.Write(z, func(yield func(audit.Entry) bool) {
		for n := from; n <= to; n++ {
			if !yield(audit.Of(v.AuditEntry(n), n)) {
				return
			}
		}
	})
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("pack audit entries: %w", err)
	}
	if err := prove(file.Bytes(), from, to); err != nil {
		return nil, fmt.Errorf("read audit entries again: %w", err)
	}
	return file.Bytes(), nil
}

// prove reads a file, and checks that its entries are a chain from one number to another.
func prove(file []byte, from, to uint64) error {
	z, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		return err
	}
	var chain audit.Chain
	err = audit.Read(z, func(e audit.Entry) error {
		h, err := e.Hashed()
		if err != nil {
			return err
		}
		return chain.Add(h)
	})
	if err != nil {
		return err
	}
	if chain.First().GetSequence() != from || chain.Last().GetSequence() != to {
		return fmt.Errorf("it holds the entries %d to %d, not %d to %d", chain.First().GetSequence(), chain.Last().GetSequence(), from, to)
	}
	return nil
}
