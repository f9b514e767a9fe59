package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anabranch/cmd/anabranch-controlplane/node"
	"anabranch/controlplane/cloudwatch"
)

// Where CloudWatch is wanted and can't be asked, the flag that is wrong is named before anything starts.
func TestFlagsOfCloudWatchAreJudged(t *testing.T) {
	for _, c := range []struct{ name, region, namespace, metric, interval, want string }{
		{name: "none is wanted"},
		{"right", "eu-west-1", "Inference", "anabranch_*", "1m", ""},
		{"no region", "", "Inference", "anabranch_*", "1m", "AWS_REGION"},
		{"a namespace of Amazon's", "eu-west-1", "AWS/EC2", "anabranch_*", "1m", "--cloudwatch-namespace"},
		{"a pattern that is none", "eu-west-1", "Inference", "a[", "1m", "--cloudwatch-metrics"},
		{"too often", "eu-west-1", "Inference", "anabranch_*", "1s", "--cloudwatch-interval"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, both := range os.Environ() {
				if name, _, _ := strings.Cut(both, "="); strings.HasPrefix(name, "AWS_") {
					t.Setenv(name, "")
				}
			}
			t.Setenv("AWS_REGION", c.region)
			t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
			var f flags
			var o node.Options
			if c.namespace != "" {
				every, err := time.ParseDuration(c.interval)
				if err != nil {
					t.Fatal(err)
				}
				f.cloudWatch = cloudwatch.Options{Namespace: c.namespace, Names: []string{c.metric}, Interval: every}
			}
			err := f.publish(t.Context(), &o)
			switch {
			case c.want == "" && (err != nil || (o.CloudWatch != nil) != (c.namespace != "")):
				t.Errorf("error %v, options %v", err, o.CloudWatch)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want one that names %s", err, c.want)
			}
		})
	}
}
