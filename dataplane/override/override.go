// Package override keeps the emergency orders that hold on this router, and says what they come to. They come by four
// doors: from the control plane, by quorum or, without one, under a signature that is verified here; and, where no
// control plane can be asked, from a file in the data folder or through a socket beside it. Each has who gave it and
// why, and ends by itself. Doing what they say is the router's.
package override

import "anabranch/api/order"

// The words of package order, which are this package's too.
type (
	// Kind of an order.
	Kind = order.Kind
	// Order to use, or not to use, something.
	Order = order.Order
	// Given is an order and the door that it came by.
	Given = order.Given
	// View is what all orders together say at a moment.
	View = order.View
)

// The kinds of order; see package order.
const (
	Freeze     = order.Freeze
	Evacuate   = order.Evacuate
	Restore    = order.Restore
	Revert     = order.Revert
	Shed       = order.Shed
	StopDrills = order.StopDrills
)
