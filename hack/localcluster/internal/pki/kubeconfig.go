package pki

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// clusterName is the name of the only cluster in the kubeconfig files.
const clusterName = "orrery-local"

// writeKubeconfig stores a kubeconfig that carries its certificates inline, so
// that the file works wherever it is copied.
func writeKubeconfig(path, server string, caCert []byte, user string, identity pair) error {
	config := clientcmdapi.NewConfig()
	config.Clusters[clusterName] = &clientcmdapi.Cluster{
		Server:                   server,
		CertificateAuthorityData: caCert,
	}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{
		ClientCertificateData: identity.cert,
		ClientKeyData:         identity.key,
	}
	context := user + "@" + clusterName
	config.Contexts[context] = &clientcmdapi.Context{Cluster: clusterName, AuthInfo: user}
	config.CurrentContext = context

	text, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encode kubeconfig of %s: %w", user, err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("write kubeconfig of %s: %w", user, err)
	}
	return nil
}
