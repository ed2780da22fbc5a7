package app

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// subcommand gives a command its own help and error output: those of the daemon deal with the daemon's flags and use its
// log.
func subcommand(cmd *cobra.Command) *cobra.Command {
	usage := func(w io.Writer, c *cobra.Command) error {
		_, err := fmt.Fprintf(w, "Usage:\n  %s\n\nFlags:\n%s", c.UseLine(), c.LocalFlags().FlagUsagesWrapped(120))
		return err
	}
	cmd.SetUsageFunc(func(c *cobra.Command) error { return usage(c.OutOrStderr(), c) })
	cmd.SetHelpFunc(func(c *cobra.Command, _ []string) {
		about, w := c.Long, c.OutOrStdout()
		if about == "" {
			about = c.Short
		}
		fmt.Fprintf(w, "%s\n\n", about)
		if c.Example != "" {
			fmt.Fprintf(w, "Examples:\n%s\n\n", c.Example)
		}
		_ = usage(w, c) // there is nobody to report a failed write to
	})
	// Overrides that of the daemon, which sets up logging.
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error { return nil }
	return cmd
}
