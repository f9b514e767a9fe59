package world

import "time"

// send puts a message of an attempt on its way.
func (w *world) send(a *attempt, k kind, at time.Duration, how Outcome) {
	a.refs++
	w.timeline.push(event{at: at, kind: k, ref: a.slot, gen: a.gen, how: how})
}

// drop says that one that spoke of an attempt doesn't any more.
func (w *world) drop(a *attempt) { w.pool.dropAttempt(a) }

// happen lets a message arrive or a timer go off.
func (w *world) happen(e event) {
	switch e.kind {
	case arrive, move:
		r := w.pool.requests[e.ref]
		switch {
		case r.gen != e.gen || r.done: // its client has left
		case e.kind == move:
			w.move(r)
		case w.regions[r.goes.region].lost:
			w.lose(r)
		default:
			r.router = r.goes
			if r.steps {
				w.explain(r, "comes to router %d in %s instead", r.router.number, w.spec.Regions[r.router.region].ID)
			}
			w.route(r)
		}
	case poll:
		w.poll(w.routers[e.ref])
	case started:
		if p := w.pods[e.ref]; p.state == starting && p.starts == e.gen {
			w.serve(p)
		}
	case overdue, stall:
		if a := w.pool.attempts[e.ref]; a.gen == e.gen {
			w.timer(a, e.kind)
		}
	default:
		a := w.pool.attempts[e.ref]
		w.message(a, e)
		w.drop(a)
	}
}

// timer goes off.
func (w *world) timer(a *attempt, k kind) {
	switch {
	case !a.open():
	case k == overdue && !a.seen:
		w.fail(a, Silent)
	case k == stall && a.began && a.pod != nil && a.pod.hanging:
		w.fail(a, Broken)
	}
}

// message arrives. Those between routers that are severed do not.
func (w *world) message(a *attempt, e event) {
	switch e.kind {
	case submit:
		w.give(a)
	case abandon:
		w.take(a)
	case refusal:
		if a.open() {
			how := e.how
			if a.seen {
				how = Broken
			}
			w.fail(a, how)
		}
	case firstHere:
		if a.open() {
			w.firstHere(a)
		}
	case lastHere:
		if a.open() {
			w.closePicker(a, Answered)
			if a.away {
				w.send(a, lastHome, w.way(a, wayBack, w.across(a)), Answered)
			} else {
				w.answered(a)
			}
		}
	case unreachable:
		if a.homeOpen {
			how := Refused
			if a.request.started {
				how = Broken
			}
			w.failHome(a, how)
		}
	case orphan:
		w.forsake(a)
	default:
		if !a.severed {
			w.between(a, e)
		}
	}
}

// between routers a message arrives.
func (w *world) between(a *attempt, e event) {
	switch e.kind {
	case forward:
		if w.come(a, 0) {
			w.enqueue(w.routers[a.there.Router], &waiting{request: a.request, attempt: a})
		}
	case leave:
		w.forsake(a)
	case firstHome:
		if a.homeOpen {
			v := w.at(w.routers[a.home.Router])
			a.home.Pod, a.home.First = a.there.Pod, v.Now
			w.policy.First(&a.home, v)
			w.begun(a)
		}
	case lastHome:
		if a.homeOpen {
			a.home.Pod = a.there.Pod
			w.closeHome(a, Answered)
			w.answered(a)
		}
	case failureHome:
		if a.homeOpen {
			a.home.Pod = -1
			if e.how != Full {
				a.home.Pod = a.there.Pod
			}
			w.failHome(a, e.how)
		}
	}
}

// firstHere is the first token at the router that picked.
func (w *world) firstHere(a *attempt) {
	a.seen = true
	p := a.picker()
	v := w.at(w.routers[p.Router])
	p.First = v.Now
	w.clusters[p.Cluster].recent.first(w.now, w.now-a.sent)
	w.policy.First(p, v)
	if a.away {
		w.send(a, firstHome, w.way(a, wayBack, w.across(a)), Answered)
	} else {
		w.begun(a)
	}
}

// begun is the first token at the client.
func (w *world) begun(a *attempt) {
	r := a.request
	r.started, r.first = true, w.now+r.leg
	if r.steps {
		w.explain(r, "has its first token, %d of %d prompt tokens were cached", a.cached, r.PromptTokens)
	}
}

// answered is the end of the answer at the client.
func (w *world) answered(a *attempt) {
	a.request.attempt = a
	w.end(a.request, OK)
}

// fail ends an attempt at the router that picked, where it went wrong.
func (w *world) fail(a *attempt, how Outcome) {
	w.closePicker(a, how)
	if a.away && how == Refused && !a.severed && w.repick(a) {
		return
	}
	w.abandonPod(a)
	if a.away {
		w.send(a, failureHome, w.way(a, wayBack, w.across(a)), how)
		return
	}
	w.retryAfter(a, how)
}

// repick lets the router that picked for another try another pod. False: it may not, or has none.
func (w *world) repick(a *attempt) bool {
	if a.picks >= w.picks {
		return false
	}
	ro := w.routers[a.there.Router]
	v := w.at(ro)
	v.Attempt, v.Tried, v.Waited, v.Explain = a.home.Number, a.request.tried, 0, a.request.steps
	p := w.pick(a.request, a.home.Cluster, w.routers[a.home.Router].region, v)
	if p.Pod < 0 {
		return false
	}
	a.request.tries++
	w.forward(a, p)
	return true
}

// failHome ends an attempt at the router that routed it to another region.
func (w *world) failHome(a *attempt, how Outcome) {
	w.closeHome(a, how)
	w.retryAfter(a, how)
}

// retryAfter routes a request again whose attempt has failed, if it may.
func (w *world) retryAfter(a *attempt, how Outcome) {
	r := a.request
	if r.steps {
		w.explain(r, "attempt %d fails: %s", a.home.Number, how)
	}
	if w.again(r, Place{a.home.Cluster, a.home.Pod}, how) {
		r.attempt = nil
		w.route(r)
	}
}

// abandonPod tells the pod of an attempt that nobody waits for it.
func (w *world) abandonPod(a *attempt) { w.send(a, abandon, w.way(a, wayIn, local), Left) }

// forsake is that the router that routed has left, at the one that picked or where it waits.
func (w *world) forsake(a *attempt) {
	if a.waits != nil {
		w.desert(w.routers[a.there.Router], a.waits)
	}
	if a.thereOpen {
		w.closePicker(a, Left)
		w.abandonPod(a)
	}
}

// closePicker ends an attempt for the router that picked its pod.
func (w *world) closePicker(a *attempt, how Outcome) {
	if !a.away {
		w.closeHome(a, how)
		return
	}
	a.thereOpen = false
	w.closeSide(a, &a.there, how)
}

// closeHome ends an attempt for the router that routed it.
func (w *world) closeHome(a *attempt, how Outcome) {
	a.homeOpen = false
	w.closeSide(a, &a.home, how)
}

// closeSide ends an attempt for one router.
func (w *world) closeSide(a *attempt, side *Attempt, how Outcome) {
	ro := w.routers[side.Router]
	v := w.at(ro)
	c := &v.Clusters[side.Cluster]
	c.InFlight--
	if !side.Away {
		c.Pods[side.Pod].InFlight--
		w.clusters[side.Cluster].recent.ended(w.now, a, how)
	}
	if how == Answered {
		side.Cached, side.Output = a.cached, a.output
	}
	w.policy.Ended(side, how, v)
	w.stir(ro)
	w.drop(a)
}

// leave is a client's running out of patience.
func (w *world) leave(d deadline) {
	r := w.pool.requests[d.slot]
	if r.gen != d.gen || r.started || r.done {
		return
	}
	if r.steps {
		w.explain(r, "its client leaves")
	}
	w.retire(r)
	w.end(r, GaveUp)
}

// retire lets a router forget a request whose client has left or is lost.
func (w *world) retire(r *request) {
	if r.waits != nil {
		w.desert(r.router, r.waits)
	}
	a := r.attempt
	if a == nil || !a.homeOpen {
		return
	}
	if a.away {
		if !a.severed {
			w.send(a, leave, w.way(a, wayOver, w.across(a)), Left)
		}
	} else {
		w.abandonPod(a)
	}
	w.closeHome(a, Left)
}
