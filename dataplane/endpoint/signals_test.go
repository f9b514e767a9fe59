package endpoint

import (
	"testing"
	"time"

	"anabranch/dataplane/pick"
)

func TestFreshness(t *testing.T) {
	now := time.Unix(1000, 0)
	at := func(age time.Duration) *Signals { return &Signals{At: now.Add(-age)} }
	tests := []struct {
		name string
		s    *Signals
		want pick.Freshness
	}{
		{"never scraped", nil, pick.Absent},
		{"empty", &Signals{}, pick.Absent},
		{"just now", at(0), pick.Fresh},
		{"two seconds ago", at(2 * time.Second), pick.Fresh},
		{"a moment later", at(2001 * time.Millisecond), pick.Stale},
		{"half a minute ago", at(30 * time.Second), pick.Stale},
		{"longer ago", at(31 * time.Second), pick.Absent},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.s.Freshness(now); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestLoadCountsOwnRequestsSinceTheScrape(t *testing.T) {
	scraped := &Signals{Waiting: 2, Running: 10, inFlight: 5}
	tests := []struct {
		name             string
		s                *Signals
		inFlight         int64
		room             float64
		fresh            pick.Freshness
		waiting, running float64
	}{
		{"nothing changed", scraped, 5, 10, pick.Fresh, 2, 10},
		{"three more queue when the batch is full", scraped, 8, 10, pick.Fresh, 5, 10},
		{"three more run while there is room", scraped, 8, 12, pick.Fresh, 3, 12},
		{"one ended: the queue moves up", scraped, 4, 10, pick.Fresh, 1, 10},
		{"five ended", scraped, 0, 10, pick.Fresh, 0, 7},
		{"more ended than were there", &Signals{Running: 1, inFlight: 9}, 0, 10, pick.Fresh, 0, 0},
		{"stale: what ended doesn't make it look idle", scraped, 0, 10, pick.Stale, 2, 10},
		{"stale: what was sent counts", scraped, 8, 10, pick.Stale, 5, 10},
		{"stale and idle by the page: own requests are there all the same", &Signals{inFlight: 7}, 7, 4, pick.Stale, 3, 4},
		{"never scraped: own requests", nil, 6, 4, pick.Absent, 2, 4},
		{"never scraped, nothing sent", nil, 0, 4, pick.Absent, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, r := tt.s.load(tt.inFlight, tt.room, tt.fresh)
			if w != tt.waiting || r != tt.running {
				t.Errorf("%v waiting, %v running; want %v, %v", w, r, tt.waiting, tt.running)
			}
		})
	}
}
