# The nodes' role, and how nodes get into the cluster.

resource "aws_iam_role" "node" {
  name        = var.node_role_name
  name_prefix = var.node_role_name == null ? "${substr("Karpenter-${local.cluster}", 0, 37)}-" : null
  description = "Nodes of ${local.cluster} that Karpenter launches"

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "ec2.${data.aws_partition.current.dns_suffix}" }
    }]
  })

  tags = local.tags
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each = merge(
    {
      for policy in [
        "AmazonEKS_CNI_Policy",
        "AmazonEKSWorkerNodePolicy",
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonSSMManagedInstanceCore",
      ] : policy => "arn:${local.partition}:iam::aws:policy/${policy}"
    },
    var.node_role_additional_policies,
  )

  role       = aws_iam_role.node.name
  policy_arn = each.value
}

resource "aws_iam_instance_profile" "node" {
  count = var.create_instance_profile ? 1 : 0

  name_prefix = "${substr("Karpenter-${local.cluster}", 0, 37)}-"
  role        = aws_iam_role.node.name

  tags = local.tags
}

resource "aws_eks_access_entry" "node" {
  count = var.create_access_entry ? 1 : 0

  cluster_name  = local.cluster
  principal_arn = aws_iam_role.node.arn
  type          = "EC2_LINUX"

  tags = local.tags
}
