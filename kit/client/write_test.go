package client_test

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"orrery/kit/client"
)

func TestElementOrderPutsAddedElementsLast(t *testing.T) {
	ports := func(names ...string) (out []corev1.ContainerPort) {
		for _, n := range names {
			out = append(out, corev1.ContainerPort{Name: n})
		}
		return out
	}
	for _, tc := range []struct {
		has, patched []corev1.ContainerPort
		want         string
	}{
		{nil, nil, `[]`},
		{ports("b", "a"), nil, `[{"name":"b"},{"name":"a"}]`},
		{ports("b", "a"), ports("c", "a"), `[{"name":"b"},{"name":"a"},{"name":"c"}]`},
	} {
		got, err := json.Marshal(client.ElementOrder("name", func(p corev1.ContainerPort) string { return p.Name }, tc.has, tc.patched))
		if err != nil || string(got) != tc.want {
			t.Errorf("%v patched with %v: %s, %v, want %s", tc.has, tc.patched, got, err, tc.want)
		}
	}
}
