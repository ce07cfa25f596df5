variable "eks_cluster_name" {
  description = "Name of the EKS cluster: settings.clusterName, and part of every name and tag"
  type        = string
}

variable "eks_cluster_endpoint" {
  description = "URL of the cluster's API server: settings.clusterEndpoint"
  type        = string
}

variable "aws_region" {
  description = "Region of the cluster"
  type        = string
}

variable "environment" {
  description = "Environment name, as a tag"
  type        = string
  default     = "dev"
}

variable "resource_tag" {
  description = "Tags on everything that is made"
  type        = map(string)
  default     = {}
}

variable "namespace" {
  description = "Namespace of the controller"
  type        = string
  default     = "karpenter"
}

variable "service_account_name" {
  description = "Service account of the controller"
  type        = string
  default     = "karpenter"
}

variable "create_pod_identity_association" {
  description = "Give the controller its role through Pod Identity; the cluster needs the addon eks-pod-identity-agent"
  type        = bool
  default     = true
}

variable "irsa_oidc_provider_arn" {
  description = "OIDC provider of the cluster: with it the controller's role can also be assumed through IRSA"
  type        = string
  default     = null
}

variable "controller_role_name" {
  description = "Name of the controller's role. Default: KarpenterController- and a generated suffix"
  type        = string
  default     = null
}

variable "node_role_name" {
  description = "Name of the nodes' role. Default: Karpenter-<cluster>- and a generated suffix"
  type        = string
  default     = null
}

variable "node_role_additional_policies" {
  description = "ARNs of further policies for nodes, by any name, e.g. AmazonEBSCSIDriverPolicy"
  type        = map(string)
  default     = {}
}

variable "create_instance_profile" {
  description = "Make an instance profile with the nodes' role, for node classes with spec.instanceProfile"
  type        = bool
  default     = false
}

variable "create_access_entry" {
  description = "Let nodes join through an access entry. Not with the authentication mode CONFIG_MAP: map the role in aws-auth then"
  type        = bool
  default     = true
}

variable "queue_name" {
  description = "Name of the interruption queue. Default: Karpenter-<cluster>"
  type        = string
  default     = null
}

variable "install_chart" {
  description = "Install the chart, too. Off: the controller is installed by something else, e.g. Argo CD"
  type        = bool
  default     = true
}

variable "helm_repository" {
  description = "OCI repository of the chart, e.g. oci://registry.example/charts. Default: the chart beside this module"
  type        = string
  default     = null
}

variable "helm_chart_version" {
  description = "Version of the chart in helm_repository, with or without a leading v"
  type        = string
  default     = "0.1.0"
}

variable "helm_values" {
  description = "Further values of the chart, as YAML documents; later ones win, and all win over the module's own"
  type        = list(string)
  default     = []
}
