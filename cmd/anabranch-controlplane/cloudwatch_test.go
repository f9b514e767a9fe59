package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudwatch "github.com/aws/aws-sdk-go-v2/service/cloudwatch"

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

// The client is made as the environment says, its endpoint too.
func TestMetricsGoToTheEndpointOfTheEnvironment(t *testing.T) {
	var asked atomic.Int64
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "PutMetricData") {
			asked.Add(1)
		}
		w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
		w.Header().Set("Content-Type", "application/cbor")
		_, _ = w.Write([]byte{0xa0}) // an empty map
	}))
	defer h.Close()
	for name, value := range map[string]string{
		"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ENDPOINT_URL": h.URL,
		"AWS_ENDPOINT_URL_CLOUDWATCH": "", "AWS_PROFILE": "", "AWS_CONFIG_FILE": filepath.Join(t.TempDir(), "none"),
	} {
		t.Setenv(name, value)
	}
	f := flags{cloudWatch: cloudwatch.Options{Namespace: "Inference"}}
	var o node.Options
	if err := f.publish(t.Context(), &o); err != nil {
		t.Fatal(err)
	}
	if err := o.CloudWatch.Credentials(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := o.CloudWatch.Client.PutMetricData(t.Context(), &awscloudwatch.PutMetricDataInput{Namespace: aws.String("Inference")}); err != nil {
		t.Fatal(err)
	}
	if asked.Load() != 1 {
		t.Errorf("the endpoint was asked %d times", asked.Load())
	}
}
