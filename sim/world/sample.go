package world

import "time"

// maxPoints is how many points series have at most.
const maxPoints = 2000

// sampler takes the series. When they are full it drops every other point and takes them half as
// often, since nobody knows beforehand how long a run is.
type sampler struct {
	next, step time.Duration
	points     []time.Duration
	series     Series
}

func (s *sampler) begin(w *world) {
	s.step, s.next = time.Second, time.Second
	for _, rows := range []*[][]float32{&s.series.Running, &s.series.Waiting, &s.series.Ready, &s.series.Price} {
		*rows = make([][]float32, len(w.clusters))
	}
	s.series.Queue = make([][]float32, len(w.regions))
	if w.weigher != nil {
		s.series.Weights = make([][]float32, len(w.regions)*len(w.clusters))
	}
}

// all are the series.
func (s *sampler) all() [][][]float32 {
	return [][][]float32{s.series.Running, s.series.Waiting, s.series.Ready, s.series.Price, s.series.Queue, s.series.Weights}
}

// sample takes a point.
func (w *world) sample() {
	s := &w.samples
	if len(s.points) == maxPoints {
		s.thin()
	}
	if s.next = w.now + s.step; w.now%s.step != 0 {
		s.next = w.now - w.now%s.step + s.step
		return
	}
	s.points = append(s.points, w.now)
	for i, c := range w.clusters {
		var running, waiting, ready int
		price := 0.0
		for _, p := range c.pods {
			if p.state != dead && p.state != gone {
				price += float64(p.kind.PriceMicroUSD) * p.price
			}
			if w.catchUp(p); p.engine == nil {
				continue
			}
			st := p.engine.Stats()
			running, waiting = running+st.Running, waiting+st.Waiting
			if p.state == serving {
				ready++
			}
		}
		put(s.series.Running, i, running)
		put(s.series.Waiting, i, waiting)
		put(s.series.Ready, i, ready)
		put(s.series.Price, i, price/1e6)
	}
	for i, g := range w.regions {
		put(s.series.Queue, i, g.waiting)
		if w.weigher == nil {
			continue
		}
		weights := w.weigher.Weights(i)
		for j := range w.clusters {
			x := 0.0
			if j < len(weights) {
				x = weights[j]
			}
			put(s.series.Weights, i*len(w.clusters)+j, x)
		}
	}
}

func put[N int | float64](rows [][]float32, i int, x N) { rows[i] = append(rows[i], float32(x)) }

// thin keeps every other point.
func (s *sampler) thin() {
	s.step *= 2
	for i := range maxPoints / 2 {
		s.points[i] = s.points[2*i+1]
	}
	s.points = s.points[:maxPoints/2]
	for _, rows := range s.all() {
		for j, row := range rows {
			for i := range maxPoints / 2 {
				row[i] = row[2*i+1]
			}
			rows[j] = row[:maxPoints/2]
		}
	}
}
