package binaries

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Request says which programs are wanted and where to look for them.
type Request struct {
	// Names are the programs wanted; empty means all that a cluster runs.
	Names []string
	// BinDir is looked at first. A program missing there is looked for
	// elsewhere. Empty means no such folder.
	BinDir string
	// Log receives progress lines; nil discards them.
	Log io.Writer
}

// Set maps a program's name to the path of its executable.
type Set map[string]string

// CacheDir returns the folder in which everything of this tool that outlives a
// run is kept: ORRERY_CACHE, or "orrery" in the user's cache folder.
func CacheDir() (string, error) {
	if dir := os.Getenv("ORRERY_CACHE"); dir != "" {
		return filepath.Abs(filepath.Join(dir, "orrery"))
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find cache folder: %w (set ORRERY_CACHE)", err)
	}
	return filepath.Join(dir, "orrery"), nil
}

// Find returns the programs that exist already, and the names of those that do not.
func Find(req Request) (found Set, missing []string, err error) {
	cache, err := CacheDir()
	if err != nil {
		return nil, nil, err
	}
	if req.BinDir != "" {
		if info, err := os.Stat(req.BinDir); err != nil || !info.IsDir() {
			return nil, nil, fmt.Errorf("use binaries of %s: not a folder", req.BinDir)
		}
	}
	found = Set{}
	for _, name := range wanted(req.Names) {
		if _, known := recipeFor(name); !known {
			return nil, nil, fmt.Errorf("unknown program %q; known are %s", name, strings.Join(Known(), ", "))
		}
		for _, dir := range []string{req.BinDir, os.Getenv("KUBEBUILDER_ASSETS")} {
			if path := filepath.Join(dir, name); found[name] == "" && dir != "" && executable(path) {
				found[name] = path
			}
		}
		if path := installed(cache, name); found[name] == "" && executable(path) {
			found[name] = path
		}
		if found[name] == "" {
			missing = append(missing, name)
		}
	}
	return found, missing, nil
}

// Ensure returns the paths of all wanted programs, building what is missing.
func Ensure(ctx context.Context, req Request) (Set, error) {
	if req.Log == nil {
		req.Log = io.Discard
	}
	found, missing, err := Find(req)
	if err != nil || len(missing) == 0 {
		return found, err
	}
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	if err := build(ctx, cache, missing, req.Log); err != nil {
		return nil, err
	}
	found, missing, err = Find(req)
	if err == nil && len(missing) > 0 {
		err = errors.New("build finished without " + strings.Join(missing, ", "))
	}
	return found, err
}

func wanted(names []string) []string {
	if len(names) == 0 {
		return All()
	}
	return names
}

func binDir(cache string) string {
	return filepath.Join(cache, "bin", Version)
}

// installed is where a program is put when it has been built.
func installed(cache, name string) string {
	if base, version, older := strings.Cut(name, "@"); older {
		return filepath.Join(cache, "bin", version, base)
	}
	return filepath.Join(binDir(cache), name)
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
