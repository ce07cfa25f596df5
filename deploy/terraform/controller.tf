# The controller's role: Pod Identity, IRSA, or both.

locals {
  # ARNs end in the provider's address: arn:aws:iam::1:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/X
  oidc_provider = var.irsa_oidc_provider_arn == null ? "" : replace(var.irsa_oidc_provider_arn, "/^(.*provider/)/", "")

  pod_identity_trust = {
    Sid       = "PodIdentity"
    Effect    = "Allow"
    Action    = ["sts:AssumeRole", "sts:TagSession"]
    Principal = { Service = "pods.eks.amazonaws.com" }
  }

  irsa_trust = {
    Sid       = "ServiceAccount"
    Effect    = "Allow"
    Action    = ["sts:AssumeRoleWithWebIdentity"]
    Principal = { Federated = coalesce(var.irsa_oidc_provider_arn, "none") }
    Condition = {
      StringEquals = {
        "${local.oidc_provider}:sub" = "system:serviceaccount:${var.namespace}:${var.service_account_name}"
        "${local.oidc_provider}:aud" = "sts.amazonaws.com"
      }
    }
  }

  policies = {
    for part in ["node-lifecycle", "iam-integration", "eks-integration", "interruption", "zonal-shift", "resource-discovery"] :
    part => templatefile("${path.module}/policies/${part}.json.tftpl", {
      partition     = local.partition
      region        = var.aws_region
      account       = local.account
      cluster       = local.cluster
      node_role_arn = aws_iam_role.node.arn
      queue_arn     = aws_sqs_queue.interruptions.arn
    })
  }
}

resource "aws_iam_role" "controller" {
  name        = var.controller_role_name
  name_prefix = var.controller_role_name == null ? "KarpenterController-" : null
  description = "Karpenter controller of ${local.cluster}"

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [for trust in [jsondecode(jsonencode(local.pod_identity_trust))] : trust if var.create_pod_identity_association],
      [for trust in [jsondecode(jsonencode(local.irsa_trust))] : trust if var.irsa_oidc_provider_arn != null],
    )
  })

  tags = local.tags

  lifecycle {
    precondition {
      condition     = var.create_pod_identity_association || var.irsa_oidc_provider_arn != null
      error_message = "Nobody could assume the controller's role: set create_pod_identity_association or irsa_oidc_provider_arn."
    }
  }
}

resource "aws_iam_policy" "controller" {
  for_each = local.policies

  name_prefix = "KarpenterController-${each.key}-"
  description = "Karpenter controller of ${local.cluster}: ${each.key}"
  policy      = each.value

  tags = local.tags
}

resource "aws_iam_role_policy_attachment" "controller" {
  for_each = local.policies

  role       = aws_iam_role.controller.name
  policy_arn = aws_iam_policy.controller[each.key].arn
}

resource "aws_eks_pod_identity_association" "controller" {
  count = var.create_pod_identity_association ? 1 : 0

  cluster_name    = local.cluster
  namespace       = var.namespace
  service_account = var.service_account_name
  role_arn        = aws_iam_role.controller.arn

  tags = local.tags
}
