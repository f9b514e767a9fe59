package settings

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestTheLogFollowsItsFlags(t *testing.T) {
	for _, c := range []struct{ args, want, wrong string }{
		{args: "", want: "level=INFO msg=loud"},
		{args: "--log-format=json", want: `"msg":"loud"`},
		{args: "--log-level=error", want: ""},
		{args: "--log-level=chatty", wrong: "--log-level"},
		{args: "--log-format=xml", wrong: "--log-format"},
	} {
		t.Run(c.args, func(t *testing.T) {
			var l Log
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			l.Bind(flags)
			if err := flags.Parse(strings.Fields(c.args)); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			logger, err := l.Logger(&out)
			if c.wrong != "" {
				if err == nil || !strings.HasPrefix(err.Error(), c.wrong) {
					t.Fatalf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			logger.Debug("quiet")
			logger.Info("loud")
			if got := out.String(); !strings.Contains(got, c.want) || strings.Contains(got, "quiet") || c.want == "" && got != "" {
				t.Errorf("wrote %q", got)
			}
		})
	}
}
