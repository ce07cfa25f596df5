# The controller itself. The provider helm is configured by whoever uses the module.

resource "helm_release" "karpenter" {
  count = var.install_chart ? 1 : 0

  name             = "karpenter"
  namespace        = var.namespace
  create_namespace = true
  repository       = var.helm_repository
  chart            = var.helm_repository == null ? "${path.module}/../../charts/karpenter" : "karpenter"
  version          = var.helm_repository == null ? null : var.helm_chart_version

  values = concat(
    [yamlencode({
      settings = {
        clusterName       = local.cluster
        clusterEndpoint   = var.eks_cluster_endpoint
        interruptionQueue = aws_sqs_queue.interruptions.name
      }
      serviceAccount = {
        name        = var.service_account_name
        annotations = var.irsa_oidc_provider_arn == null ? {} : { "eks.amazonaws.com/role-arn" = aws_iam_role.controller.arn }
      }
    })],
    var.helm_values,
  )

  # A controller without its permissions ends at its start, and nodes that cannot join are replaced for nothing.
  depends_on = [
    aws_iam_role_policy_attachment.controller,
    aws_iam_role_policy_attachment.node,
    aws_eks_pod_identity_association.controller,
    aws_eks_access_entry.node,
    aws_sqs_queue_policy.interruptions,
  ]
}
