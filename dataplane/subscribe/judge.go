package subscribe

import (
	"errors"
	"fmt"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
)

// Codes of a refusal (NACK) that are this package's own; the others are those of [table.Invalid].
const (
	CodeNoNumber     = "no_number"     // the table names no cluster or revision
	CodeOtherCluster = "other_cluster" // it comes from another control plane cluster
	CodeOlder        = "older"         // a newer one is held
	CodeInvalid      = "invalid"       // no code says it better
	CodeCrashLoop    = "crash_loop"    // this router ended twice within moments of taking it
	CodeFrozen       = "frozen"        // an order given to this router holds newer tables off
	CodeOtherRegion  = "other_region"  // it is a slice for the routers of another region
)

// Refusal is why a pushed table was not taken.
type Refusal struct {
	Code, Field, Message string
}

// String reads as "code at field: message".
func (r *Refusal) String() string {
	if r.Field == "" {
		return r.Code + ": " + r.Message
	}
	return r.Code + " at " + r.Field + ": " + r.Message
}

// verdict says what to do with a pushed table.
type verdict int

const (
	take  verdict = iota
	again         // the one that is held already: acknowledged, nothing changes
	refuse
)

// judge compares numbers only. A router takes a table of the control plane cluster whose table it
// holds, and only a later one: by epoch, which rises with each restore and recovery, then by
// revision. A router that holds none (the zero Ref) takes any.
func judge(held, pushed table.Ref) (verdict, *Refusal) {
	switch {
	case pushed.ClusterID == "" || pushed.Revision == 0:
		return refuse, &Refusal{Code: CodeNoNumber, Field: "ref", Message: "the table names no control plane cluster or no revision"}
	case held == table.Ref{}:
		return take, nil
	case held.ClusterID != pushed.ClusterID:
		return refuse, &Refusal{Code: CodeOtherCluster, Field: "ref.cluster_id", Message: fmt.Sprintf(
			"this router follows control plane %s; to move it to %s, empty its data folder", held.ClusterID, pushed.ClusterID)}
	case held == pushed:
		return again, nil
	case pushed.Newer(held):
		return take, nil
	}
	return refuse, &Refusal{Code: CodeOlder, Field: "ref", Message: fmt.Sprintf("epoch %d revision %d is held", held.Epoch, held.Revision)}
}

// foreign says why a table is not for the routers of a region; nil: it is, or is a whole one.
func foreign(pb *routerpb.Table, region fleet.RegionID) *Refusal {
	if pb.GetRegion() == "" || pb.GetRegion() == string(region) {
		return nil
	}
	return &Refusal{Code: CodeOtherRegion, Field: "region", Message: fmt.Sprintf(
		"the table is for the routers of %s, this one serves %s", pb.GetRegion(), region)}
}

// refusalOf turns what table.Build said into a refusal.
func refusalOf(err error) *Refusal {
	if invalid, ok := errors.AsType[*table.Invalid](err); ok {
		return &Refusal{Code: invalid.Code, Field: invalid.Field, Message: invalid.Message}
	}
	return &Refusal{Code: CodeInvalid, Message: err.Error()}
}
