package store

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/hashicorp/go-hclog"
)

// raftLogger gives hashicorp/raft a logger that writes to l.
func raftLogger(l *slog.Logger) hclog.Logger {
	logger := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Off})
	logger.RegisterSink(sink{l.Handler()})
	return logger
}

// sink passes raft's lines on as records.
type sink struct{ handler slog.Handler }

// Accept writes one line. Raft's errors become warnings: it reports every failed heartbeat as an
// error, and what a person must act on (a failing disk) is reported by this package.
func (s sink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	to := slog.LevelDebug
	switch level {
	case hclog.Info:
		to = slog.LevelInfo
	case hclog.Warn, hclog.Error:
		to = slog.LevelWarn
	}
	ctx := context.Background()
	if !s.handler.Enabled(ctx, to) {
		return
	}
	record := slog.NewRecord(time.Now(), to, "raft: "+msg, 0)
	for i, a := range args {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			args[i] = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
	}
	record.Add(args...)
	// A handler that cannot write has nowhere to say so.
	_ = s.handler.Handle(ctx, record)
}
