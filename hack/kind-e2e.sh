#!/usr/bin/env bash
# Puts Orrery in place of kube-controller-manager on a kind cluster, runs the scenarios against it, and goes back.
#
#   hack/kind-e2e.sh [--dry-run] [--keep]
#
#   --dry-run  print every command and run none
#   --keep     do not delete the cluster at the end
#
# NAME is the cluster's name, NODE_IMAGE the image of its nodes, ENGINE docker or podman. A cluster of that name is used
# if there is one. Needs go, kind, kubectl and the engine.
set -euo pipefail
cd "$(dirname "$0")/.."

name=${NAME:-orrery}
engine=${ENGINE:-docker}
node_image=${NODE_IMAGE:-kindest/node:v1.37.2}
node=$name-control-plane
out=_output/kind
orrery=docker.io/library/orrery:kind
pods=/etc/kubernetes/manifests
dry=
keep=

for arg in "$@"; do
  case $arg in
  --dry-run) dry=1 ;;
  --keep) keep=1 ;;
  *)
    sed -n '2,/^set /{/^# \{0,1\}/s///p}' "$0" >&2
    exit 2
    ;;
  esac
done

# say prints a command in a form that a shell takes.
say() {
  local quoted
  printf -v quoted ' %q' "$@"
  printf '+%s\n' "${quoted}"
}

# run runs a command, or only says it.
run() {
  say "$@"
  test -n "$dry" || "$@"
}

# save runs a command and keeps what it prints in a file.
save() {
  local file=$1
  shift
  printf '%s >%q\n' "$(say "$@")" "$file"
  test -n "$dry" || "$@" >"$file"
}

# on_node runs a command on the control-plane node.
on_node() { run "$engine" exec "$node" "$@"; }

# put moves a file to the folder that the kubelet watches, in one step.
put() {
  run "$engine" cp "$1" "$node:/etc/kubernetes/$2.next"
  on_node mv "/etc/kubernetes/$2.next" "$pods/$2"
}

# soon runs a command again until it succeeds.
soon() {
  say "$@"
  test -z "$dry" || return 0
  for _ in {1..60}; do
    "$@" && return
    sleep 3
  done
  echo "not so after three minutes: $*" >&2
  return 1
}

# ready waits until the kubelet runs the static pod with this image, and it is ready. The pod that the API shows is
# deleted and made anew when its manifest changes, so that one wait is not enough.
ready() {
  local pod=pod/$1-$node image=$2
  soon kubectl wait -n kube-system "$pod" "--for=jsonpath={.spec.containers[0].image}=$image" --timeout=5s
  soon kubectl wait -n kube-system "$pod" --for=condition=Ready --timeout=5s
}

# works makes a Deployment and waits for its pods.
works() {
  run kubectl create deployment "$1" --image=fake:1 --replicas=2
  run kubectl rollout status "deployment/$1" --timeout=3m
  run kubectl delete deployment "$1" --timeout=3m
}

back() {
  on_node rm -f "$pods/kube-controller-manager-rest.yaml"
  put "$out/upstream.yaml" kube-controller-manager.yaml
}

# end leaves no cluster behind, or one that is managed by upstream.
end() {
  local code=$?
  trap - EXIT
  if test -z "$keep"; then
    run kind delete cluster --name "$name"
  elif test "$code" != 0 && test -s "$out/upstream.yaml"; then
    back
  fi
  exit "$code"
}

run mkdir -p "$out"
run make image "IMAGE=$orrery"
# The pods of the scenarios have images that do nothing.
run env CGO_ENABLED=0 go build -o "$out/nothing" ./hack/image/nothing
fakes=()
for tag in fake:latest fake:1 fake:2 fake:3 web:1 web:2 web:3; do
  archive=$out/${tag/:/-}.tar
  run go run ./hack/image -binary "$out/nothing" -name "$tag" -o "$archive"
  fakes+=("$archive")
done

if test -n "$dry" || ! kind get clusters | grep -qx -- "$name"; then
  trap end EXIT
  run kind create cluster --name "$name" --image "$node_image" --config manifests/kind/cluster.yaml --wait 5m
else
  keep=1
  trap end EXIT
fi
save "$out/kubeconfig" kind get kubeconfig --name "$name"
export KUBECONFIG=$out/kubeconfig
for archive in _output/image/orrery.tar "${fakes[@]}"; do
  run kind load image-archive "$archive" --name "$name"
done

# To Orrery. What it does not have yet is upstream's, in a second static pod.
save "$out/upstream.yaml" "$engine" exec "$node" cat "$pods/kube-controller-manager.yaml"
save "$out/rest.yaml" kubectl patch --local -f "$out/upstream.yaml" --type=json \
  --patch-file=manifests/static-pod/rest-patch.yaml -o yaml
save "$out/patched.yaml" kubectl patch --local -f "$out/upstream.yaml" --type=strategic \
  --patch-file=manifests/kubeadm/kube-controller-manager+strategic.yaml -o yaml
save "$out/orrery.yaml" kubectl set image --local -f "$out/patched.yaml" "kube-controller-manager=$orrery" -o yaml
put "$out/rest.yaml" kube-controller-manager-rest.yaml
put "$out/orrery.yaml" kube-controller-manager.yaml
ready kube-controller-manager "$orrery"
works to-orrery
run make scenarios-against "KUBECONFIG=$KUBECONFIG"

# And back.
upstream=IMAGE_OF_THE_NODE
test -n "$dry" || upstream=$(sed -n 's/^ *image: *//p' "$out/upstream.yaml")
back
ready kube-controller-manager "$upstream"
works to-upstream
