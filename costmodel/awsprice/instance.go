package awsprice

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Instance is a type of EC2 instance with accelerators.
type Instance struct {
	// Type is AWS's name, e.g. "p5.48xlarge".
	Type string
	// Class of its GPUs, as offers call it, and their number.
	Class string
	GPUs  int
	// Blocks: it is sold in capacity blocks too.
	Blocks bool
}

// known has the types that inference runs on, by https://aws.amazon.com/ec2/instance-types/ and
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html in November 2026.
var known = []Instance{
	{"g5.xlarge", "a10g", 1, false},
	{"g5.12xlarge", "a10g", 4, false},
	{"g5.48xlarge", "a10g", 8, false},
	{"g6.xlarge", "l4", 1, false},
	{"g6.12xlarge", "l4", 4, false},
	{"g6.48xlarge", "l4", 8, false},
	{"g6e.xlarge", "l40s", 1, false},
	{"g6e.2xlarge", "l40s", 1, false},
	{"g6e.12xlarge", "l40s", 4, false},
	{"g6e.24xlarge", "l40s", 4, false},
	{"g6e.48xlarge", "l40s", 8, false},
	{"g7e.48xlarge", "rtx-pro-6000", 8, false},
	{"p4d.24xlarge", "a100-40", 8, true},
	{"p4de.24xlarge", "a100-80", 8, true},
	{"p5.4xlarge", "h100", 1, true},
	{"p5.48xlarge", "h100", 8, true},
	{"p5e.48xlarge", "h200", 8, true},
	{"p5en.48xlarge", "h200", 8, true},
	{"p6-b200.48xlarge", "b200", 8, true},
	{"p6-b300.48xlarge", "b300", 8, true},
	{"inf2.48xlarge", "inferentia2", 12, false},
	{"trn1.32xlarge", "trainium", 16, true},
	{"trn2.48xlarge", "trainium2", 16, true},
}

// Instances are the types that are known without being told.
func Instances() []Instance { return slices.Clone(known) }

// ParseInstance reads a type that is known, or one with what it has: "p9.48xlarge=x100:8".
func ParseInstance(text string) (Instance, error) {
	name, rest, told := strings.Cut(text, "=")
	if !told {
		i := slices.IndexFunc(known, func(i Instance) bool { return i.Type == name })
		if i < 0 {
			return Instance{}, fmt.Errorf("the instance type %.40q is not known: add what it has, such as %.40s=h100:8", name, name)
		}
		return known[i], nil
	}
	class, count, _ := strings.Cut(rest, ":")
	gpus, err := strconv.Atoi(count)
	if name == "" || class == "" || err != nil || gpus < 1 || gpus > 1024 {
		return Instance{}, errors.New("an instance type is told like p9.48xlarge=h100:8")
	}
	// Nobody but AWS knows whether it is sold in blocks.
	return Instance{Type: name, Class: strings.ToLower(class), GPUs: gpus, Blocks: true}, nil
}
