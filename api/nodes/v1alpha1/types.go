package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// NodePool specifies the labels, annotations, taints and RuntimeClass of the nodes of a pool.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=npool
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodeCount`
// +kubebuilder:printcolumn:name="Ready Nodes",type=integer,JSONPath=`.status.readyNodeCount`
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updatedNodeCount`
// +kubebuilder:printcolumn:name="Conflicts",type=integer,JSONPath=`.status.conflictedNodeCount`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Selector",type=string,priority=1,JSONPath=`.status.selector`
// +kubebuilder:printcolumn:name="RuntimeClass",type=string,priority=1,JSONPath=`.status.runtimeClassName`
// +kubebuilder:printcolumn:name="Paused",type=boolean,priority=1,JSONPath=`.spec.paused`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63 && !self.metadata.name.contains('.')",message="the name is part of a label: at most 63 characters and no dot"
// +kubebuilder:validation:XValidation:rule="has(self.spec.nodeSelector) || !has(self.spec.nodeRole) || self.spec.nodeRole != self.metadata.name",message="spec.nodeRole is the key that the default spec.nodeSelector selects by; set a nodeSelector of other labels"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.runtimeClass) || !has(oldSelf.spec.runtimeClass) || (has(self.spec.runtimeClass.name) ? self.spec.runtimeClass.name : 'node-pool-' + self.metadata.name) == (has(oldSelf.spec.runtimeClass.name) ? oldSelf.spec.runtimeClass.name : 'node-pool-' + oldSelf.metadata.name)",message="spec.runtimeClass.name is immutable; remove runtimeClass first to have another"
type NodePool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec selects the nodes of the pool, and says what they have.
	// +kubebuilder:default={}
	Spec NodePoolSpec `json:"spec,omitempty"`
	// Status is what the controller observed last.
	// +optional
	Status NodePoolStatus `json:"status,omitempty"`
}

// NodePoolList is a list of NodePools.
//
// +kubebuilder:object:root=true
type NodePoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodePool `json:"items"`
}

// NodePoolSpec selects the nodes of a pool, and says what they have.
//
// +kubebuilder:validation:XValidation:rule="!has(self.labels) || !has(self.nodeSelector) || !has(self.nodeSelector.matchLabels) || self.labels.all(k, !(k in self.nodeSelector.matchLabels))",message="nodeSelector must not use a key that the pool writes: take it out of labels",fieldPath=".nodeSelector"
// +kubebuilder:validation:XValidation:rule="!has(self.labels) || !has(self.nodeSelector) || !has(self.nodeSelector.matchExpressions) || !self.nodeSelector.matchExpressions.exists(e, e.key in self.labels)",message="nodeSelector must not use a key that the pool writes: take it out of labels",fieldPath=".nodeSelector"
// +kubebuilder:validation:XValidation:rule="!has(self.nodeRole) || !has(self.nodeSelector) || !has(self.nodeSelector.matchLabels) || !(('node-role.kubernetes.io/' + self.nodeRole) in self.nodeSelector.matchLabels)",message="nodeSelector must not use a key that the pool writes: it selects by the label of nodeRole",fieldPath=".nodeRole"
// +kubebuilder:validation:XValidation:rule="!has(self.nodeRole) || !has(self.nodeSelector) || !has(self.nodeSelector.matchExpressions) || !self.nodeSelector.matchExpressions.exists(e, e.key == 'node-role.kubernetes.io/' + self.nodeRole)",message="nodeSelector must not use a key that the pool writes: it selects by the label of nodeRole",fieldPath=".nodeRole"
// +kubebuilder:validation:XValidation:rule="!has(self.runtimeClass) || !has(self.nodeSelector) || !has(self.nodeSelector.matchExpressions) || size(self.nodeSelector.matchExpressions) == 0",message="a RuntimeClass selects nodes by equal labels only: use matchLabels in nodeSelector",fieldPath=".runtimeClass"
type NodePoolSpec struct {
	// NodeSelector selects the members of the pool. The default is matchLabels `node-role.kubernetes.io/<name>: ""`. It
	// must not be empty, nor use a key that the pool writes.
	// +optional
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="an empty nodeSelector would match every node; leave it out for the default, or say which nodes"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || size(self.matchLabels) <= 32",message="at most 32 matchLabels"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || size(self.matchExpressions) <= 32",message="at most 32 matchExpressions"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="every operator must be In or NotIn, with values, or Exists or DoesNotExist, without"
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// Priority decides which of two pools sets a key that both specify: the one of higher priority, then the older one,
	// then the one whose name comes first.
	// +optional
	// +kubebuilder:default=0
	Priority int32 `json:"priority,omitempty"`

	// Labels of the nodes. The pool owns each key by itself; other labels are not touched.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue())",message="every key must be a label key: [domain/]name"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.matches('^([^/]*[.])?(kubernetes|k8s)[.]io/') || k.matches('^([^/]*[.])?node-restriction[.]kubernetes[.]io/'))",message="keys of kubernetes.io and k8s.io are the cluster's own, but for node-restriction.kubernetes.io; use nodeRole for node-role.kubernetes.io"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.matches('^([^/]*[.])?orrery[.]dev/'))",message="keys of orrery.dev are this operator's own"
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// Annotations of the nodes. The pool owns each key by itself; other annotations are not touched.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue())",message="every key must be an annotation key: [domain/]name"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.matches('^([^/]*[.])?(kubernetes|k8s)[.]io/') || k.matches('^([^/]*[.])?node-restriction[.]kubernetes[.]io/'))",message="keys of kubernetes.io and k8s.io are the cluster's own, but for node-restriction.kubernetes.io"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.matches('^([^/]*[.])?orrery[.]dev/'))",message="keys of orrery.dev are this operator's own"
	Annotations map[string]AnnotationValue `json:"annotations,omitempty"`

	// Taints of the nodes. Other taints are not touched.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +kubebuilder:validation:MaxItems=32
	Taints []Taint `json:"taints,omitempty"`

	// NodeRole writes the label node-role.kubernetes.io/<nodeRole>, which kubectl shows as the role of the node, for
	// pools whose members are selected by other labels.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="!(self in ['control-plane', 'master'])",message="the roles of control-plane nodes are the cluster's own"
	NodeRole string `json:"nodeRole,omitempty"`

	// RuntimeClass that the pool owns. A pod that names it runs on the nodes of the pool.
	// +optional
	RuntimeClass *RuntimeClass `json:"runtimeClass,omitempty"`

	// ExistingKeys says what happens to a key that a node already has with another value, which no pool has set:
	// Adopt overwrites it, and restores the old value when the pool releases the key; Skip leaves and reports it.
	// +optional
	// +kubebuilder:default=Adopt
	ExistingKeys ExistingKeys `json:"existingKeys,omitempty"`

	// DeletionPolicy says what happens to the nodes when the pool is deleted: Revert restores them, Retain leaves them
	// as they are. A node that leaves the pool is always restored.
	// +optional
	// +kubebuilder:default=Revert
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// Mode is Enforce, or Audit, which writes to no node and shows in the status what it would write.
	// +optional
	// +kubebuilder:default=Enforce
	Mode Mode `json:"mode,omitempty"`

	// Paused stops writes to nodes for this pool. Deleting the pool still cleans up.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// Rollout bounds how many nodes are changed at a time. Removals are not bounded.
	// +optional
	// +kubebuilder:default={}
	Rollout Rollout `json:"rollout,omitempty"`
}

// LabelValue is the value of a label.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
type LabelValue string

// AnnotationValue is the value of an annotation.
//
// +kubebuilder:validation:MaxLength=2048
type AnnotationValue string

// Taint is a taint that the nodes of a pool have.
type Taint struct {
	// Key of the taint.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self).hasValue()",message="must be a taint key: [domain/]name"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([^/]*[.])?(kubernetes|k8s)[.]io/') || self.matches('^([^/]*[.])?node-restriction[.]kubernetes[.]io/')",message="taints of kubernetes.io and k8s.io, as those of control-plane and unhealthy nodes, are the cluster's own"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([^/]*[.])?orrery[.]dev/')",message="keys of orrery.dev are this operator's own"
	Key string `json:"key"`
	// Value of the taint.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
	Value string `json:"value,omitempty"`
	// Effect on pods that do not tolerate the taint.
	Effect TaintEffect `json:"effect"`
	// Propagation is Always, or OnJoin, which adds the taint once, when a node joins the pool, and never adds it again
	// nor removes it: something else removes it when the node is ready for use.
	// +optional
	// +kubebuilder:default=Always
	Propagation Propagation `json:"propagation,omitempty"`
}

// TaintEffect is what a taint does to pods that do not tolerate it.
//
// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
type TaintEffect string

// The effects of taints.
const (
	NoSchedule       TaintEffect = "NoSchedule"
	PreferNoSchedule TaintEffect = "PreferNoSchedule"
	NoExecute        TaintEffect = "NoExecute"
)

// Propagation says when a taint is added to nodes.
//
// +kubebuilder:validation:Enum=Always;OnJoin
type Propagation string

// When taints are added to nodes.
const (
	PropagateAlways Propagation = "Always"
	PropagateOnJoin Propagation = "OnJoin"
)

// RuntimeClass is the RuntimeClass of a pool. It has the pool's node selector and tolerates the pool's taints.
type RuntimeClass struct {
	// Name of the RuntimeClass, node-pool-<pool> by default. An existing one that the pool does not own is never
	// taken over.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name,omitempty"`
	// Handler is the name of the runtime's configuration on the nodes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="handler is immutable; remove runtimeClass first to have another"
	Handler string `json:"handler"`
	// Overhead is what a pod of this class uses in addition to its containers.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, type(self[k]) == int ? self[k] >= 0 : isQuantity(self[k]) && !self[k].startsWith('-'))",message="every amount must be a quantity and not negative"
	Overhead ResourceList `json:"overhead,omitempty"`
}

// ResourceList is an amount of each resource, by its name.
type ResourceList map[string]resource.Quantity

// ExistingKeys says what happens to keys that a node already has.
//
// +kubebuilder:validation:Enum=Adopt;Skip
type ExistingKeys string

// What happens to keys that a node already has.
const (
	Adopt ExistingKeys = "Adopt"
	Skip  ExistingKeys = "Skip"
)

// DeletionPolicy says what happens to the nodes of a deleted pool.
//
// +kubebuilder:validation:Enum=Revert;Retain
type DeletionPolicy string

// What happens to the nodes of a deleted pool.
const (
	Revert DeletionPolicy = "Revert"
	Retain DeletionPolicy = "Retain"
)

// Mode says whether a pool writes to nodes.
//
// +kubebuilder:validation:Enum=Enforce;Audit
type Mode string

// Whether a pool writes to nodes.
const (
	Enforce Mode = "Enforce"
	Audit   Mode = "Audit"
)

// Rollout bounds how many nodes of a pool are changed at a time. New nodes are not delayed.
type Rollout struct {
	// MaxUpdating is how many nodes may be changed at a time: a number, or a percentage of the pool, rounded up. All by
	// default.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 2147483647 : self.matches('^([1-9][0-9]?|100)%$')",message="must be a number of at least 1 or a percentage from 1% to 100%"
	MaxUpdating *intstr.IntOrString `json:"maxUpdating,omitempty"`
	// NoExecuteMaxUpdating is how many nodes may get NoExecute taints, which evict pods, at a time.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	NoExecuteMaxUpdating *int32 `json:"noExecuteMaxUpdating,omitempty"`
	// IntervalSeconds is how long a changed node counts as being changed.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	IntervalSeconds int32 `json:"intervalSeconds,omitempty"`
}
