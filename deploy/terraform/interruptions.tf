# The queue that AWS announces interruptions in, and the rules that fill it.

locals {
  rules = {
    HealthEvent                  = { source = "aws.health", detail-type = "AWS Health Event" }
    SpotInterrupt                = { source = "aws.ec2", detail-type = "EC2 Spot Instance Interruption Warning" }
    InstanceRebalance            = { source = "aws.ec2", detail-type = "EC2 Instance Rebalance Recommendation" }
    InstanceStateChange          = { source = "aws.ec2", detail-type = "EC2 Instance State-change Notification" }
    CapacityReservationInterrupt = { source = "aws.ec2", detail-type = "EC2 Capacity Reservation Instance Interruption Warning" }
  }
}

resource "aws_sqs_queue" "interruptions" {
  name                      = local.queue
  message_retention_seconds = 300
  sqs_managed_sse_enabled   = true

  tags = local.tags
}

resource "aws_sqs_queue_policy" "interruptions" {
  queue_url = aws_sqs_queue.interruptions.url

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "SqsWrite"
        Effect    = "Allow"
        Action    = "sqs:SendMessage"
        Principal = { Service = ["events.amazonaws.com", "sqs.amazonaws.com"] }
        Resource  = aws_sqs_queue.interruptions.arn
        # Rules of other accounts have nothing to announce here.
        Condition = { ArnLike = { "aws:SourceArn" = "arn:${local.partition}:events:*:${local.account}:rule/*" } }
      },
      {
        Sid       = "DenyHTTP"
        Effect    = "Deny"
        Action    = "sqs:*"
        Principal = "*"
        Resource  = aws_sqs_queue.interruptions.arn
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      },
    ]
  })
}

resource "aws_cloudwatch_event_rule" "interruptions" {
  for_each = local.rules

  name_prefix   = "Karpenter${each.key}-"
  description   = "Karpenter of ${local.cluster}: ${each.value.detail-type}"
  event_pattern = jsonencode({ source = [each.value.source], detail-type = [each.value.detail-type] })

  tags = merge(local.tags, { ClusterName = local.cluster })
}

resource "aws_cloudwatch_event_target" "interruptions" {
  for_each = local.rules

  rule      = aws_cloudwatch_event_rule.interruptions[each.key].name
  target_id = "KarpenterInterruptionQueueTarget"
  arn       = aws_sqs_queue.interruptions.arn
}
