package claim

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"

	"orrery/kit/client"
)

// Live returns a Recheck that reads the owner from the server and refuses if it is being deleted or is another object
// of the same name. live must not read from a cache.
func Live[T any, P client.Ptr[T]](live *client.Client, owner P) func(context.Context) error {
	return Recheck(owner, func(ctx context.Context) (P, error) {
		return client.Get[T, P](ctx, live, client.KeyOf(owner))
	})
}

// Recheck is Live with the read given as a function.
func Recheck[P client.Object](owner P, read func(context.Context) (P, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		now, err := read(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("read owner %s before adoption: %w", klog.KObj(owner), err)
		case now.GetUID() != owner.GetUID():
			return fmt.Errorf("owner %s is gone: its name belongs to UID %s now, not %s", klog.KObj(owner), now.GetUID(), owner.GetUID())
		case now.GetDeletionTimestamp() != nil:
			return fmt.Errorf("owner %s has been marked for deletion at %s", klog.KObj(owner), now.GetDeletionTimestamp())
		}
		return nil
	}
}

// Patches returns a Patch function that writes through the client.
func Patches[T any, P client.Ptr[T]](c *client.Client) func(context.Context, P, client.Patch) error {
	return func(ctx context.Context, obj P, p client.Patch) error {
		_, err := client.PatchObject[T, P](ctx, c, obj, p, client.Brief)
		return err
	}
}

// Adoptions returns an Adopt function that writes through the client and returns the object as stored.
func Adoptions[T any, P client.Ptr[T]](c *client.Client) func(context.Context, P, client.Patch) (P, error) {
	return func(ctx context.Context, obj P, p client.Patch) (P, error) {
		return client.PatchObject[T, P](ctx, c, obj, p)
	}
}
