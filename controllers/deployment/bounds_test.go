package deployment

import (
	"math"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func rollingSpec(desired int32, surge, unavailable string) *appsv1.DeploymentSpec {
	s, u := intstr.Parse(surge), intstr.Parse(unavailable)
	return &appsv1.DeploymentSpec{Replicas: &desired, Strategy: appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &u},
	}}
}

func TestBounds(t *testing.T) {
	for _, c := range []struct {
		desired            int32
		surge, unavailable string
		want               bounds
	}{
		{10, "3", "2", bounds{10, 3, 2}},
		{10, "25%", "25%", bounds{10, 3, 2}},
		{1, "25%", "25%", bounds{1, 1, 0}},
		{4, "0%", "1%", bounds{4, 0, 1}},
		{2, "1%", "0%", bounds{2, 1, 0}},
		{1, "0", "1%", bounds{1, 0, 1}},
		{3, "0", "10", bounds{3, 0, 3}},
		{0, "25%", "25%", bounds{0, 0, 0}},
		{0, "2", "1", bounds{0, 2, 0}},
		{10, "100%", "100%", bounds{10, 10, 10}},
		{3, "2147483647", "0", bounds{3, math.MaxInt32 - 3, 0}},
		{10, "99999999999%", "0", bounds{10, math.MaxInt32 - 10, 0}},
		{10, "99999999999999999999%", "0", bounds{10, math.MaxInt32 - 10, 0}},
		{1000, "9223372036854775807%", "0", bounds{1000, math.MaxInt32 - 1000, 0}},
		{10, "0", "2147483647", bounds{10, 0, 10}},
		{math.MaxInt32, "25%", "25%", bounds{math.MaxInt32, 0, math.MaxInt32 / 4}},
	} {
		got, err := boundsOf(rollingSpec(c.desired, c.surge, c.unavailable))
		if err != nil || got != c.want {
			t.Errorf("%d replicas, surge %s, unavailable %s: %+v (%v), want %+v", c.desired, c.surge, c.unavailable, got, err, c.want)
		}
	}
}

func TestBoundsWithoutSlack(t *testing.T) {
	recreate := &appsv1.DeploymentSpec{Replicas: new(int32(4)), Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}}
	if got, err := boundsOf(recreate); err != nil || got != (bounds{desired: 4}) {
		t.Errorf("recreate: %+v, %v", got, err)
	}
	bare := &appsv1.DeploymentSpec{Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType}}
	if got, err := boundsOf(bare); err != nil || got != (bounds{1, 0, 1}) {
		t.Errorf("nothing given: %+v, %v", got, err)
	}
}

func TestBoundsThatCannotBeRead(t *testing.T) {
	for _, c := range [][2]string{{"x%", "1"}, {"1", "many"}} {
		if got, err := boundsOf(rollingSpec(3, c[0], c[1])); err == nil {
			t.Errorf("surge %s and unavailable %s gave %+v", c[0], c[1], got)
		}
	}
}
