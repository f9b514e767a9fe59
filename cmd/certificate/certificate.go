// Package certificate keeps the certificates of a process current while it runs: it reads their files
// again when they change, tells of those that are not fit, and warns before one ends. What a
// certificate is used for is up to who opens it.
package certificate

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/identity"
)

const (
	// every is how often the files are looked at. What is new in them is in force after two looks.
	every = time.Second
	// Soon is how long before its end a certificate is warned of, once each day.
	Soon = 7 * 24 * time.Hour
	// again is the pause between two warnings.
	again = 24 * time.Hour
)

// Keeper keeps what it has opened current while [Keeper.Run] runs. It is a [prometheus.Collector].
type Keeper struct {
	log   *slog.Logger
	every time.Duration
	now   func() time.Time

	reloads *prometheus.CounterVec

	mu   sync.Mutex // guards kept, and what is in them
	kept []*entry
}

// entry is one set of files.
type entry struct {
	use     string
	live    *identity.Live
	refused string // why what stands in the files is not in force; empty: it is
	warned  map[warning]time.Time
}

// New makes a keeper. It starts nothing. A nil logger is slog.Default().
func New(logger *slog.Logger) *Keeper {
	if logger == nil {
		logger = slog.Default()
	}
	return &Keeper{
		log: logger.With("component", "certificate"), every: every, now: time.Now,
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "anabranch_tls_reloads_total",
			Help: "Changes of the files of certificates, by the first word of their flags and by what became of them: renewed or refused.",
		}, []string{"use", "outcome"}),
	}
}

// Open reads the files of one use, which stands in metrics and logs: the first word of the flags
// that name the files, such as "tls" for --tls-cert.
func (k *Keeper) Open(use string, f identity.Files) (*identity.Live, error) {
	live, err := identity.Open(f)
	if err != nil {
		return nil, fmt.Errorf("--%s-cert: %w", use, err)
	}
	for _, outcome := range []string{"renewed", "refused"} {
		k.reloads.WithLabelValues(use, outcome)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept = append(k.kept, &entry{use: use, live: live})
	return live, nil
}

// Run looks at the files until ctx ends; then it returns nil.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(k.every)
	defer tick.Stop()
	for {
		k.Look()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Look looks at all files once, as [Keeper.Run] does each second: what is new is in force when the next
// look finds it unchanged.
func (k *Keeper) Look() {
	k.mu.Lock()
	kept := slices.Clone(k.kept)
	k.mu.Unlock()
	now := k.now()
	for _, e := range kept {
		verdict, err := e.live.Check(now) // files, which may be far away: not under the lock
		k.mu.Lock()
		k.tell(e, verdict, err)
		k.warn(e, now)
		k.mu.Unlock()
	}
}

// tell tells once of each thing that happens to the files. The lock is held.
func (k *Keeper) tell(e *entry, verdict identity.Verdict, err error) {
	switch verdict {
	case identity.Refused:
		if err.Error() == e.refused {
			return
		}
		e.refused = err.Error()
		k.reloads.WithLabelValues(e.use, "refused").Inc()
		k.log.Error("new certificate files are not fit, those read before stay in force", "use", e.use, "error", err, "ends", e.live.Ends())
	case identity.Renewed:
		e.refused = ""
		k.reloads.WithLabelValues(e.use, "renewed").Inc()
		k.log.Info("certificate files read again", "use", e.use, "ends", e.live.Ends())
	case identity.Current:
		if e.refused != "" {
			k.log.Info("certificate files are as they were", "use", e.use, "ends", e.live.Ends())
		}
		e.refused = ""
	case identity.Changing:
	}
}

// warn tells once a day of what ends soon, and of what has ended. The lock is held.
func (k *Keeper) warn(e *entry, now time.Time) {
	warned := map[warning]time.Time{}
	for _, end := range e.ends(now) {
		if end.at.Sub(now) > Soon {
			continue
		}
		w := warning{end.use, end.at.Unix(), now.After(end.at)}
		last, told := e.warned[w]
		if told && now.Sub(last) < again {
			warned[w] = last
			continue
		}
		warned[w] = now
		attrs := []any{"use", end.use, "file", end.file, "ends", end.at}
		if w.over {
			k.log.Error("certificate has ended", attrs...)
		} else {
			k.log.Warn("certificate ends soon", attrs...)
		}
	}
	e.warned = warned
}

// warning is what is told once a day.
type warning struct {
	use  string
	at   int64 // s since 1970
	over bool
}

// end is when something ends.
type end struct {
	use, file string
	at        time.Time
}

// ends are the certificate's, and the authority's that ends first.
func (e *entry) ends(now time.Time) []end {
	f := e.live.Files()
	out := []end{{e.use, f.Cert, e.live.Ends()}}
	if f.CA != "" {
		out = append(out, end{e.use + "-ca", f.CA, e.live.AuthorityEnds(now)})
	}
	return out
}

var (
	expiry = prometheus.NewDesc(
		"anabranch_tls_certificate_expiry_timestamp_seconds",
		"When the certificate in force ends, by the first word of the flag that names its file; -ca: the authority in the file that ends first.",
		[]string{"use"}, nil,
	)
	refused = prometheus.NewDesc(
		"anabranch_tls_files_refused",
		"1 while the files of a certificate are not fit to take the place of what was read before.",
		[]string{"use"}, nil,
	)
)

// Describe implements [prometheus.Collector].
func (k *Keeper) Describe(ch chan<- *prometheus.Desc) {
	ch <- expiry
	ch <- refused
	k.reloads.Describe(ch)
}

// Collect implements [prometheus.Collector].
func (k *Keeper) Collect(ch chan<- prometheus.Metric) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	for _, e := range k.kept {
		for _, end := range e.ends(now) {
			ch <- prometheus.MustNewConstMetric(expiry, prometheus.GaugeValue, float64(end.at.Unix()), end.use)
		}
		bad := 0.0
		if e.refused != "" {
			bad = 1
		}
		ch <- prometheus.MustNewConstMetric(refused, prometheus.GaugeValue, bad, e.use)
	}
	k.reloads.Collect(ch)
}
