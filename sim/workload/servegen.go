package workload

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"anabranch/api/fleet"
)

// ServeGen's tables have a row for each client and window of ten minutes in which it asked.
const servegenWindow = 600 // seconds

// Bounds of the tables and of what they may ask for.
const (
	maxClients = 100_000
	maxRows    = 2_000_000
	maxLengths = 200_000
	maxRate    = 5000       // requests a second of a client
	maxWindow  = 20_000_000 // requests in a window of all clients
)

// minShape bounds shapes from below: at less, all arrivals of a window fall on one moment anyway.
const minShape = 0.05

// window is ten minutes of a client.
type window struct {
	start   int32 // seconds
	weibull bool
	rate    float32
	shape   float32
}

// lengthWindow is its lengths from then on: mean, P50, P90 and P99 each.
type lengthWindow struct {
	start   int32
	in, out [4]float32
}

// client is one customer of a ServeGen table.
type client struct {
	model, name string
	windows     []window
	lengths     []lengthWindow
}

func (c *client) id() string { return c.model + "/" + c.name }

// ServeGen makes requests by tables derived from https://github.com/alibaba/ServeGen: rates and
// burstiness of clients in windows of ten minutes (columns model, client, window_s, rate_rps, cv,
// pattern, shape; Gamma or Weibull), and percentiles of their lengths in longer ones (model, client,
// window_s, in_mean, in_p50, in_p90, in_p99, and the same for out). Both may be compressed.
//
// A window has as many requests as its rate says; times between them follow its shape, scaled to fill
// it. A client without lengths borrows another's of its model, chosen by the seed, and where there is
// none takes the options'. The tables are a period, 14 days where whole, that goes round when regions
// are shifted; without Length a workload is one period. Prompts share nothing: the tables don't say.
func ServeGen(clients, lengths io.Reader, o TraceOptions) (*Clients, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("trace options: %w", err)
	}
	if len(o.Mix.Models) > 0 {
		return nil, errors.New("trace options: mix.models: the tables name the models, use modelMap")
	}
	if o.Grid != 0 {
		return nil, errors.New("trace options: grid: the tables have no time stamps, leave it out")
	}
	list, err := readClients(clients, o)
	if err != nil {
		return nil, err
	}
	if err := readLengths(lengths, list); err != nil {
		return nil, err
	}
	return newClients(list.order, o)
}

// clientList is clients by name and in the order of the table.
type clientList struct {
	byID  map[string]*client
	order []*client
}

// readClients reads the first table. Only models that are wanted are kept.
func readClients(r io.Reader, o TraceOptions) (*clientList, error) {
	t, err := newTable("ServeGen clients", r, "model", "client", "window_s", "rate_rps", "cv", "pattern", "shape")
	if err != nil {
		return nil, err
	}
	list := &clientList{byID: map[string]*client{}}
	rows := 0
	for {
		row, err := t.row()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if o.ModelMap != nil && o.ModelMap[row[0]] == "" {
			continue
		}
		if err := fleet.CheckModel(row[0]); err != nil && o.ModelMap == nil {
			return nil, t.wrong("model %v", err)
		}
		w, err := readWindow(t, row)
		if err != nil {
			return nil, err
		}
		if rows++; rows > maxRows {
			return nil, t.wrong("is row %d of the wanted models, at most %d are read: choose fewer models", rows, maxRows)
		}
		id := row[0] + "/" + row[1]
		c := list.byID[id]
		if c == nil {
			if len(list.order) == maxClients {
				return nil, t.wrong("is of client %d, at most %d are read: choose fewer models", maxClients+1, maxClients)
			}
			c = &client{model: row[0], name: row[1]}
			list.byID[id] = c
			list.order = append(list.order, c)
		}
		if n := len(c.windows); n > 0 && w.start < c.windows[n-1].start+servegenWindow {
			return nil, t.wrong("window_s %d of client %s is not %d s after that of its row before", w.start, id, servegenWindow)
		}
		c.windows = append(c.windows, w)
	}
	if len(list.order) == 0 {
		return nil, fmt.Errorf("%s: no client of a wanted model: check modelMap", t.name)
	}
	return list, nil
}

// readWindow reads a row of the first table. With a rate of 0 its shape doesn't matter.
func readWindow(t *table, row []string) (w window, err error) {
	start, err := t.number(row, 2, 0, maxDelay.Seconds())
	if err != nil {
		return w, err
	}
	rate, err := t.number(row, 3, 0, maxRate)
	if err != nil {
		return w, err
	}
	if _, err = t.number(row, 4, 0, math.MaxFloat32); err != nil {
		return w, err
	}
	shape, err := t.number(row, 6, 0, math.MaxFloat32)
	if err != nil {
		return w, err
	}
	switch row[5] {
	case "Gamma":
	case "Weibull":
		w.weibull = true
	default:
		return w, t.wrong("pattern is %.40q, want Gamma or Weibull", row[5])
	}
	w.start, w.rate, w.shape = int32(start), float32(rate), float32(max(shape, minShape))
	return w, nil
}

// readLengths reads the second table into the clients of the first.
func readLengths(r io.Reader, list *clientList) error {
	t, err := newTable("ServeGen lengths", r, "model", "client", "window_s",
		"in_mean", "in_p50", "in_p90", "in_p99", "out_mean", "out_p50", "out_p90", "out_p99")
	if err != nil {
		return err
	}
	rows := 0
	for {
		row, err := t.row()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		c := list.byID[row[0]+"/"+row[1]]
		if c == nil {
			continue
		}
		if rows++; rows > maxLengths {
			return t.wrong("is row %d of the wanted clients, at most %d are read", rows, maxLengths)
		}
		start, err := t.number(row, 2, 0, maxDelay.Seconds())
		if err != nil {
			return err
		}
		l := lengthWindow{start: int32(start)}
		for i := range 4 {
			in, err := t.number(row, 3+i, 0, MaxTokens)
			if err != nil {
				return err
			}
			out, err := t.number(row, 7+i, 0, MaxTokens)
			if err != nil {
				return err
			}
			l.in[i], l.out[i] = float32(in), float32(out)
		}
		for _, q := range [2][4]float32{l.in, l.out} {
			if q[1] > q[2] || q[2] > q[3] {
				return t.wrong("percentiles %v, %v and %v of a length don't rise", q[1], q[2], q[3])
			}
		}
		if n := len(c.lengths); n > 0 && l.start <= c.lengths[n-1].start {
			return t.wrong("window_s %d of client %s is not after that of its row before", l.start, c.id())
		}
		c.lengths = append(c.lengths, l)
	}
}

// quantileTable is a distribution with these percentiles and, as far as they allow it, this mean.
// Its least and greatest lengths are what is left to choose: the least is set first, then, where that
// would leave its range, the greatest, up to 100 times the 99th percentile.
func quantileTable(q [4]float32) []Quantile {
	mean, p50, p90, p99 := float64(q[0]), float64(q[1]), float64(q[2]), float64(q[3])
	rest := mean - 0.4*between(p50, p90) - 0.09*between(p90, p99)
	least := solve(0, p50, (rest-0.01*between(p99, p99))/0.5, func(x float64) float64 { return between(x, p50) })
	most := solve(p99, min(100*p99, MaxTokens), (rest-0.5*between(least, p50))/0.01, func(x float64) float64 { return between(p99, x) })
	return []Quantile{{0, least}, {0.5, p50}, {0.9, p90}, {0.99, p99}, {1, most}}
}

// solve is where a rising function has a value, or the end of the range that is nearest.
func solve(low, high, value float64, f func(float64) float64) float64 {
	if f(high) <= value {
		return high
	}
	for range 60 {
		if middle := (low + high) / 2; f(middle) < value {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// arrivals draws the times of n requests in a window, in seconds from its beginning.
func (w window) arrivals(rng *rand.Rand, n int) []float64 {
	at := make([]float64, n)
	sum := 0.0
	draw := func() float64 {
		if w.weibull {
			return weibullDraw(rng, float64(w.shape))
		}
		return gammaDraw(rng, float64(w.shape))
	}
	for i := range at {
		sum += draw()
		at[i] = sum
	}
	sum += draw()
	for i := range at {
		if sum > 0 && !math.IsInf(sum, 0) {
			at[i] *= servegenWindow / sum
		} else {
			at[i] = servegenWindow * (float64(i) + 0.5) / float64(n)
		}
	}
	return at
}

// lengthsAt is the window of lengths at a time: the last that has begun, or the first.
func (c *client) lengthsAt(second float64) int {
	i, found := slices.BinarySearchFunc(c.lengths, int32(second), func(l lengthWindow, s int32) int { return int(l.start) - int(s) })
	if !found {
		i--
	}
	return max(i, 0)
}

// period is the time from 0 to the end of the last window of all clients.
func period(list []*client) time.Duration {
	var last int32
	for _, c := range list {
		last = max(last, c.windows[len(c.windows)-1].start)
	}
	return time.Duration(last+servegenWindow) * time.Second
}
