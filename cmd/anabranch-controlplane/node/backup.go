package node

import (
	"context"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/controlplane/audit/archive"
	"anabranch/controlplane/backup"
)

// wireBackups makes the schedule of backups, if any are wanted.
func (n *Node) wireBackups(registry *prometheus.Registry) error {
	if len(n.o.Backups) == 0 {
		return nil
	}
	var err error
	n.backups, err = backup.New(backup.Options{
		Places: n.o.Backups, Interval: n.o.BackupInterval, Keep: n.o.BackupKeep,
		Scratch: filepath.Join(n.o.DataDir, "backup"),
		Leading: n.store.IsLeader, ReadBarrier: n.forward.ReadIndex, View: n.store.View,
		Node: n.store.ID(), Version: n.o.Version, Logger: n.o.Logger,
	})
	if err != nil {
		return err
	}
	if err := registry.Register(n.backups); err != nil {
		return err
	}
	places := make([]archive.Place, 0, len(n.o.Backups))
	for _, p := range n.o.Backups {
		places = append(places, p)
	}
	n.archive, err = archive.New(archive.Options{
		Places: places, Interval: n.o.BackupInterval,
		Leading: n.store.IsLeader, View: n.store.View, Propose: n.store.Propose,
		Node: n.store.ID(), Logger: n.o.Logger,
	})
	if err != nil {
		return err
	}
	return registry.Register(n.archive)
}

// archiveAudit brings the audit trail to where backups are.
func (n *Node) archiveAudit(ctx context.Context) error {
	if n.archive == nil {
		<-ctx.Done()
		return nil
	}
	return n.archive.Run(ctx)
}

// takeBackups runs the schedule.
func (n *Node) takeBackups(ctx context.Context) error {
	if n.backups == nil {
		<-ctx.Done()
		return nil
	}
	return n.backups.Run(ctx)
}
