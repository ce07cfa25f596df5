#!/usr/bin/env bash
# The document's steps with the template and the chart of this repository. Wants CLUSTER_NAME, IMAGE (the
# controller's, without a tag, in a registry that the cluster can pull from), and the aws, kubectl and helm of an account
# with a cluster.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

aws cloudformation deploy \
  --stack-name "Karpenter-${CLUSTER_NAME}" \
  --template-file deploy/cloudformation/karpenter.yaml \
  --capabilities CAPABILITY_NAMED_IAM \
  --parameter-overrides "ClusterName=${CLUSTER_NAME}"

helm upgrade --install karpenter charts/karpenter \
  --namespace kube-system \
  --set controller.image.repository="${IMAGE}" \
  --set settings.clusterName="${CLUSTER_NAME}" \
  --set settings.interruptionQueue="${CLUSTER_NAME}" \
  --set controller.resources.requests.cpu=1 \
  --set controller.resources.requests.memory=1Gi \
  --set controller.resources.limits.cpu=1 \
  --set controller.resources.limits.memory=1Gi \
  --wait

for manifest in examples/seeds/001/manifests/*.yaml; do
  envsubst <"$manifest" | kubectl apply -f -
done
