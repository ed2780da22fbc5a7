package ask

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/manager"
	"orrery/kit/status"
)

// formats are the values of --output.
const formats = "text or json"

// NewStatusCommand returns the command that shows what a running daemon is doing.
func NewStatusCommand() *cobra.Command {
	var d daemon
	output, listen := "text", ""
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what a running daemon is doing: control loops, leader, caches, requests",
		Long: `Show what a running daemon is doing: every control loop with its queue, rate and errors, the leader, caches and requests.
With --listen, serve the daemon's page to a browser on this machine instead, with the credentials of the kubeconfig.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if listen != "" {
				ctx, stop := manager.SignalContext(commandContext(cmd))
				defer stop()
				return d.serve(ctx, listen, cmd.OutOrStdout())
			}
			var o status.Overview
			return d.show(cmd, output, nil, &o, func(w io.Writer) error { return status.WriteOverview(w, o) })
		},
	}
	d.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", output, formats)
	cmd.Flags().StringVar(&listen, "listen", listen, "loopback address on which to serve the page to a browser, such as 127.0.0.1:8010")
	return cmd
}

// NewExplainCommand returns the command that says what happened to an object.
func NewExplainCommand() *cobra.Command {
	var d daemon
	output := "text"
	cmd := &cobra.Command{
		Use:   "explain [KIND] NAMESPACE/NAME",
		Short: "Show which controllers reconciled an object, when, with what outcome, and when they will again",
		Long: `Show which controllers of a running daemon reconciled an object, when, with what outcome, and when they will again. The kind
is given as in kubectl: Deployment, deployments, deploy. The owners of the object are included. Without a kind, all objects
of that name are shown.`,
		Example: "  orrery explain deployment default/web\n  orrery explain node worker-1",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			query, err := question(args)
			if err != nil {
				return err
			}
			var e status.Explanation
			return d.show(cmd, output, query, &e, func(w io.Writer) error { return status.WriteExplanation(w, &e, time.Now()) })
		},
	}
	d.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", output, formats)
	return cmd
}

// question returns what to ask the daemon for.
func question(args []string) (url.Values, error) {
	q := url.Values{"object": {args[len(args)-1]}}
	if len(args) == 2 {
		q.Set("kind", args[0])
	}
	for _, a := range args {
		if strings.TrimSpace(a) == "" {
			return nil, fmt.Errorf("no object is named; for example: orrery explain deployment default/web")
		}
	}
	return q, nil
}

// show asks the daemon and prints its answer, which is read into a value.
func (d *daemon) show(cmd *cobra.Command, output string, query url.Values, into any, text func(io.Writer) error) error {
	if output != "text" && output != "json" {
		return fmt.Errorf("--output must be %s, got %q", formats, output)
	}
	body, err := d.get(commandContext(cmd), query)
	if err != nil {
		return err
	}
	if output == "json" {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), strings.TrimSpace(string(body)))
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("read the response of %s: %w", d.Server, err)
	}
	return text(cmd.OutOrStdout())
}

// commandContext returns the context of a command, which has none unless it was run with one.
func commandContext(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}

// message returns the message of an answer that may be a Status object.
func message(text string) string {
	var s metav1.Status
	if json.Unmarshal([]byte(text), &s) == nil && s.Message != "" {
		return s.Message
	}
	return text
}
