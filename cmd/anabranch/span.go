package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// day is what people count the lives of secrets in, and Go's durations lack.
const day = 24 * time.Hour

// spanVar adds a flag for a length of time that may also be given in days, as 90d.
func spanVar(flags *pflag.FlagSet, to *time.Duration, name string, value time.Duration, usage string) {
	*to = value
	flags.Var((*span)(to), name, usage)
}

// span is a duration that is read and shown in days where it has whole ones.
type span time.Duration

func (s *span) Set(text string) error {
	d, err := parseSpan(text)
	if err == nil {
		*s = span(d)
	}
	return err
}

func (s *span) Type() string { return "duration" }

func (s *span) String() string {
	d := time.Duration(*s)
	if d != 0 && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	return d.String()
}

// parseSpan reads a whole number of days, as 90d, or what Go takes for a duration.
func parseSpan(text string) (time.Duration, error) {
	if number, found := strings.CutSuffix(text, "d"); found {
		n, err := strconv.ParseInt(number, 10, 64)
		if most := int64(math.MaxInt64 / day); err == nil && n <= most && n >= -most {
			return time.Duration(n) * day, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is no length of time: write 90d, 12h or 30m", text)
	}
	return d, nil
}
