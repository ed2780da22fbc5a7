package kubelet

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// disk holds the files of all volumes and containers. A key begins with what the file lives as long as.
type disk struct {
	mu    sync.Mutex
	files map[string][]byte
}

func newDisk() *disk { return &disk{files: map[string][]byte{}} }

func (d *disk) read(key string) ([]byte, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	text, ok := d.files[key]
	return text, ok
}

func (d *disk) write(key string, text []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[key] = bytes.Clone(text)
}

func (d *disk) move(from, to string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	text, ok := d.files[from]
	if ok {
		delete(d.files, from)
		d.files[to] = text
	}
	return ok
}

// key names the file at a path of a container: in the volume that is mounted there, or in the container itself.
func key(pod *corev1.Pod, container *corev1.Container, file string) string {
	file = path.Clean(file)
	root, below := "container/"+string(pod.UID)+"/"+container.Name, file
	longest := 0
	for _, mount := range container.VolumeMounts {
		rest, inside := strings.CutPrefix(file, strings.TrimSuffix(mount.MountPath, "/"))
		if inside && (rest == "" || rest[0] == '/') && len(mount.MountPath) > longest {
			longest = len(mount.MountPath)
			root, below = volume(pod, mount.Name), path.Join("/", mount.SubPath, rest)
		}
	}
	return root + below
}

// volume names what the files of a volume live as long as.
func volume(pod *corev1.Pod, name string) string {
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.Name != name:
		case v.HostPath != nil:
			return "node/" + pod.Spec.NodeName + path.Join("/", v.HostPath.Path)
		case v.PersistentVolumeClaim != nil:
			return "claim/" + pod.Namespace + "/" + v.PersistentVolumeClaim.ClaimName
		}
	}
	return "pod/" + string(pod.UID) + "/" + name
}

// file is an open file; what is written is there when it is closed.
type file struct {
	disk *disk
	key  string
	in   *bytes.Reader
	out  *bytes.Buffer // nil when it was opened for reading
}

func (f *file) Read(p []byte) (int, error) {
	if f.in == nil {
		return 0, io.EOF
	}
	return f.in.Read(p)
}

func (f *file) Write(p []byte) (int, error) {
	if f.out == nil {
		return 0, fs.ErrPermission
	}
	return f.out.Write(p)
}

func (f *file) Close() error {
	if f.out != nil {
		f.disk.write(f.key, f.out.Bytes())
	}
	return nil
}

// info describes a file in memory.
type info struct {
	name string
	size int64
}

func (i info) Name() string       { return path.Base(i.name) }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return 0o644 }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return false }
func (i info) Sys() any           { return nil }
