package client

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Write is what a control loop remembers of one of its writes to the server.
type Write struct {
	// GVK is the kind written.
	GVK schema.GroupVersionKind
	// Key and UID name the object. UID may be empty.
	Key Key
	UID types.UID
	// ResourceVersion is the one that the server returned for a create, update or patch; empty for a delete.
	ResourceVersion string
	// Labels are those of the object as stored. They tell whether a cache with a label selector will show it.
	Labels map[string]string
	// Deleted marks a delete: the cache has caught up once the object with this UID is gone or marked for deletion.
	Deleted bool
	// Gone marks a delete after which the object is known not to exist: a deletion timestamp in the cache is not enough.
	Gone bool
	// Unknown marks a write that may or may not have been stored: the connection failed or the server timed out.
	Unknown bool
}

// WriteLog collects the writes made under a context. It is safe for concurrent use.
type WriteLog struct {
	mu     sync.Mutex // guards the fields below
	writes []Write
	dry    []DryWrite
}

// Take returns the writes noted so far and forgets them.
func (l *WriteLog) Take() []Write {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.writes
	l.writes = nil
	return w
}

// Note adds a write, for callers that write by other means than this package.
func (l *WriteLog) Note(w Write) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes = append(l.writes, w)
}

type writeLogKey struct{}

// WithWriteLog returns a context under which every write of this package is noted in l.
func WithWriteLog(ctx context.Context, l *WriteLog) context.Context {
	return context.WithValue(ctx, writeLogKey{}, l)
}

// note adds a write to the log of ctx, unless the call named its resource itself: no cache may hold that one.
func (c *call) note(ctx context.Context, w Write) {
	if c.place != nil {
		return
	}
	if l, ok := ctx.Value(writeLogKey{}).(*WriteLog); ok {
		l.Note(w)
	}
}
