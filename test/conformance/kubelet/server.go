package kubelet

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/utils/exec"
)

// APIServerArg makes kube-apiserver find this package's server where a node's kubelet should be.
const APIServerArg = "--kubelet-preferred-address-types=" + string(corev1.NodeInternalDNS)

// Kubelet serves all nodes of one cluster.
type Kubelet struct {
	client kubernetes.Interface
	disk   *disk
	server *http.Server
	cancel context.CancelFunc
	ended  chan struct{}
}

// Start serves the nodes that the cluster has now, until Stop.
func Start(ctx context.Context, client kubernetes.Interface) (*Kubelet, error) {
	pem, keyPEM, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(pem, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	k := &Kubelet{client: client, disk: newDisk(), ended: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", k.serveExec)
	// Only HTTP/1.1 can be switched over to streams.
	k.server = &http.Server{Handler: mux, TLSConfig: &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
	}}
	go func() { _ = k.server.ServeTLS(listener, "", "") }()
	if err := k.register(ctx, listener.Addr().(*net.TCPAddr).Port); err != nil {
		return nil, errors.Join(err, k.server.Close())
	}
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	k.cancel = cancel
	go func() {
		defer close(k.ended)
		k.watch(watching)
	}()
	return k, nil
}

// Stop ends the server and the watch.
func (k *Kubelet) Stop() error {
	k.cancel()
	<-k.ended
	return k.server.Close()
}

// register tells the API server where the kubelet of every node is.
func (k *Kubelet) register(ctx context.Context, port int) error {
	nodes, err := k.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	for _, node := range nodes.Items {
		addresses := append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalDNS, Address: "localhost"})
		patch, err := json.Marshal(map[string]any{"status": map[string]any{
			"addresses":       addresses,
			"daemonEndpoints": map[string]any{"kubeletEndpoint": map[string]any{"Port": port}},
		}})
		if err != nil {
			return fmt.Errorf("encode patch: %w", err)
		}
		_, err = k.client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		if err != nil {
			return fmt.Errorf("patch node %s: %w", node.Name, err)
		}
	}
	return nil
}

func (k *Kubelet) serveExec(w http.ResponseWriter, r *http.Request) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	pod, err := k.client.CoreV1().Pods(r.PathValue("namespace")).Get(r.Context(), r.PathValue("pod"), metav1.GetOptions{})
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	remotecommand.ServeExec(w, r, execution{k, pod}, pod.Name, string(pod.UID), r.PathValue("container"),
		r.URL.Query()["command"], options, time.Minute, 30*time.Second, remotecommand.SupportedStreamingProtocols)
}

// execution runs one command in a pod.
type execution struct {
	kubelet *Kubelet
	pod     *corev1.Pod
}

// ExecInContainer implements remotecommand.Executor.
func (e execution) ExecInContainer(ctx context.Context, _, _ string, container string, words []string,
	in io.Reader, out, errOut io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	for i := range e.pod.Spec.Containers {
		c := &e.pod.Spec.Containers[i]
		if c.Name != container {
			continue
		}
		unpack(e.kubelet.disk, e.pod)
		m := &machine{disk: e.kubelet.disk, pod: e.pod, container: c}
		code, err := m.run(ctx, words, streams{orEmpty(in), orDiscard(out), orDiscard(errOut)})
		if err != nil && !errors.Is(err, errKeepsRunning) {
			return err
		}
		if err := e.kubelet.report(ctx, e.pod); err != nil {
			return err
		}
		if code != 0 {
			return exec.CodeExitError{Err: errors.New("exit code " + strconv.Itoa(code)), Code: code}
		}
		return nil
	}
	return fmt.Errorf("no container %q", container)
}
