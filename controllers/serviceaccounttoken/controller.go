package serviceaccounttoken

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery/controllers/internal/cafile"
	"orrery/kit"
	"orrery/kit/cache"
	"orrery/options"
)

const (
	// Name of the controller.
	Name = "serviceaccount-token-controller"
	// queue is the name of both loops' queues.
	queue = "serviceaccount_tokens_service"
)

// Descriptor describes the controller to the daemon. It runs with the process's own identity, since the identities of other
// controllers may depend on the tokens that it makes.
func Descriptor(s *options.Shared) kit.Descriptor {
	return kit.Descriptor{
		Name: Name, Aliases: []string{"serviceaccount-token"},
		Summary: "fills in and cleans up the token Secrets of ServiceAccounts",
		Init:    func(cc kit.ControllerContext) (bool, error) { return initialize(cc, s) },
	}
}

// accountKey identifies one ServiceAccount, as distinct from a later one of the same name.
type accountKey struct {
	namespace, name string
	uid             types.UID
}

// secretKey identifies a Secret, with the fields that are needed after it is deleted. accountUID is empty for a Secret that
// has not been filled in yet.
type secretKey struct {
	namespace, name string
	uid             types.UID
	account         string
	accountUID      types.UID
}

func initialize(cc kit.ControllerContext, s *options.Shared) (bool, error) {
	if s.ServiceAccountKeyFile == "" {
		cc.Log.Info("Not starting: there is no key to sign tokens with; see --service-account-private-key-file")
		return false, nil
	}
	signer, err := loadSigner(s.ServiceAccountKeyFile)
	if err != nil {
		return false, fmt.Errorf("--service-account-private-key-file: %w", err)
	}
	ca, err := cafile.New(s.RootCAFile, cc.RootCA)
	if err != nil {
		return false, fmt.Errorf("--root-ca-file: %w", err)
	}
	r := &reconciler{
		accounts: kit.Store[corev1.ServiceAccount](cc), secrets: kit.Store(cc, tokensByAccount()),
		live: cc.Live, sign: signer.sign, ca: ca.Bundle,
	}
	newCA := kit.NewTrigger[secretKey]()
	err = cafile.Follow(cc, ca, func() {
		for _, secret := range r.secrets.List("") {
			for _, key := range secretKeys(secret) {
				newCA.Add(key)
			}
		}
	})
	if err != nil {
		return false, err
	}
	workers := int(s.ServiceAccountTokenSyncs)
	err = kit.NewController(cc, kit.Func[accountKey](r.reconcileAccount)).Loop("accounts").
		Watch(kit.Watches(accountKeys)).Queue(queue).Workers(workers).Complete()
	if err != nil {
		return false, err
	}
	return true, kit.NewController(cc, r).
		Watch(kit.Watches(secretKeys), newCA.Source()).Queue(queue).Workers(workers).Complete()
}

func accountKeys(a *corev1.ServiceAccount) []accountKey {
	return []accountKey{{a.Namespace, a.Name, a.UID}}
}

// secretKeys returns the key of a token Secret that names an account, and none for any other.
func secretKeys(s *corev1.Secret) []secretKey {
	account := s.Annotations[corev1.ServiceAccountNameKey]
	if s.Type != corev1.SecretTypeServiceAccountToken || account == "" {
		return nil
	}
	return []secretKey{{s.Namespace, s.Name, s.UID, account, types.UID(s.Annotations[corev1.ServiceAccountUIDKey])}}
}

// tokensByAccount indexes token Secrets by "<namespace>/<account>".
func tokensByAccount() cache.Index[*corev1.Secret] {
	return cache.Index[*corev1.Secret]{Name: "token-account", Keys: func(s *corev1.Secret) []string {
		var out []string
		for _, k := range secretKeys(s) {
			out = append(out, k.namespace+"/"+k.account)
		}
		return out
	}}
}
