package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

// profileSeconds is how much of a phase is profiled.
const profileSeconds = 10

// profile takes a CPU profile while a phase begins, if profiles are asked for. The function that it returns waits for
// the profile.
func (b *bench) profile(ctx context.Context, phase string) (wait func() error) {
	if b.profiles == "" || phase == "" {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() {
		done <- b.manager.profile(ctx, filepath.Join(b.profiles, fmt.Sprintf("%s-%s-%d.pprof", b.kind, phase, b.round)))
	}()
	return func() error { return <-done }
}

func (m *manager) profile(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", m.process.URL(), profileSeconds), nil)
	if err != nil {
		return err
	}
	resp, err := m.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", resp.Status)
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, resp.Body)
	if c := file.Close(); err == nil {
		err = c
	}
	return err
}
