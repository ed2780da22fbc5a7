// Package index holds the indexes under which controllers find cached objects, each defined once.
package index
