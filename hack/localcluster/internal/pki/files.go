package pki

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
)

// Files are the paths of everything Write makes.
type Files struct {
	// CACert and CAKey are the cluster's authority.
	CACert, CAKey string
	// APIServerCert and APIServerKey are what kube-apiserver serves with.
	APIServerCert, APIServerKey string
	// FrontProxyCACert signed the client certificate with which kube-apiserver
	// calls extension servers.
	FrontProxyCACert, FrontProxyCert, FrontProxyKey string
	// ServiceAccountKey signs tokens, ServiceAccountPub checks them.
	ServiceAccountKey, ServiceAccountPub string
	// ControllerManagerCert and ControllerManagerKey are also inside
	// ControllerManagerKubeconfig; tests that call as this identity want them bare.
	ControllerManagerCert, ControllerManagerKey string
	// AdminKubeconfig is for everyone who may do everything.
	AdminKubeconfig string
	// SchedulerKubeconfig is kube-scheduler's identity.
	SchedulerKubeconfig string
	// ControllerManagerKubeconfig is kube-controller-manager's identity.
	ControllerManagerKubeconfig string
}

// Request says what the certificates and kubeconfig files are for.
type Request struct {
	// Dir is the folder that receives all files; it is made when missing.
	Dir string
	// Server is the URL of kube-apiserver that the kubeconfig files name.
	Server string
	// ServerHosts are the names and addresses kube-apiserver is reached by.
	ServerHosts []string
}

// The identities that the bootstrap roles of kube-apiserver know.
const (
	adminUser             = "kubernetes-admin"
	adminGroup            = "system:masters"
	schedulerUser         = "system:kube-scheduler"
	controllerManagerUser = "system:kube-controller-manager"
	frontProxyUser        = "front-proxy-client"
)

// Write makes all certificates, keys and kubeconfig files of one control plane.
func Write(req Request) (Files, error) {
	if err := os.MkdirAll(req.Dir, 0o700); err != nil {
		return Files{}, fmt.Errorf("make certificate folder: %w", err)
	}
	files := layout(req.Dir)
	ca, err := newAuthority("kubernetes")
	if err != nil {
		return Files{}, err
	}
	caPair, err := ca.pem()
	if err != nil {
		return Files{}, err
	}
	if err := caPair.write(files.CACert, files.CAKey); err != nil {
		return Files{}, err
	}
	if err := writeServing(ca, files, req.ServerHosts); err != nil {
		return Files{}, err
	}
	if err := writeFrontProxy(files); err != nil {
		return Files{}, err
	}
	if err := writeServiceAccountKeys(files); err != nil {
		return Files{}, err
	}
	return files, writeClients(ca, caPair.cert, files, req.Server)
}

func layout(dir string) Files {
	in := func(name string) string { return filepath.Join(dir, name) }
	return Files{
		CACert: in("ca.crt"), CAKey: in("ca.key"),
		APIServerCert: in("apiserver.crt"), APIServerKey: in("apiserver.key"),
		FrontProxyCACert: in("front-proxy-ca.crt"),
		FrontProxyCert:   in("front-proxy-client.crt"), FrontProxyKey: in("front-proxy-client.key"),
		ServiceAccountKey: in("sa.key"), ServiceAccountPub: in("sa.pub"),
		AdminKubeconfig:             in("admin.kubeconfig"),
		SchedulerKubeconfig:         in("scheduler.kubeconfig"),
		ControllerManagerKubeconfig: in("controller-manager.kubeconfig"),
		ControllerManagerCert:       in("controller-manager.crt"), ControllerManagerKey: in("controller-manager.key"),
	}
}

func writeServing(ca *authority, files Files, hosts []string) error {
	serving, err := ca.issue(subject{name: "kube-apiserver", hosts: hosts})
	if err != nil {
		return err
	}
	return serving.write(files.APIServerCert, files.APIServerKey)
}

// writeFrontProxy makes the identity with which kube-apiserver calls extension
// servers. Its authority is a separate one, so that no ordinary client
// certificate can pose as the proxy and name any user in a header.
func writeFrontProxy(files Files) error {
	ca, err := newAuthority("front-proxy-ca")
	if err != nil {
		return err
	}
	caPair, err := ca.pem()
	if err != nil {
		return err
	}
	if err := os.WriteFile(files.FrontProxyCACert, caPair.cert, 0o644); err != nil {
		return fmt.Errorf("write front proxy authority: %w", err)
	}
	client, err := ca.issue(subject{name: frontProxyUser})
	if err != nil {
		return err
	}
	return client.write(files.FrontProxyCert, files.FrontProxyKey)
}

// writeServiceAccountKeys makes an RSA pair in the encodings kubeadm uses.
func writeServiceAccountKeys(files Files) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("generate service account key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encode service account key: %w", err)
	}
	both := pair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
	}
	return both.write(files.ServiceAccountPub, files.ServiceAccountKey)
}

func writeClients(ca *authority, caCert []byte, files Files, server string) error {
	clients := []struct {
		subject subject
		path    string
	}{
		{subject{name: adminUser, groups: []string{adminGroup}}, files.AdminKubeconfig},
		{subject{name: schedulerUser}, files.SchedulerKubeconfig},
		{subject{name: controllerManagerUser}, files.ControllerManagerKubeconfig},
	}
	for _, client := range clients {
		identity, err := ca.issue(client.subject)
		if err != nil {
			return err
		}
		if err := writeKubeconfig(client.path, server, caCert, client.subject.name, identity); err != nil {
			return err
		}
		if client.subject.name != controllerManagerUser {
			continue
		}
		if err := identity.write(files.ControllerManagerCert, files.ControllerManagerKey); err != nil {
			return err
		}
	}
	return nil
}
