package serving

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// kube stands in for a kube-apiserver: it reviews tokens and access and holds the authentication settings.
type kube struct {
	t          *testing.T
	server     *httptest.Server
	kubeconfig string

	mu       sync.Mutex // guards all below
	tokens   map[string]authenticationv1.UserInfo
	access   func(authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus
	settings *corev1.ConfigMap // nil is not found
	failWith int               // HTTP status of every answer, if not 0
	asked    map[string]int    // by the last element of the path
	reviewed []authorizationv1.SubjectAccessReviewSpec
	watchers []chan *corev1.ConfigMap
}

func newKube(t *testing.T) *kube {
	t.Helper()
	k := &kube{t: t, tokens: map[string]authenticationv1.UserInfo{}, asked: map[string]int{}}
	k.access = func(authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
		return authorizationv1.SubjectAccessReviewStatus{}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", k.reviewToken)
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", k.reviewAccess)
	mux.HandleFunc("GET /api/v1/namespaces/kube-system/configmaps", k.listSettings)
	mux.HandleFunc("GET /api/v1/namespaces/kube-system/configmaps/{name}", k.getSettings)
	k.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		k.mu.Lock()
		fail := k.failWith
		k.asked[req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]]++
		k.mu.Unlock()
		if fail != 0 {
			answerStatus(w, req, metav1.Status{Status: metav1.StatusFailure, Code: int32(fail), Reason: reasonOf(fail), Message: "as the test wants"})
			return
		}
		mux.ServeHTTP(w, req)
	}))
	t.Cleanup(func() {
		k.server.CloseClientConnections()
		k.server.Close()
	})
	k.kubeconfig = writeFile(t, t.TempDir(), "kubeconfig", fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c",
		"clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"c","user":{}}],
		"contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}]}`, k.server.URL))
	return k
}

func reasonOf(code int) metav1.StatusReason {
	if code == http.StatusForbidden {
		return metav1.StatusReasonForbidden
	}
	return metav1.StatusReasonUnknown
}

func (k *kube) with(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

func (k *kube) count(resource string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked[resource]
}

func (k *kube) reviewToken(w http.ResponseWriter, req *http.Request) {
	var review authenticationv1.TokenReview
	k.decode(req, &review)
	review.TypeMeta = metav1.TypeMeta{Kind: "TokenReview", APIVersion: "authentication.k8s.io/v1"}
	k.mu.Lock()
	defer k.mu.Unlock()
	if who, ok := k.tokens[review.Spec.Token]; ok {
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: who}
	} else {
		review.Status.Error = "[invalid bearer token]"
	}
	k.encode(w, http.StatusCreated, review)
}

func (k *kube) reviewAccess(w http.ResponseWriter, req *http.Request) {
	var review authorizationv1.SubjectAccessReview
	k.decode(req, &review)
	review.TypeMeta = metav1.TypeMeta{Kind: "SubjectAccessReview", APIVersion: "authorization.k8s.io/v1"}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reviewed = append(k.reviewed, review.Spec)
	review.Status = k.access(review.Spec)
	k.encode(w, http.StatusCreated, review)
}

func (k *kube) getSettings(w http.ResponseWriter, req *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.settings == nil || req.PathValue("name") != k.settings.Name {
		answerStatus(w, req, metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound})
		return
	}
	k.encode(w, http.StatusOK, k.settings)
}

func (k *kube) listSettings(w http.ResponseWriter, req *http.Request) {
	query := req.URL.Query()
	if query.Get("fieldSelector") != "metadata.name=extension-apiserver-authentication" || query.Get("sendInitialEvents") == "true" {
		// The role allows no more than the one object, and streaming lists are optional.
		answerStatus(w, req, metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden})
		return
	}
	if query.Get("watch") == "true" {
		k.watchSettings(w, req)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	list := corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{Kind: "ConfigMapList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	if k.settings != nil {
		list.Items = append(list.Items, *k.settings)
	}
	k.encode(w, http.StatusOK, list)
}

func (k *kube) watchSettings(w http.ResponseWriter, req *http.Request) {
	changes := make(chan *corev1.ConfigMap, 10)
	k.with(func() { k.watchers = append(k.watchers, changes) })
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		select {
		case <-req.Context().Done():
			return
		case settings := <-changes:
			k.encodeTo(w, map[string]any{"type": "MODIFIED", "object": settings})
			w.(http.Flusher).Flush()
		}
	}
}

// publish changes the settings for those who read and those who watch.
func (k *kube) publish(resourceVersion string, data map[string]string) {
	settings := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "extension-apiserver-authentication", Namespace: "kube-system", ResourceVersion: resourceVersion},
		Data:       data,
	}
	k.with(func() {
		k.settings = settings
		for _, watcher := range k.watchers {
			watcher <- settings
		}
	})
}

// decode reads what clients send by default, which is protobuf.
func (k *kube) decode(req *http.Request, into runtime.Object) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		k.t.Error(err)
	}
	if err := runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), body, into); err != nil {
		k.t.Error(err)
	}
}

func (k *kube) encode(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	k.encodeTo(w, value)
}

func (k *kube) encodeTo(w http.ResponseWriter, value any) {
	if err := json.NewEncoder(w).Encode(value); err != nil {
		k.t.Log(err)
	}
}
