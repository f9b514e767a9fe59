package override

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"sigs.k8s.io/yaml"

	"anabranch/api/order"
)

// maxFile bounds the file of orders in bytes.
const maxFile = 64 << 10

// written is an order as the file has it.
type written struct {
	ID       string    `json:"id"`
	Kind     Kind      `json:"kind"`
	Target   string    `json:"target"`
	Epoch    uint64    `json:"epoch"`
	Revision uint64    `json:"revision"`
	Priority *int32    `json:"priority"`
	Actor    string    `json:"actor"`
	Reason   string    `json:"reason"`
	At       time.Time `json:"at"`
	Expires  time.Time `json:"expires"`
	For      string    `json:"for"`
}

// Parse reads a file of orders: a list under the key orders. One that doesn't say when it was given
// was given when the file was changed. Unknown keys and wrong values are errors, which name the
// order by its place in the list, from 1; expired orders are none.
func Parse(text []byte, changed, now time.Time) ([]Order, error) {
	var list struct {
		Orders []written `json:"orders"`
	}
	if err := yaml.UnmarshalStrict(text, &list); err != nil {
		return nil, err
	}
	if len(list.Orders) > order.MaxOrders {
		return nil, fmt.Errorf("%d orders: at most %d", len(list.Orders), order.MaxOrders)
	}
	var orders []Order
	names := make(map[string]bool)
	for i, w := range list.Orders {
		o, err := w.order(i+1, changed)
		if err == nil {
			err = o.Check(now)
		}
		if err == nil && names[o.ID] {
			err = fmt.Errorf("id %q is another's: give it one of its own", o.ID)
		}
		if err != nil {
			return nil, fmt.Errorf("order %d: %w", i+1, err)
		}
		names[o.ID] = true
		orders = append(orders, o)
	}
	return orders, nil
}

func (w *written) order(n int, changed time.Time) (Order, error) {
	o := Order{
		ID: w.ID, Kind: w.Kind, Target: w.Target, Epoch: w.Epoch, Revision: w.Revision,
		Actor: w.Actor, Reason: w.Reason, At: w.At, Expires: w.Expires,
	}
	if o.ID == "" {
		o.ID = fmt.Sprintf("file-%d", n)
	} else if err := order.CheckID(o.ID); err != nil {
		return o, err
	}
	if w.Priority != nil {
		o.Priority = *w.Priority
	} else if o.Kind == Shed {
		return o, errMissingPriority
	}
	if o.At.IsZero() {
		o.At = changed
	}
	switch {
	case !w.Expires.IsZero() && w.For != "":
		return o, errors.New("expires and for say the same: give one of them")
	case w.Expires.IsZero():
		term, err := order.ParseTerm(w.For)
		if err != nil {
			return o, err
		}
		o.Expires = o.At.Add(term)
	}
	return o, nil
}

var errMissingPriority = errors.New("priority is missing: requests below it are refused")

// look is what can be told of a file without reading it.
type look struct {
	there bool
	size  int64
	time  time.Time
}

// watched is the file of orders. It is taken when it looks the same twice in a row, so that one
// that is just being written, or replaced, is not.
type watched struct {
	path        string
	seen, taken look
	started     bool // it has been looked at before
	unread      bool // it could not be read, which may change without its looks
	orders      []Order
	err         error // why the file as it is now is not in force
}

// poll looks at the file, and says whether its orders or its error have changed.
func (f *watched) poll(now time.Time) bool {
	is, err := glance(f.path)
	if err != nil {
		f.started = true
		return f.fail(err)
	}
	stable, same := is == f.seen || !f.started, is == f.taken && f.started && !f.unread
	f.seen, f.started = is, true
	if !stable || same {
		return false
	}
	f.taken = is
	if !is.there {
		changed := len(f.orders) > 0 || f.err != nil
		f.orders, f.err, f.unread = nil, nil, false
		return changed
	}
	text, err := readFile(f.path, maxFile)
	if err != nil {
		return f.fail(err)
	}
	f.unread = false
	orders, err := Parse(text, is.time, now)
	if err != nil {
		changed := f.fail(fmt.Errorf("read orders %s: %w", f.path, err))
		f.unread = false // it is as bad when it is read again
		return changed
	}
	f.orders, f.err = orders, nil
	return true
}

// fail keeps the orders and notes why.
func (f *watched) fail(err error) bool {
	changed := f.err == nil || f.err.Error() != err.Error()
	f.err, f.unread = err, true
	return changed
}

func glance(path string) (look, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return look{}, nil
	case err != nil:
		return look{}, fmt.Errorf("read orders: %w", err)
	case !info.Mode().IsRegular():
		return look{}, fmt.Errorf("read orders: %s is not a regular file", path)
	}
	return look{true, info.Size(), info.ModTime()}, nil
}

func readFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read orders: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read orders: %w", err)
	case int64(len(text)) > most:
		return nil, fmt.Errorf("read orders: %s is larger than %d bytes", path, most)
	}
	return text, nil
}
