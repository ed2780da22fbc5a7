package deployment

import (
	"fmt"
	"math"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// bounds are the numbers of pods that a rollout keeps to.
type bounds struct {
	desired     int32 // spec.replicas
	surge       int32 // pods that may be asked for beyond desired
	unavailable int32 // pods of desired that may be unavailable
}

// floor is the number of available pods that a rollout does not go below by itself.
func (b bounds) floor() int32 { return b.desired - b.unavailable }

// ceiling is the number of pods that may be asked for at once.
func (b bounds) ceiling() int32 { return b.desired + b.surge }

// boundsOf resolves the strategy of a Deployment. Percentages of surge round up and those of unavailability down, and
// where both come to nothing one pod may be unavailable: a rollout that may do neither would never begin. Strategies
// other than RollingUpdate have no slack.
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

// share resolves a number or a percentage of total; absent is 0. The API lets percentages be as large as one likes: what
// an int32 does not hold is as much as there can be.
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

// count reads a replica count, which the server sets to 1 where it is absent.
func count(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}
