package history

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/claim"
	"orrery/controllers/internal/index"
	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
)

// Keeper manages the revisions of one kind of owner.
type Keeper struct {
	Format
	Comparer

	client    *client.Client
	live      *client.Client
	revisions cache.Store[*appsv1.ControllerRevision]
	byOwner   cache.Index[*appsv1.ControllerRevision]
	orphans   cache.Index[*appsv1.ControllerRevision]
}

// NewKeeper returns the keeper for one kind of owner.
func NewKeeper(cc kit.ControllerContext, format Format) *Keeper {
	k := &Keeper{
		Format: format, client: cc.Client, live: cc.Live,
		byOwner: index.ByController[*appsv1.ControllerRevision](), orphans: index.Orphans[*appsv1.ControllerRevision](),
	}
	k.revisions = kit.Store(cc, k.byOwner, k.orphans)
	return k
}

// Rule returns the permissions that a Keeper needs.
func Rule() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{"apps"}, Resources: []string{"controllerrevisions"},
		Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
	}
}

// Claim adopts the orphaned revisions that match the selector, and returns the revisions of the owner, sorted. recheck, see
// claim.Live, is called once before the first adoption. If some adoptions fail, Claim returns the other revisions and the
// errors.
func (k *Keeper) Claim(ctx context.Context, owner metav1.Object, selector labels.Selector, recheck func(context.Context) error) ([]*appsv1.ControllerRevision, error) {
	matches := func(r *appsv1.ControllerRevision) bool { return selector.Matches(labels.Set(r.Labels)) }
	var candidates []*appsv1.ControllerRevision
	for _, r := range index.Owned(k.revisions, k.byOwner, owner) {
		if k.releases || matches(r) {
			candidates = append(candidates, r)
		}
	}
	for _, r := range k.revisions.By(k.orphans, owner.GetNamespace()) {
		if matches(r) {
			candidates = append(candidates, r)
		}
	}
	claimer := claim.Claimer[*appsv1.ControllerRevision]{
		Owner: owner, Kind: k.Owner, Selector: selector, Recheck: recheck,
		Patch: claim.Patches[appsv1.ControllerRevision](k.client),
	}
	claimed, err := claimer.Claim(ctx, candidates)
	if err != nil {
		err = fmt.Errorf("claim revisions for %s: %w", klog.KObj(owner), err)
	}
	Sort(claimed)
	return claimed, err
}

// Create creates a revision of the wanted template. If there is a revision of that name which restores the template, it is
// returned instead; if there is any other revision of that name, taken is true, without an error.
func (k *Keeper) Create(ctx context.Context, w *Wanted, revision *appsv1.ControllerRevision) (stored *appsv1.ControllerRevision, taken bool, err error) {
	stored, err = client.Create(ctx, k.client, revision)
	switch {
	case err == nil:
		klog.FromContext(ctx).V(2).Info("Created a revision", "revision", klog.KObj(stored), "number", stored.Revision)
		return stored, false, nil
	case !apierrors.IsAlreadyExists(err):
		return nil, false, fmt.Errorf("create revision %s: %w", klog.KObj(revision), err)
	}
	holder, err := client.Get[appsv1.ControllerRevision](ctx, k.live, client.KeyOf(revision))
	if err != nil {
		return nil, false, fmt.Errorf("read existing revision %s: %w", klog.KObj(revision), err)
	}
	same, err := k.Same(w, holder)
	if err != nil || !same {
		return nil, err == nil, err
	}
	return holder, false, nil
}

// CreateCounting is Create, but tries the next name as long as the name is taken. collisions is the owner's collision count;
// the returned count must be stored in its status.
func (k *Keeper) CreateCounting(ctx context.Context, w *Wanted, revision *appsv1.ControllerRevision, collisions int32) (*appsv1.ControllerRevision, int32, error) {
	for {
		stored, taken, err := k.Create(ctx, w, k.renamed(revision, w.owner, w.template, collisions))
		if err != nil || !taken {
			return stored, collisions, err
		}
		collisions++
		klog.FromContext(ctx).V(2).Info("The name of a revision is taken by another one", "owner", klog.KObj(w.owner), "collisions", collisions)
	}
}

// Renumber sets the number of a revision. It conflicts if the revision has been changed since it was read.
func (k *Keeper) Renumber(ctx context.Context, revision *appsv1.ControllerRevision, number int64) (*appsv1.ControllerRevision, error) {
	if revision.Revision == number {
		return revision, nil
	}
	next := *revision
	next.Revision = number
	stored, err := client.Update(ctx, k.client, &next)
	if err != nil {
		return nil, fmt.Errorf("set the number of revision %s to %d: %w", klog.KObj(revision), number, err)
	}
	return stored, nil
}

// Truncate deletes the revisions that Surplus returns. One that no longer exists is not an error.
func (k *Keeper) Truncate(ctx context.Context, sorted []*appsv1.ControllerRevision, limit int32, inUse func(*appsv1.ControllerRevision) bool) error {
	surplus := k.Surplus(sorted, limit, inUse)
	return kit.Batch(ctx, len(surplus), 1, func(ctx context.Context, i int) error {
		err := client.Delete(ctx, k.client, surplus[i], client.IfUID(surplus[i].UID))
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete revision %s: %w", klog.KObj(surplus[i]), err)
		}
		return nil
	})
}
