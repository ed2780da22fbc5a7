package kubelet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// errKeepsRunning ends the interpretation of a command that sleeps: its container is one that keeps running.
var errKeepsRunning = errors.New("keeps running")

// unknownProgram is the exit code of a shell that does not find a program. A probe that ends so says nothing.
const unknownProgram = 127

// streams are a command's standard input, output and error output.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// machine interprets commands in one container.
type machine struct {
	disk      *disk
	pod       *corev1.Pod
	container *corev1.Container
}

// run interprets a command line and returns its exit code, or errKeepsRunning.
func (m *machine) run(ctx context.Context, words []string, io streams) (int, error) {
	script := ""
	switch {
	case len(words) == 0:
		return 0, nil
	case isShell(words[0]) && len(words) > 2:
		script = words[len(words)-1]
	default:
		quoted := make([]string, len(words))
		for i, word := range words {
			q, err := syntax.Quote(word, syntax.LangBash)
			if err != nil {
				return 0, fmt.Errorf("quote %q: %w", word, err)
			}
			quoted[i] = q
		}
		script = strings.Join(quoted, " ")
	}
	program, err := syntax.NewParser().Parse(strings.NewReader(script), "")
	if err != nil {
		return 2, nil
	}
	runner, err := interp.New(
		interp.Env(expand.ListEnviron(m.environment()...)), interp.Dir("/"),
		interp.StdIO(io.in, io.out, io.err),
		interp.OpenHandler(m.open), interp.StatHandler(m.stat), interp.AccessHandler(m.access),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return m.exec }),
	)
	if err != nil {
		return 0, fmt.Errorf("make shell: %w", err)
	}
	err = runner.Run(ctx, program)
	var status interp.ExitStatus
	if errors.As(err, &status) {
		return int(status), nil
	}
	return 0, err
}

func isShell(word string) bool {
	return slices.Contains([]string{"sh", "bash", "ash"}, path.Base(word))
}

func (m *machine) key(name string) string { return key(m.pod, m.container, path.Join("/", name)) }

func (m *machine) open(_ context.Context, name string, flag int, _ os.FileMode) (io.ReadWriteCloser, error) {
	if name == "/dev/null" || name == "/dev/zero" {
		return &file{disk: newDisk(), out: &bytes.Buffer{}}, nil
	}
	f := &file{disk: m.disk, key: m.key(name)}
	text, exists := m.disk.read(f.key)
	if flag&(os.O_WRONLY|os.O_RDWR) == 0 {
		if !exists {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		f.in = bytes.NewReader(text)
		return f, nil
	}
	f.out = &bytes.Buffer{}
	if flag&os.O_APPEND != 0 {
		f.out.Write(text)
	}
	return f, nil
}

func (m *machine) stat(_ context.Context, name string, _ bool) (fs.FileInfo, error) {
	text, exists := m.disk.read(m.key(name))
	if !exists {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return info{name: name, size: int64(len(text))}, nil
}

func (m *machine) access(ctx context.Context, name string, _ interp.AccessMode) error {
	_, err := m.stat(ctx, name, true)
	return err
}

// exec plays the programs that specs call. Folders are not kept, so what concerns them succeeds.
func (m *machine) exec(ctx context.Context, words []string) error {
	h := interp.HandlerCtx(ctx)
	var names []string // arguments that are no options
	for _, word := range words[1:] {
		if !strings.HasPrefix(word, "-") {
			names = append(names, word)
		}
	}
	switch program := path.Base(words[0]); program {
	case "sleep":
		return errKeepsRunning
	case "hostname":
		_, err := fmt.Fprintln(h.Stdout, m.hostname())
		return err
	case "touch":
		for _, name := range names {
			if _, exists := m.disk.read(m.key(name)); !exists {
				m.disk.write(m.key(name), nil)
			}
		}
		return nil
	case "cat":
		return m.cat(names, h)
	case "dd":
		return m.dd(words[1:], h)
	case "mv", "ln":
		return m.place(program, names, h)
	case "ls", "find":
		_, err := fmt.Fprintln(h.Stdout, strings.Join(names, "\n"))
		return err
	case "sh", "bash", "ash":
		code, err := m.run(ctx, words, streams{h.Stdin, h.Stdout, h.Stderr})
		if err == nil && code != 0 {
			err = interp.ExitStatus(code)
		}
		return err
	case "mkdir", "sync", "chmod":
		return nil
	}
	fmt.Fprintf(h.Stderr, "%s: no such program on a fake node\n", words[0])
	return interp.ExitStatus(unknownProgram)
}

func (m *machine) cat(names []string, h interp.HandlerContext) error {
	if len(names) == 0 {
		_, err := io.Copy(h.Stdout, h.Stdin)
		return err
	}
	for _, name := range names {
		text, exists := m.disk.read(m.key(name))
		if !exists {
			fmt.Fprintf(h.Stderr, "cat: %s: no such file\n", name)
			return interp.ExitStatus(1)
		}
		if _, err := h.Stdout.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// dd copies its input, or as many zeros as it is told.
func (m *machine) dd(words []string, h interp.HandlerContext) error {
	given := map[string]string{"bs": "512", "count": "1"}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		given[name] = value
	}
	size, err := strconv.Atoi(given["bs"])
	if err != nil {
		return interp.ExitStatus(1)
	}
	text := make([]byte, size)
	if given["if"] == "" {
		if text, err = io.ReadAll(h.Stdin); err != nil {
			return err
		}
	}
	m.disk.write(m.key(given["of"]), text)
	return nil
}

// place moves a file, or makes a second one in place of a link.
func (m *machine) place(program string, names []string, h interp.HandlerContext) error {
	if len(names) != 2 {
		return interp.ExitStatus(1)
	}
	from, to := names[0], names[1]
	if strings.HasSuffix(to, "/") {
		to = path.Join(to, path.Base(from))
	}
	if program == "ln" {
		text, exists := m.disk.read(m.key(from))
		if exists {
			m.disk.write(m.key(to), text)
		}
		return nil
	}
	if !m.disk.move(m.key(from), m.key(to)) {
		fmt.Fprintf(h.Stderr, "mv: %s: no such file\n", from)
		return interp.ExitStatus(1)
	}
	return nil
}

func (m *machine) hostname() string {
	if m.pod.Spec.Hostname != "" {
		return m.pod.Spec.Hostname
	}
	return m.pod.Name
}

// environment resolves the container's variables, as far as they come from the pod itself.
func (m *machine) environment() []string {
	list := []string{"HOSTNAME=" + m.hostname(), "HOME=/", "PATH=/bin"}
	for _, e := range m.container.Env {
		value := e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			value = m.field(e.ValueFrom.FieldRef.FieldPath)
		}
		list = append(list, e.Name+"="+value)
	}
	return list
}

func (m *machine) field(name string) string {
	kind, rest, _ := strings.Cut(name, "['")
	within := strings.TrimSuffix(rest, "']")
	switch kind {
	case "metadata.name":
		return m.pod.Name
	case "metadata.namespace":
		return m.pod.Namespace
	case "metadata.annotations":
		return m.pod.Annotations[within]
	case "metadata.labels":
		return m.pod.Labels[within]
	}
	return ""
}
