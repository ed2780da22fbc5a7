package registry

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"orrery/hack/localcluster/internal/binaries"
)

// validName keeps names usable as file names.
var validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// ErrTaken is returned by Claim when the name's owner is alive.
var ErrTaken = errors.New("a cluster of this name is running")

// Claim is the right to a name.
type Claim struct {
	lock *os.File
	path string
}

// Take claims a name, and returns ErrTaken when another process holds it.
// The folder that a dead owner left, if any, is returned for cleaning up.
func Take(name string) (claim *Claim, leftover string, err error) {
	if !validName.MatchString(name) {
		return nil, "", fmt.Errorf("cluster name %q: must be lower case letters, digits and dashes, at most 63", name)
	}
	dir, err := folder()
	if err != nil {
		return nil, "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", fmt.Errorf("make registry folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, name+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, "", fmt.Errorf("open claim of %s: %w", name, err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, "", ErrTaken
		}
		return nil, "", fmt.Errorf("claim %s: %w", name, err)
	}
	leftover, err = Dir(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		_ = lock.Close()
		return nil, "", err
	}
	return &Claim{lock: lock, path: filepath.Join(dir, name+".dir")}, leftover, nil
}

// readyMark is the second line of the record of a cluster that can be used.
const readyMark = "ready"

// Publish records the folder of the claimed cluster, and whether it is ready to
// be used. It replaces an earlier record.
func (c *Claim) Publish(clusterDir string, ready bool) error {
	text := clusterDir + "\n"
	if ready {
		text += readyMark + "\n"
	}
	if err := os.WriteFile(c.path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("record cluster folder: %w", err)
	}
	return nil
}

// Release forgets the cluster and frees the name. The lock file stays: removing
// it would let two owners lock two files of one name.
func (c *Claim) Release() error {
	err := os.Remove(c.path)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, c.lock.Close())
}

// Dir returns the folder recorded for a name; the error is os.ErrNotExist when
// there is none.
func Dir(name string) (string, error) {
	dir, _, err := Lookup(name)
	return dir, err
}

// Lookup returns the folder recorded for a name, and whether the cluster is
// ready to be used; the error is os.ErrNotExist when there is no record.
func Lookup(name string) (clusterDir string, ready bool, err error) {
	dir, err := folder()
	if err != nil {
		return "", false, err
	}
	text, err := os.ReadFile(filepath.Join(dir, name+".dir"))
	if err != nil {
		return "", false, fmt.Errorf("find cluster %s: %w", name, err)
	}
	clusterDir, rest, _ := strings.Cut(string(text), "\n")
	return clusterDir, strings.TrimSpace(rest) == readyMark, nil
}

// Names returns the names for which a folder is recorded, sorted.
func Names() ([]string, error) {
	dir, err := folder()
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.dir"))
	if err != nil {
		return nil, err
	}
	names := make([]string, len(paths))
	for i, path := range paths {
		names[i] = strings.TrimSuffix(filepath.Base(path), ".dir")
	}
	slices.Sort(names)
	return names, nil
}

// CreateLog makes the file that receives the words of a background owner,
// replacing an earlier one.
func CreateLog(name string) (*os.File, error) {
	dir, err := folder()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make registry folder: %w", err)
	}
	return os.Create(filepath.Join(dir, name+".log"))
}

// RemoveLog removes what CreateLog made, if it is there.
func RemoveLog(name string) error {
	dir, err := folder()
	if err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, name+".log")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove log: %w", err)
	}
	return nil
}

// folder is in the user's runtime folder, which a reboot empties as it should,
// or in the cache folder where there is none.
func folder() (string, error) {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "orrery", "localcluster"), nil
	}
	cache, err := binaries.CacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "localcluster"), nil
}
