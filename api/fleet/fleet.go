// Package fleet holds the typed names of the things that Anabranch routes between. It is the
// bottom of the import graph: both planes speak in these types and nothing here knows more than
// what a name may look like.
package fleet

import (
	"errors"
	"fmt"
	"regexp"
)

// Names of one kind each, so that a region is never passed where a cluster is meant. The empty
// name means "none" everywhere.
type (
	// RegionID names a place with a jurisdiction, e.g. "us-east-1".
	RegionID string
	// ClusterID names GPUs behind one tier-1 gateway, or a set of endpoints in one region.
	ClusterID string
	// EndpointID names one model server (pod) within its cluster.
	EndpointID string
	// ModelID names a base model or an adapter, as clients write it in the "model" field.
	ModelID string
	// TenantID names who pays.
	TenantID string
	// ClassID names a traffic class, the set of objectives of a TrafficPolicy.
	ClassID string
	// RouterID names one router process; it is the first part of the request ids that it makes.
	RouterID string
	// NodeID names one control plane node.
	NodeID string
)

// DefaultClass is the traffic class of a request that no policy says otherwise about.
const DefaultClass ClassID = "interactive"

// MaxNameLength is the longest legal name in bytes, the length of a DNS label times two with room
// for a model vendor's prefix.
const MaxNameLength = 128

var (
	name  = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$`)
	model = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._:/@-]*[A-Za-z0-9])?$`)
)

// CheckName says what is wrong with the name of a resource other than a model, or nil: lower-case
// letters, digits, '.', '_' and '-', starting and ending with a letter or digit, at most
// [MaxNameLength] bytes.
func CheckName(s string) error { return check(s, name, "lower-case letters, digits, '.', '_' and '-'") }

// CheckModel says what is wrong with the name of a model or adapter, or nil. Models keep their
// vendor's spelling ("meta-llama/Llama-3.1-8B"), so capitals, '/', ':' and '@' are legal too.
func CheckModel(s string) error { return check(s, model, "letters, digits and . _ : / @ -") }

func check(s string, ok *regexp.Regexp, allowed string) error {
	switch {
	case s == "":
		return errors.New("is empty")
	case len(s) > MaxNameLength:
		return fmt.Errorf("is %d bytes long, the limit is %d", len(s), MaxNameLength)
	case !ok.MatchString(s):
		return fmt.Errorf("%q may hold only %s, and starts and ends with a letter or digit", s, allowed)
	}
	return nil
}
