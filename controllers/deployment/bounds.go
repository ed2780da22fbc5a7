package deployment

import (
	"fmt"
	"math"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// bounds limit the number of pods during a rollout.
type bounds struct {
	desired     int32 // spec.replicas
	surge       int32 // how far the sizes of all ReplicaSets together may exceed desired
	unavailable int32 // how many of the desired pods may be unavailable
}

// floor is the number of available pods below which a rollout does not go of its own accord.
func (b bounds) floor() int32 { return b.desired - b.unavailable }

// ceiling is the largest total size that all ReplicaSets may have together.
func (b bounds) ceiling() int32 { return b.desired + b.surge }

// boundsOf resolves the strategy of a Deployment. A percentage for maxSurge rounds up, one for maxUnavailable rounds down.
// If both come to 0, one pod may be unavailable: otherwise the rollout could never begin. For strategies other than
// RollingUpdate both are 0.
func boundsOf(spec *appsv1.DeploymentSpec) (bounds, error) {
	b := bounds{desired: count(spec.Replicas)}
	if spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		return b, nil
	}
	surge, err := share("maxSurge", rolling(spec).MaxSurge, b.desired, true)
	if err != nil {
		return b, err
	}
	unavailable, err := share("maxUnavailable", rolling(spec).MaxUnavailable, b.desired, false)
	if err != nil {
		return b, err
	}
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	b.surge, b.unavailable = min(surge, math.MaxInt32-b.desired), min(unavailable, b.desired)
	return b, nil
}

func rolling(spec *appsv1.DeploymentSpec) appsv1.RollingUpdateDeployment {
	if r := spec.Strategy.RollingUpdate; r != nil {
		return *r
	}
	return appsv1.RollingUpdateDeployment{}
}

// share resolves a number or a percentage of total; nil is 0. The API does not bound percentages: a result that overflows
// an int32 is capped.
func share(field string, v *intstr.IntOrString, total int32, up bool) (int32, error) {
	if v == nil {
		return 0, nil
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, int(total), up)
	switch {
	case err != nil && len(validation.IsValidPercent(v.StrVal)) > 0:
		return 0, fmt.Errorf("resolve %s %q: %w", field, v, err)
	case v.Type == intstr.String && (err != nil || n < 0 || n > math.MaxInt32):
		return math.MaxInt32, nil
	}
	return int32(n), nil
}

// count reads a replica count; nil is 1, which is the server's default.
func count(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}
