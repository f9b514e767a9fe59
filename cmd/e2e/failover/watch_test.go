package failover

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"anabranch/cmd/anabranch/dev/seed"
)

// eye looks at the routers' and the control plane's word all the time, and remembers.
type eye struct {
	s *system

	mu      sync.Mutex // guards what follows
	tries   []tried
	states  []stateAt
	weights []weightsAt
	fill    []fillAt
}

// stateAt is the health of a cluster from a moment on.
type stateAt struct {
	at             time.Time
	cluster, state string
}

// weightsAt are shares 0..1 by "source cluster" at a moment.
type weightsAt struct {
	at     time.Time
	shares map[string]float64
}

// fillAt is the load of a cluster over its capacity, as its region's router sees it at a moment.
type fillAt struct {
	at     time.Time
	region string
	load   float64
}

// watch starts it; it ends with the test.
func (s *system) watch() *eye {
	e := &eye{s: s}
	ctx, cancel := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	each := func(every time.Duration, look func(context.Context)) {
		loops.Go(func() {
			tick := time.NewTicker(every)
			defer tick.Stop()
			for {
				look(ctx)
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
			}
		})
	}
	each(time.Second, e.count)
	each(500*time.Millisecond, e.survey)
	s.t.Cleanup(func() {
		cancel()
		loops.Wait()
	})
	return e
}

// count adds the attempts of all routers up.
func (e *eye) count(context.Context) {
	sum := tried{at: time.Now()}
	for _, r := range e.s.routers {
		counters, err := scrape(r.admin + "/metrics")
		if err != nil {
			e.mu.Lock()
			e.tries = nil // a router that has ended begins to count anew
			e.mu.Unlock()
			return
		}
		for name, v := range counters {
			switch {
			case strings.HasPrefix(name, "anabranch_router_requests_total{") && strings.Contains(name, `from="client"`):
				sum.requests += v
			case !strings.HasPrefix(name, "anabranch_router_attempts_total{"):
			case strings.Contains(name, `kind="retry"`), strings.Contains(name, `kind="hedge"`), strings.Contains(name, `kind="rescue"`):
				sum.attempts += v
			}
		}
	}
	// The first attempts are as many as requests, but are counted earlier.
	sum.attempts += sum.requests
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.tries); n > 0 && e.tries[n-1].requests > sum.requests {
		e.tries = nil
	}
	e.tries = append(e.tries, sum)
}

// scrape reads a page of metrics, by name with labels.
func scrape(url string) (map[string]float64, error) {
	resp, err := looks.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	all := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if at := strings.LastIndexByte(lines.Text(), ' '); at > 0 && !strings.HasPrefix(lines.Text(), "#") {
			if v, err := strconv.ParseFloat(lines.Text()[at+1:], 64); err == nil {
				all[lines.Text()[:at]] = v
			}
		}
	}
	return all, lines.Err()
}

// fleetView is what these checks look at of the control plane's word.
type fleetView struct {
	TableRevision, Epoch uint64
	Clusters             []struct{ Name, Health, Reason string }
	Weights              []struct {
		Model, Source string
		Clusters      []struct {
			Cluster string
			Wanted  float64
		}
	}
}

func (s *system) fleet(ctx context.Context) (v fleetView, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return v, s.admin.JSON(ctx, "/v1/fleet", nil, &v)
}

// survey asks the control plane for states and weights, and the routers how full clusters are.
func (e *eye) survey(ctx context.Context) {
	v, err := e.s.fleet(ctx)
	now := time.Now()
	var fill []fillAt
	for _, r := range e.s.routers {
		if st, err := status(r); err == nil {
			for _, c := range st.Clusters {
				if c.Region == r.region && !c.Ejected {
					fill = append(fill, fillAt{now, c.Region, c.Saturation})
				}
			}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fill = append(e.fill, fill...)
	if err != nil {
		return
	}
	last := map[string]string{}
	for _, s := range e.states {
		last[s.cluster] = s.state
	}
	for _, c := range v.Clusters {
		if last[c.Name] != c.Health {
			e.states = append(e.states, stateAt{now, c.Name, c.Health})
		}
	}
	shares := map[string]float64{}
	for _, w := range v.Weights {
		if w.Model != seed.SmallModel {
			continue
		}
		for _, c := range w.Clusters {
			shares[w.Source+" "+c.Cluster] = c.Wanted
		}
	}
	e.weights = append(e.weights, weightsAt{now, shares})
}

// changes are the states that clusters entered after a moment.
func (e *eye) changes(after time.Time) []stateAt {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []stateAt
	for _, s := range e.states {
		if s.at.After(after) {
			out = append(out, s)
		}
	}
	return out
}

// series are the shares since a moment, by "source cluster".
func (e *eye) series(after time.Time) map[string][]float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := map[string][]float64{}
	for _, w := range e.weights {
		if w.at.After(after) {
			for name, share := range w.shares {
				out[name] = append(out[name], share)
			}
		}
	}
	return out
}

// loads are those of all regions but one since a moment.
func (e *eye) loads(after time.Time, but string) (all []float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, f := range e.fill {
		if f.at.After(after) && f.region != but {
			all = append(all, f.load)
		}
	}
	return all
}

// retries is the most attempts for each request over 10 s since a moment.
func (e *eye) retries(after time.Time) float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	var since []tried
	for _, t := range e.tries {
		if t.at.After(after) {
			since = append(since, t)
		}
	}
	return amplification(since, 10*time.Second)
}

// routerStatus is what these checks look at of a router's own word.
type routerStatus struct {
	Ready           bool
	Epoch, Revision uint64
	Sight           string
	Clusters        []struct {
		ID, Region, Health string
		Ejected            bool
		Saturation         float64
		Unanswered         *struct{ Requests int }
		Endpoints          []struct {
			Ejected bool
			Lacks   []string
		}
	}
}

func status(r *part) (st routerStatus, err error) {
	resp, err := looks.Get(r.admin + "/status")
	if err != nil {
		return st, err
	}
	defer resp.Body.Close()
	return st, json.NewDecoder(resp.Body).Decode(&st)
}

// leaves says whether the router sends no requests of these checks to the cluster any more; nil: it doesn't.
func leaves(r *part, cluster string) error {
	st, err := status(r)
	if err != nil {
		return err
	}
	for _, c := range st.Clusters {
		if c.ID != cluster {
			continue
		}
		if c.Ejected || c.Unanswered != nil {
			return nil
		}
		used := 0
		for _, e := range c.Endpoints {
			if !e.Ejected && !slices.Contains(e.Lacks, seed.SmallModel) {
				used++
			}
		}
		if used == 0 && len(c.Endpoints) > 0 {
			return nil
		}
		return fmt.Errorf("%s uses %d of %d endpoints of %s", r.name, used, len(c.Endpoints), cluster)
	}
	return fmt.Errorf("%s does not know %s", r.name, cluster)
}

// record is what these checks look at of a router's account of one request.
type record struct {
	Broken   bool
	Quota    struct{ Limit, Reason, Message string }
	Usage    struct{ CompletionTokens int }
	Attempts []struct {
		Cluster, Code       string
		FirstByteMs, TookMs float64
	}
	FirstByteMs float64
}

func explain(r *part, id string) (rec record, err error) {
	resp, err := looks.Get(r.admin + "/explain/" + id)
	if err != nil {
		return rec, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return rec, fmt.Errorf("explain %s: %s", id, resp.Status)
	}
	return rec, json.NewDecoder(resp.Body).Decode(&rec)
}
