package node

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudwatch "github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/prometheus/client_golang/prometheus"

	"anabranch/controlplane/backup"
	"anabranch/controlplane/cloudwatch"
	"anabranch/controlplane/reconcile"
	"anabranch/costmodel/awsprice/billed"
)

const readme = "../../../controlplane/README.md"

var (
	metricRow = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (counter|gauge|histogram) \\|([^|]*)\\| ([^|]+) \\|$")
	descText  = regexp.MustCompile(`^Desc{fqName: "([^"]+)", .*variableLabels: {([^}]*)}}$`)
	queryText = regexp.MustCompile("(?s)```promql\n(.*?)```")
)

// foreign are the metrics of the Go runtime, the process and the page itself.
func foreign(name string) bool {
	return strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") || strings.HasPrefix(name, "promhttp_")
}

// kept is every metric that a node with all options keeps: its labels, and its type where it shows it at once.
func kept(t *testing.T) (labels, kinds map[string]string) {
	t.Helper()
	o := options(t.TempDir(), "n1")
	o.Backups = []backup.Place{backup.Dir(t.TempDir())}
	o.BackupInterval = time.Hour
	o.Reconcile = &reconcile.Options{Seller: billed.New(aws.Config{}), Source: billed.Name}
	o.CloudWatch = &cloudwatch.Options{Client: awscloudwatch.New(awscloudwatch.Options{})}
	n, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.close(); err != nil {
			t.Error(err)
		}
	}()
	labels, kinds = map[string]string{}, map[string]string{}
	descs := make(chan *prometheus.Desc, 1000)
	n.metrics.Describe(descs)
	close(descs)
	for d := range descs {
		m := descText.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("can't read %s", d)
		}
		if !foreign(m[1]) {
			words := strings.Split(m[2], ",")
			slices.Sort(words)
			labels[m[1]] = strings.Join(words, ",")
		}
	}
	families, err := n.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		kinds[f.GetName()] = strings.ToLower(f.GetType().String())
	}
	return labels, kinds
}

func TestReadmeSaysWhatIsMeasured(t *testing.T) {
	raw, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	labels, kinds := kept(t)
	if len(labels) < 60 {
		t.Errorf("only %d metrics", len(labels))
	}
	documented := map[string]string{}
	for _, m := range metricRow.FindAllStringSubmatch(string(raw), -1) {
		name, kind := m[1], m[2]
		if _, twice := documented[name]; twice {
			t.Errorf("%s is there twice", name)
		}
		var words []string
		for word := range strings.SplitSeq(m[3], ",") {
			if word = strings.Trim(word, " `"); word != "" {
				words = append(words, word)
			}
		}
		slices.Sort(words)
		documented[name] = strings.Join(words, ",")
		if shown, ok := kinds[name]; ok && shown != kind {
			t.Errorf("%s is said to be a %s, it is a %s", name, kind, shown)
		}
		if strings.HasSuffix(name, "_total") != (kind == "counter") {
			t.Errorf("%s is said to be a %s", name, kind)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if said, ok := documented[name]; !ok {
			t.Errorf("lacking: | `%s` | %s | %s |", name, kinds[name], labels[name])
		} else if said != labels[name] {
			t.Errorf("%s is said to have the labels %q, it has %q", name, said, labels[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(documented)) {
		if _, ok := labels[name]; !ok {
			t.Errorf("no node keeps %s", name)
		}
	}
	checkQueries(t, string(raw), documented)
	runbooks, err := filepath.Glob("../../../controlplane/*/RUNBOOK.md")
	if err != nil || len(runbooks) < 2 {
		t.Fatalf("runbooks: %v, %v", runbooks, err)
	}
	for _, name := range runbooks {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, metric := range regexp.MustCompile(`\banabranch_(?:controlplane|collect|tls)_[a-z_]*[a-z]\b`).FindAllString(string(text), -1) {
			if _, ok := documented[metric]; !ok {
				t.Errorf("%s speaks of %s, which no node keeps", name, metric)
			}
		}
	}
}

// checkQueries wants queries to speak of metrics and labels that there are.
func checkQueries(t *testing.T, text string, documented map[string]string) {
	t.Helper()
	queries := queryText.FindAllStringSubmatch(text, -1)
	if len(queries) < 8 {
		t.Errorf("%d queries", len(queries))
	}
	metric := regexp.MustCompile(`((?:anabranch|http_server)_[a-z_]+)(?:\{([^}]*)\})?`)
	label := regexp.MustCompile(`([a-z_]+)(?:=|!)`)
	for _, q := range queries {
		for _, m := range metric.FindAllStringSubmatch(q[1], -1) {
			name := m[1]
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				if _, ok := documented[name]; !ok {
					name = strings.TrimSuffix(m[1], suffix)
				}
			}
			has, ok := documented[name]
			if !ok {
				t.Errorf("a query asks for %s", m[1])
			}
			for _, l := range label.FindAllStringSubmatch(m[2], -1) {
				if l[1] != "le" && !slices.Contains(strings.Split(has, ","), l[1]) {
					t.Errorf("a query asks %s for %s", m[1], l[1])
				}
			}
		}
	}
}
