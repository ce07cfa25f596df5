output "iam_role_arn" {
  description = "Role of the controller"
  value       = aws_iam_role.controller.arn
}

output "node_iam_role_arn" {
  description = "Role of nodes"
  value       = aws_iam_role.node.arn
}

output "node_iam_role_name" {
  description = "Role of nodes, for spec.role of an EC2NodeClass"
  value       = aws_iam_role.node.name
}

output "instance_profile_name" {
  description = "Instance profile of nodes, if it was asked for"
  value       = try(aws_iam_instance_profile.node[0].name, null)
}

output "queue_name" {
  description = "Interruption queue, for settings.interruptionQueue"
  value       = aws_sqs_queue.interruptions.name
}

output "queue_arn" {
  description = "Interruption queue"
  value       = aws_sqs_queue.interruptions.arn
}

output "queue_url" {
  description = "Interruption queue"
  value       = aws_sqs_queue.interruptions.url
}
