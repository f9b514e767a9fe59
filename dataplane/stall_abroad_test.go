package dataplane

import (
	"testing"
	"time"
)

// TestAStallAbroadIsFoundThereFirst: the router that asks waits for longer than the one next to the
// place, or it would end the request first, and that router would think that its client had left and
// learn nothing of its place.
func TestAStallAbroadIsFoundThereFirst(t *testing.T) {
	w, _, _ := two(t, stalling)
	class := w.routers[us].tables.Load().ClassOf(nil, "llama")
	now := time.Now()
	far := w.routers[us].places.Cluster("eu-a").StallBound("llama", class, now)
	near := w.routers[eu].places.Cluster("eu-a").Endpoints()[0].StallBound("llama", class, now)
	if far < near+time.Second/10 {
		t.Errorf("the router that asks gives up after %s, the one that is asked after %s", far, near)
	}
}
