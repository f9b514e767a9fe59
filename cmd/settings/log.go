package settings

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/pflag"
)

// Log is what a command's flags say of its log.
type Log struct {
	level, format string
}

// Bind adds --log-level and --log-format.
func (l *Log) Bind(flags *pflag.FlagSet) {
	flags.StringVar(&l.level, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&l.format, "log-format", "text", "text or json")
}

// Logger writes to w as the flags say; its error names the flag.
func (l *Log) Logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.level)); err != nil {
		return nil, fmt.Errorf("--log-level: %q is none of debug, info, warn, error", l.level)
	}
	options := &slog.HandlerOptions{Level: level}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("--log-format: %q is neither text nor json", l.format)
}
