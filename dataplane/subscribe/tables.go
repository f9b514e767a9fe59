package subscribe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"anabranch/api/delta"
	"anabranch/api/residence"
	"anabranch/api/routerpb"
	"anabranch/dataplane/subscribe/lastgood"
	"anabranch/dataplane/table"
)

const (
	// watchEvery is how often orders are looked at, and how late one is obeyed.
	watchEvery = 200 * time.Millisecond
	// proof is how long a router must live with a table until a later end is not the table's fault.
	proof = 30 * time.Second
)

// errSuspect is why a table on disk is passed over.
var errSuspect = errors.New("this router ended twice within moments of taking it")

// Restore swaps in the newest table on disk that is whole and valid, or the one that an order goes
// back to. Tables with which this router ended twice within moments of taking them are dropped,
// unless there is no other. It returns an error that is [lastgood.ErrNone] if there is none; the
// router is then not ready until a control plane answers.
func (c *Client) Restore() error {
	dir := c.o.LastGood
	if dir == nil {
		return lastgood.ErrNone
	}
	c.tables.Lock()
	defer c.tables.Unlock()
	now := time.Now()
	suspects, err := dir.Started(now)
	c.disk(err)
	built, at, err := c.load(suspects)
	switch {
	case len(suspects) == 0:
	case err == nil:
		c.suspect = suspects[len(suspects)-1]
		c.o.Logger.Error("going back from a table with which this router ended twice",
			"epoch", c.suspect.Epoch, "revision", c.suspect.Revision, "to", built.Ref.Revision)
		c.disk(dir.Drop(suspects))
	case errors.Is(err, lastgood.ErrNone):
		c.disk(dir.Acquit())
		built, at, err = c.load(nil)
	}
	if err != nil {
		return fmt.Errorf("restore table: %w", err)
	}
	c.contact.Store(at.UnixNano())
	c.o.Logger.Info("restored table from disk", "epoch", built.Ref.Epoch, "revision", built.Ref.Revision, "saved_at", at)
	if ref, reverts := c.o.Revert(); reverts && !is(built.Ref, ref) {
		if earlier := c.find(ref, built); earlier != nil {
			c.wait(built)
			built = earlier
		}
	}
	c.swap(built)
	return nil
}

// load reads the newest table that is valid and not among the suspects.
func (c *Client) load(suspects []table.Ref) (*table.Table, time.Time, error) {
	var built *table.Table
	saved, err := c.o.LastGood.Load(func(pb *routerpb.Table) (err error) {
		if slices.Contains(suspects, table.RefOf(pb.GetRef())) {
			return errSuspect
		}
		if why := foreign(pb, c.o.Region); why != nil {
			return errors.New(why.Message)
		}
		built, err = table.Build(pb)
		return err
	})
	for _, why := range saved.Skipped {
		c.o.Logger.Warn("skipped a table on disk", "error", why)
	}
	return built, saved.At, err
}

// find reads a kept table that an order goes back to, with residency as narrow as in the newest table that this router
// knows. Nil: it can't be served by, which is told once.
func (c *Client) find(ref table.Ref, newest *table.Table) *table.Table {
	if c.o.LastGood == nil || c.lost == ref {
		return nil
	}
	saved, err := c.o.LastGood.Find(ref.Epoch, ref.Revision)
	var built *table.Table
	if err == nil {
		if why := foreign(saved.Table, c.o.Region); why != nil {
			err = errors.New(why.Message)
		}
	}
	if err == nil {
		saved.Table, err = residence.Narrow(saved.Table, newest.Proto())
	}
	if err == nil {
		built, err = table.Build(saved.Table)
	}
	if err != nil {
		c.lost = ref
		c.o.Logger.Error("can't go back to the table of an order, the one in force stays",
			"epoch", ref.Epoch, "revision", ref.Revision, "error", err)
		return nil
	}
	return built
}

// is says whether a table is the one that a revert names.
func is(ref, named table.Ref) bool {
	return ref.Revision == named.Revision && (named.Epoch == 0 || ref.Epoch == named.Epoch)
}

// consider judges, validates, keeps and swaps one table, and words the answer.
func (c *Client) consider(push *routerpb.TablePush, now time.Time) *routerpb.Ack {
	c.tables.Lock()
	defer c.tables.Unlock()
	return c.answer(push.GetNonce(), push.GetTable().GetRef(), c.decide(push.GetTable(), now))
}

// considerDelta does so with a table of which what differs from another has come.
func (c *Client) considerDelta(d *routerpb.TableDelta, now time.Time) *routerpb.Ack {
	c.tables.Lock()
	defer c.tables.Unlock()
	whole, err := delta.Apply(c.base(d.GetBase()), d)
	var refusal *Refusal
	switch {
	case errors.Is(err, delta.ErrBase):
		refusal = &Refusal{Code: delta.CodeBase, Field: "base", Message: err.Error()}
	case err != nil:
		refusal = &Refusal{Code: delta.CodeDigest, Message: err.Error()}
	default:
		refusal = c.decide(whole, now)
	}
	return c.answer(d.GetNonce(), d.GetChanged().GetRef(), refusal)
}

// base is the table that a delta starts from: the one in force, or the one that waits. Nil: there is
// none. The lock is held.
func (c *Client) base(ref *routerpb.TableRef) *routerpb.Table {
	if c.waiting != nil && c.waiting.Ref == table.RefOf(ref) {
		return c.waiting.Proto()
	}
	if held := c.o.Holder.Load(); held != nil {
		return held.Proto()
	}
	return nil
}

// answer words the answer to a table, and tells of a refusal. The lock is held.
func (c *Client) answer(nonce uint64, ref *routerpb.TableRef, refusal *Refusal) *routerpb.Ack {
	ack := &routerpb.Ack{Nonce: nonce, Table: ref, Ok: true}
	if refusal == nil {
		return ack
	}
	pushed := table.RefOf(ref)
	c.o.Logger.Warn("refused a table", "epoch", pushed.Epoch, "revision", pushed.Revision,
		"code", refusal.Code, "field", refusal.Field, "reason", refusal.Message)
	c.metrics.refused.WithLabelValues(refusal.Code).Inc()
	c.update(func(s *Status) { s.Refused = refusal })
	ack.Ok, ack.Code, ack.Field, ack.Message = false, refusal.Code, refusal.Field, refusal.Message
	return ack
}

// decide takes a table or says why not. The lock is held.
func (c *Client) decide(pb *routerpb.Table, now time.Time) *Refusal {
	held, pushed := c.held(), table.RefOf(pb.GetRef())
	newest := held
	if c.waiting != nil {
		newest = c.waiting.Ref
	}
	frozen := c.o.Frozen() && held != (table.Ref{})
	if ref, reverts := c.o.Revert(); reverts && is(pushed, ref) {
		frozen = false // it is the table that the order wants
	}
	what, refusal := judge(newest, pushed)
	switch {
	case pushed == held && held != (table.Ref{}):
		return nil
	case what == refuse:
		return refusal
	case c.suspect != (table.Ref{}) && pushed.ClusterID == c.suspect.ClusterID && !pushed.Newer(c.suspect):
		return &Refusal{Code: CodeCrashLoop, Field: "ref", Message: fmt.Sprintf(
			"this router ended twice within %s of taking epoch %d revision %d: publish a newer table", proof, c.suspect.Epoch, c.suspect.Revision)}
	case what == again && frozen:
		return heldOff()
	}
	if refusal := foreign(pb, c.o.Region); refusal != nil {
		return refusal
	}
	built, err := table.Build(pb)
	switch {
	case err != nil:
		return refusalOf(err)
	case frozen:
		c.wait(built)
		c.tighten(built, now)
		return heldOff()
	}
	c.take(built, now)
	return nil
}

// tighten makes residency of the table in force as narrow as in one that an order holds off, and leaves all else as the
// order wants it. It keeps its number: to the control plane it is the table that it was. The lock is held.
func (c *Client) tighten(newest *table.Table, now time.Time) {
	held := c.o.Holder.Load()
	narrowed, err := residence.Narrow(held.Proto(), newest.Proto())
	if err == nil && narrowed == held.Proto() {
		return
	}
	var built *table.Table
	if err == nil {
		built, err = table.Build(narrowed)
	}
	if err != nil {
		c.o.Logger.Error("residency is tighter in the table that an order holds off, and can't be in the one in force",
			"revision", held.Ref.Revision, "waiting", newest.Ref.Revision, "error", err)
		return
	}
	if c.o.LastGood != nil { // a restart under the order is not to find it wider
		c.disk(c.o.LastGood.Save(narrowed, now))
	}
	c.swap(built)
	c.o.Logger.Warn("residency of the table in force was tightened under an order", "revision", held.Ref.Revision, "as", newest.Ref.Revision)
}

func heldOff() *Refusal {
	return &Refusal{Code: CodeFrozen, Message: "an order given to this router holds newer tables off; it takes this one when the order ends"}
}

// take keeps a table and puts it in force. The lock is held.
func (c *Client) take(built *table.Table, now time.Time) {
	var disk error
	if dir := c.o.LastGood; dir != nil {
		// A full disk must not keep a router from following: it serves from memory, and says so. The
		// mark comes first, so that a table on trial pushes out none that has proved itself.
		marked, saved := dir.Try(built.Ref, now), dir.Save(built.Proto(), now)
		if disk = errors.Join(marked, saved); disk != nil {
			c.o.Logger.Error("table is not kept on disk as it should be for the next start", "error", disk)
		}
	}
	c.suspect = table.Ref{}
	c.wait(nil)
	c.swap(built)
	c.update(func(s *Status) { s.Refused, s.DiskError = nil, disk })
	c.o.Logger.Info("took a table", "epoch", built.Ref.Epoch, "revision", built.Ref.Revision)
}

// swap puts a table in force. Its places are made before, so that no request finds a table and not
// its places; requests of before keep the table that they have. The lock is held.
func (c *Client) swap(t *table.Table) {
	if c.o.Applied != nil {
		c.o.Applied(t)
	}
	c.o.Holder.Store(t)
	c.metrics.taken.Inc()
}

// wait holds a table back until an order ends; nil: none. The lock is held.
func (c *Client) wait(t *table.Table) {
	c.waiting = t
	var ref table.Ref
	if t != nil {
		ref = t.Ref
	}
	c.update(func(s *Status) { s.Waiting = ref })
}

// watch obeys orders as they come and end, and lets tables prove themselves, until ctx ends.
func (c *Client) watch(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			c.tables.Lock()
			defer c.tables.Unlock()
			if c.o.LastGood != nil {
				c.disk(c.o.LastGood.End())
			}
			return
		case <-tick.C:
			c.obey(time.Now())
		}
	}
}

// obey brings the table in force in line with orders.
func (c *Client) obey(now time.Time) {
	c.tables.Lock()
	defer c.tables.Unlock()
	ref, reverts := c.o.Revert()
	if !reverts {
		c.lost = table.Ref{}
	}
	held := c.o.Holder.Load()
	switch {
	case reverts && held != nil && !is(held.Ref, ref):
		newest := c.waiting
		if newest == nil {
			newest = held
		}
		if earlier := c.find(ref, newest); earlier != nil {
			c.wait(newest)
			c.o.Logger.Warn("going back by order", "from", held.Ref.Revision, "epoch", earlier.Ref.Epoch, "revision", earlier.Ref.Revision)
			c.swap(earlier)
		}
	case c.waiting != nil && !c.o.Frozen():
		c.take(c.waiting, now)
	}
	if c.o.LastGood != nil {
		c.disk(c.o.LastGood.Prove(now.Add(-proof)))
	}
}

// disk tells of a folder of tables that does not work.
func (c *Client) disk(err error) {
	if err == nil {
		return
	}
	c.update(func(s *Status) {
		if s.DiskError == nil || s.DiskError.Error() != err.Error() {
			c.o.Logger.Error("folder of tables does not work", "error", err)
		}
		s.DiskError = err
	})
}

// held is the number of the table in force. Zero: none.
func (c *Client) held() table.Ref {
	if t := c.o.Holder.Load(); t != nil {
		return t.Ref
	}
	return table.Ref{}
}
