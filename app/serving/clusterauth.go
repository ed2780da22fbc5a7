package serving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// The config map in which the API server publishes how it authenticates, and its keys.
const (
	settingsName       = "extension-apiserver-authentication"
	clientCAKey        = "client-ca-file"
	proxyCAKey         = "requestheader-client-ca-file"
	usernameHeadersKey = "requestheader-username-headers"
	uidHeadersKey      = "requestheader-uid-headers"
	groupHeadersKey    = "requestheader-group-headers"
	extraPrefixesKey   = "requestheader-extra-headers-prefix"
	allowedNamesKey    = "requestheader-allowed-names"
)

// headerKeys are the keys whose values are lists of strings.
var headerKeys = []string{usernameHeadersKey, uidHeadersKey, groupHeadersKey, extraPrefixesKey, allowedNamesKey}

// proxyHeaders hold, by the key above, the header names and proxy names that count now.
type proxyHeaders struct {
	current atomic.Pointer[map[string][]string]
}

// provide returns the values of a key, as the authenticator wants them.
func (h *proxyHeaders) provide(key string) headerrequest.StringSliceProvider {
	return headerrequest.StringSliceProviderFunc(func() []string {
		if current := h.current.Load(); current != nil {
			return (*current)[key]
		}
		return nil
	})
}

// clusterSettings reads what flags leave open from the cluster, and follows its changes.
type clusterSettings struct {
	client   rest.Interface
	clientCA *caBundle     // nil if a flag gives it
	proxyCA  *caBundle     // nil if a flag gives it; headers go with it
	headers  *proxyHeaders // nil if a flag gives proxyCA
	changed  func()        // called after certificate authorities have changed
}

// lookup reads the settings once. An API server that is not up yet is given until the
// timeout, since it may be a static pod of the same machine.
func (c *clusterSettings) lookup(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var settings corev1.ConfigMap
	var last error
	err := wait.PollUntilContextCancel(ctx, lookupInterval, true, func(ctx context.Context) (bool, error) {
		last = c.client.Get().Namespace(metav1.NamespaceSystem).Resource("configmaps").Name(settingsName).Do(ctx).Into(&settings)
		if last == nil || apierrors.IsNotFound(last) || apierrors.IsForbidden(last) || apierrors.IsUnauthorized(last) {
			return true, nil
		}
		klog.InfoS("Waiting for the authentication settings of the cluster", "configMap", klog.KRef(metav1.NamespaceSystem, settingsName), "err", last)
		return false, nil
	})
	switch {
	case apierrors.IsNotFound(last):
		// The API server has not written it yet; the watch will tell.
		return nil
	case apierrors.IsForbidden(last):
		return fmt.Errorf("%w (the role %s-reader in namespace %s permits it)", last, settingsName, metav1.NamespaceSystem)
	case last != nil:
		return last
	case err != nil:
		return err
	}
	return c.apply(&settings)
}

// lookupInterval is both the pace of asking and that of saying so.
const lookupInterval = 2 * time.Second

// apply puts settings to use. Certificate authorities that are missing or broken leave
// the last ones in force, and so do header lists that are broken; lists that are missing
// are empty, which trusts nobody as there is no header for a user name then.
func (c *clusterSettings) apply(settings *corev1.ConfigMap) error {
	var errs []error
	changed := false
	for _, bundle := range []*caBundle{c.clientCA, c.proxyCA} {
		if bundle == nil || settings.Data[bundle.source] == "" {
			continue
		}
		updated, err := bundle.set([]byte(settings.Data[bundle.source]))
		changed = changed || updated
		errs = append(errs, err)
	}
	if c.headers != nil {
		headers, err := parseProxyHeaders(settings.Data)
		if err == nil {
			c.headers.current.Store(&headers)
		}
		errs = append(errs, err)
	}
	if changed {
		klog.V(2).InfoS("Took over authentication settings of the cluster", "resourceVersion", settings.ResourceVersion)
		c.changed()
	}
	return errors.Join(errs...)
}

// parseProxyHeaders decodes the lists of strings.
func parseProxyHeaders(data map[string]string) (map[string][]string, error) {
	headers := make(map[string][]string, len(headerKeys))
	for _, key := range headerKeys {
		if data[key] == "" {
			continue
		}
		var values []string
		if err := json.Unmarshal([]byte(data[key]), &values); err != nil {
			return nil, fmt.Errorf("parse %s of config map %s: %w", key, settingsName, err)
		}
		headers[key] = values
	}
	return headers, nil
}

// watch follows the settings until the context ends.
func (c *clusterSettings) watch(ctx context.Context) {
	// The role that permits this names the one object, which a list and a watch match only with this selector.
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, settingsName)
	take := func(obj any) {
		settings, ok := obj.(*corev1.ConfigMap)
		if !ok {
			return
		}
		if err := c.apply(settings); err != nil {
			klog.ErrorS(err, "Authentication settings of the cluster not usable; keeping the last ones")
		}
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(c.client, "configmaps", metav1.NamespaceSystem, selector),
		ObjectType:    &corev1.ConfigMap{},
		Handler:       cache.ResourceEventHandlerFuncs{AddFunc: take, UpdateFunc: func(_, obj any) { take(obj) }},
	})
	informer.RunWithContext(ctx)
}
