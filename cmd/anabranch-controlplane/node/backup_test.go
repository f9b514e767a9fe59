package node

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anabranch/controlplane/backup"
	"anabranch/controlplane/policy"
)

func TestTheLeaderKeepsBackups(t *testing.T) {
	t.Parallel()
	members := cluster(t, 1, func(o *Options) {
		o.Backups = []backup.Place{backup.Dir(filepath.Join(o.DataDir, "..", "backups"))}
		o.BackupInterval, o.BackupKeep = time.Second, 2
	})
	m := members[0]
	m.await(t, "writable", func() bool {
		status, _ := m.call(t, http.MethodPost, "/v1/regions", region("kept"), nil)
		return status == http.StatusCreated
	})
	m.await(t, "a backup with the region", func() bool {
		files, err := filepath.Glob(filepath.Join(m.options.DataDir, "..", "backups", "*.backup"))
		if err != nil || len(files) == 0 {
			return false
		}
		_, v, err := backup.Load(files[len(files)-1])
		if err != nil {
			return false // removed meanwhile
		}
		_, found := v.Get(policy.KindRegion, "kept")
		return found
	})
	m.await(t, "an archive of the audit trail that is confirmed", func() bool {
		files, err := filepath.Glob(filepath.Join(m.options.DataDir, "..", "backups", "audit", "*.ndjson.gz"))
		through, _ := m.store.View().AuditArchived()
		return err == nil && len(files) > 0 && through > 0
	})
	resp, err := client.Get("http://" + m.Addresses().HTTP + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"anabranch_controlplane_backup_age_seconds{place=", "anabranch_controlplane_backup_failures_total{place=", "anabranch_controlplane_audit_unarchived_entries "} {
		if !strings.Contains(string(text), want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}
