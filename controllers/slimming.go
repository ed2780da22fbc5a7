package controllers

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/controllers/internal/slim"
	"orrery/kit/cache"
)

// Slimming returns what the cache may leave out of each kind, because no controller reads it.
func Slimming() map[schema.GroupVersionKind]cache.Slimming { return slim.Kinds() }
