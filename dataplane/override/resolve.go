package override

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

// resolve finds what an order names, so that one that would do nothing is refused.
func (b *Book) resolve(o *Order) error {
	if o.Kind == Revert {
		return b.resolveTable(o)
	}
	if err := b.named(o); err != nil {
		return wrong{err}
	}
	return nil
}

// vain says why an order of the file does nothing. Nil: it does what it says.
func (b *Book) vain(o Order) error {
	if o.Kind == Revert {
		return b.resolveTable(&o)
	}
	return b.named(&o)
}

// named checks a target against the table in force. Without a table nothing is known to be wrong.
func (b *Book) named(o *Order) error {
	t := b.o.Table()
	if t == nil || o.Target == "" {
		return nil
	}
	what, name := o.Place()
	cluster, region := t.Clusters[fleet.ClusterID(name)] != nil, t.Regions[fleet.RegionID(name)] != nil
	switch {
	case what == "" && cluster && region:
		return fmt.Errorf("%s is a cluster and a region: say cluster/%s or region/%s", name, name, name)
	case what != "region" && cluster, what != "cluster" && region:
		return nil
	}
	var names []string
	if what != "region" {
		for id := range t.Clusters {
			names = append(names, string(id))
		}
	}
	if what != "cluster" {
		for id := range t.Regions {
			names = append(names, string(id))
		}
	}
	return fmt.Errorf("the table has no %s %q: use %s", or(what, "cluster or region"), name, some(names))
}

// resolveTable finds the table to go back to among those on disk.
func (b *Book) resolveTable(o *Order) error {
	refs, err := b.o.Kept()
	if err != nil {
		return err
	}
	var held table.Ref
	if t := b.o.Table(); t != nil {
		held = t.Ref
	}
	var names []string
	for _, ref := range refs { // newest first
		switch {
		case o.Revision == 0 && o.Epoch == 0 && held.Newer(ref),
			o.Revision != 0 && ref.Revision == o.Revision && (o.Epoch == 0 || ref.Epoch == o.Epoch):
			o.Epoch, o.Revision = ref.Epoch, ref.Revision
			return nil
		}
		names = append(names, fmt.Sprintf("%d (epoch %d)", ref.Revision, ref.Epoch))
	}
	if len(names) == 0 {
		return wrong{errors.New("no table is kept on this router: there is nothing to go back to")}
	}
	if o.Revision == 0 {
		return wrong{fmt.Errorf("no table before the one in force is kept: name one of %s", strings.Join(names, ", "))}
	}
	return wrong{fmt.Errorf("table %d is not kept on this router: use one of %s", o.Revision, strings.Join(names, ", "))}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// some lists names, not all if they are many.
func some(names []string) string {
	slices.Sort(names)
	names = slices.Compact(names)
	const many = 12
	if len(names) > many {
		return strings.Join(names[:many], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}
