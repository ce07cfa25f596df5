# What Karpenter needs for one EKS cluster: a role for the controller, a role for nodes, a queue with interruptions, and,
# if asked for, the release of the chart.

data "aws_partition" "current" {}

data "aws_caller_identity" "current" {}

locals {
  cluster   = var.eks_cluster_name
  partition = data.aws_partition.current.partition
  account   = data.aws_caller_identity.current.account_id
  queue     = coalesce(var.queue_name, "Karpenter-${local.cluster}")

  tags = merge(
    { Environment = var.environment },
    var.resource_tag,
  )
}
