package app

import (
	"encoding/base64"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"orrery/kit/selfsigned"
)

const (
	certificateDays    = 3650  // the default validity of a certificate
	maxCertificateDays = 36500 // a hundred years
)

// newCertificatesCommand returns the command that makes certificates for the webhooks, in clusters without cert-manager.
func newCertificatesCommand() *cobra.Command {
	dir, service, namespace, days := "", "nodepool-webhook", "kube-system", certificateDays
	var hosts []string
	cmd := &cobra.Command{
		Use:   "certificates",
		Short: "Create a serving certificate for the webhooks, and a CA to verify it",
		Long: `Create a certificate authority and a serving certificate for the Service of the webhooks, write ca.crt, tls.crt and
tls.key into a folder, and print how to install them. The CA's key is not kept: before the certificate expires, run
this command again and install the new files. With cert-manager in the cluster this command is not needed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if days < 1 || days > maxCertificateDays {
				return fmt.Errorf("--days must be 1 to %d, got %d", maxCertificateDays, days)
			}
			names := append([]string{service + "." + namespace + ".svc", service + "." + namespace + ".svc.cluster.local", service + "." + namespace}, hosts...)
			b, err := selfsigned.New(names, time.Now(), time.Duration(days)*24*time.Hour)
			if err != nil {
				return fmt.Errorf("make certificates: %w", err)
			}
			if err := b.Write(dir); err != nil {
				return fmt.Errorf("--dir: %w", err)
			}
			return explainCertificates(cmd.OutOrStdout(), dir, namespace, service, b)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", dir, "folder to write to; created if it does not exist")
	cmd.Flags().StringVar(&service, "service", service, "name of the Service in front of the webhooks")
	cmd.Flags().StringVar(&namespace, "namespace", namespace, "namespace of that Service")
	cmd.Flags().StringSliceVar(&hosts, "host", hosts, "additional DNS names and IP addresses for the certificate")
	cmd.Flags().IntVar(&days, "days", days, "days until the certificate expires")
	if err := cmd.MarkFlagRequired("dir"); err != nil {
		cobra.CheckErr(err) // the flag is defined above
	}
	return cmd
}

// explainCertificates says what to do with the files.
func explainCertificates(w io.Writer, dir, namespace, service string, b selfsigned.Bundle) error {
	ca := base64.StdEncoding.EncodeToString(b.CA)
	_, err := fmt.Fprintf(w, `Wrote %[1]s, %[2]s and %[3]s. To install them:
  kubectl -n %[4]s create secret tls %[5]s --cert=%[2]s --key=%[3]s --dry-run=client -o yaml | kubectl apply -f -
  for kind in mutatingwebhookconfiguration validatingwebhookconfiguration; do
    kubectl patch $kind %[5]s --type=json -p '[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"%[6]s"}]'
  done
`, filepath.Join(dir, selfsigned.CAFile), filepath.Join(dir, selfsigned.CertFile), filepath.Join(dir, selfsigned.KeyFile), namespace, service, ca)
	return err
}
