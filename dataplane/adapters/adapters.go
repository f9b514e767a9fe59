// Package adapters looks whether model servers have the adapters of their models before requests go to them again. A
// server that has started anew answers for its model at once, and for an adapter with a 404, and nobody asks it for one
// while its cluster is out of use. Which clusters these are, and what follows from a lack, is others' to say.
package adapters

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

const (
	// DefaultEvery is the default of Options.Every.
	DefaultEvery = 3 * time.Second
	// MaxNamed is how many missing adapters of a place are told at most.
	MaxNamed = 16

	within   = 2 * time.Second  // for one question
	together = 8                // servers that are asked at the same time
	asks     = 8                // adapters that one server is asked for in one look
	believed = 30 * time.Second // that it answered for one
	maxPage  = 4 << 20          // bytes of a list of models
)

// Place is a model on a cluster of this region that is out of use.
type Place struct {
	Cluster *table.Cluster
	Model   fleet.ModelID
	// Adapters of the model, as clients know them.
	Adapters []string
	// URLs of the model servers that would take requests.
	URLs []string
}

// Options of a [Looker]. Places and Send are needed.
type Options struct {
	// Places are those to look at now.
	Places func() []Place
	// Send sends a request to a cluster, signed as it wants it.
	Send func(c *table.Cluster, r *http.Request, body []byte) (*http.Response, error)
	// Canary is the header that marks requests which are nobody's. Empty: none.
	Canary string
	// Every is the pause between two looks. 0: DefaultEvery.
	Every time.Duration
	// Now tells the time. Nil: the clock. Logger; nil: slog.Default().
	Now    func() time.Time
	Logger *slog.Logger
}

// Looker looks at places. It is safe for concurrent use.
type Looker struct {
	o   Options
	log *slog.Logger

	mu    sync.Mutex // guards found
	found map[key]finding

	words map[server]map[string]word // on adapters; Run's alone
}

type key struct {
	cluster fleet.ClusterID
	model   fleet.ModelID
}

type server struct {
	key
	url string
}

// word is what a server last showed of an adapter: that it has it, or not.
type word struct {
	has bool
	at  time.Time
}

// finding is what a look found.
type finding struct {
	missing []string
	at      time.Time
}

// New makes a looker. It starts nothing.
func New(o Options) (*Looker, error) {
	if o.Places == nil || o.Send == nil {
		return nil, errors.New("adapters: Places and Send are needed: give those of the router")
	}
	if o.Every <= 0 {
		o.Every = DefaultEvery
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Looker{o: o, log: o.Logger.With("component", "adapters"), words: map[server]map[string]word{}}, nil
}

// Missing are the adapters of a model that some server of the cluster was asked for and did not answer with, sorted, at
// most [MaxNamed]. Nil: none, or nobody has looked lately. Of many that servers don't list some may not have had their
// turn yet: they are not missing.
func (l *Looker) Missing(cluster fleet.ClusterID, model fleet.ModelID) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, ok := l.found[key{cluster, model}]
	if !ok || l.o.Now().Sub(f.at) > 10*l.o.Every {
		return nil
	}
	return f.missing
}

// Run looks until ctx ends.
func (l *Looker) Run(ctx context.Context) error {
	tick := time.NewTicker(l.o.Every)
	defer tick.Stop()
	for {
		l.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look goes through all places once. What is no place any more is forgotten, so that it is asked anew the next time.
func (l *Looker) look(ctx context.Context) {
	places := l.o.Places()
	type answer struct {
		server
		words map[string]word
	}
	var mu sync.Mutex // guards answers
	var answers []answer
	var asking errgroup.Group
	asking.SetLimit(together)
	for _, p := range places {
		for _, url := range p.URLs {
			s := server{key{p.Cluster.ID, p.Model}, url}
			asking.Go(func() error {
				words := l.shown(ctx, p, url, l.words[s])
				mu.Lock()
				defer mu.Unlock()
				answers = append(answers, answer{s, words})
				return nil
			})
		}
	}
	_ = asking.Wait() // what fails shows nothing
	if ctx.Err() != nil {
		return
	}
	l.words = make(map[server]map[string]word, len(answers))
	lacks := map[key][]string{}
	for _, p := range places {
		lacks[key{p.Cluster.ID, p.Model}] = nil
	}
	for _, a := range answers {
		l.words[a.server] = a.words
		for name, said := range a.words {
			if !said.has {
				lacks[a.key] = append(lacks[a.key], name)
			}
		}
	}
	l.keep(lacks)
}

func (l *Looker) keep(lacks map[key][]string) {
	now, found := l.o.Now(), make(map[key]finding, len(lacks))
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, names := range lacks {
		slices.Sort(names)
		names = slices.Compact(names)
		if before := l.found[k].missing; !slices.Equal(before, names[:min(len(names), MaxNamed)]) {
			l.log.Info("adapters that are missing where a cluster is out of use", "cluster", k.cluster, "model", k.model, "missing", len(names))
		}
		found[k] = finding{names[:min(len(names), MaxNamed)], now}
	}
	l.found = found
}

// shown is what a server shows of the adapters that are asked for: it has what it lists, and what it answers for. One that
// it doesn't list is asked for, since servers may load adapters when they are; those first whose turn was longest ago.
func (l *Looker) shown(ctx context.Context, p Place, url string, before map[string]word) map[string]word {
	words, unlisted := make(map[string]word, len(p.Adapters)), []string(nil)
	listed, _ := l.list(ctx, p, url) // a server need not list anything
	for _, name := range p.Adapters {
		if listed[p.Cluster.NameOf(name)] {
			words[name] = word{true, l.o.Now()}
			continue
		}
		unlisted = append(unlisted, name)
		if said, ok := before[name]; ok {
			words[name] = said
		}
	}
	slices.SortStableFunc(unlisted, func(a, b string) int { return words[a].at.Compare(words[b].at) })
	asked := 0
	for _, name := range unlisted {
		if said := words[name]; asked == asks || said.has && l.o.Now().Sub(said.at) < believed {
			continue
		}
		asked++
		err := l.ask(ctx, p, url, name)
		if ctx.Err() != nil {
			return before
		}
		words[name] = word{err == nil, l.o.Now()}
	}
	return words
}

// list are the models that a server says it has.
func (l *Looker) list(ctx context.Context, p Place, url string) (map[string]bool, error) {
	raw, err := l.send(ctx, p, http.MethodGet, url+"/v1/models", nil)
	if err != nil {
		return nil, err
	}
	var page struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(raw, &page); err != nil {
		return nil, fmt.Errorf("read the models of %s: %w", p.Cluster.ID, err)
	}
	out := make(map[string]bool, len(page.Data))
	for _, m := range page.Data {
		out[m.ID] = true
	}
	return out, nil
}

// ask asks for one token of an adapter.
func (l *Looker) ask(ctx context.Context, p Place, url, adapter string) error {
	body, err := json.Marshal(map[string]any{
		"model": p.Cluster.NameOf(adapter), "max_tokens": 1, "messages": []map[string]string{{"role": "user", "content": "ping"}},
	})
	if err != nil {
		return err
	}
	_, err = l.send(ctx, p, http.MethodPost, url+"/v1/chat/completions", body)
	return err
}

// send gives the body of an answer of 200.
func (l *Looker) send(ctx context.Context, p Place, method, url string, body []byte) (raw []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if l.o.Canary != "" {
		req.Header.Set(l.o.Canary, "1")
	}
	resp, err := l.o.Send(p.Cluster, req, body)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %d", p.Cluster.ID, resp.StatusCode)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxPage))
}
