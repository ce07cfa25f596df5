//! Which permission each call needs. Every call the provider can make is here, so a policy can be held against it.

/// The trait's method, and the actions that IAM asks for when it is called.
pub const PERMISSIONS: [(&str, &[&str]); 33] = [
    ("describe_instance_types_dry_run", &["ec2:DescribeInstanceTypes"]),
    ("describe_instance_types", &["ec2:DescribeInstanceTypes"]),
    ("describe_instance_type_offerings", &["ec2:DescribeInstanceTypeOfferings"]),
    ("describe_spot_price_history", &["ec2:DescribeSpotPriceHistory"]),
    ("describe_subnets", &["ec2:DescribeSubnets"]),
    ("describe_security_groups", &["ec2:DescribeSecurityGroups"]),
    ("describe_images", &["ec2:DescribeImages"]),
    ("describe_capacity_reservations", &["ec2:DescribeCapacityReservations"]),
    ("describe_placement_groups", &["ec2:DescribePlacementGroups"]),
    ("describe_instances", &["ec2:DescribeInstances"]),
    ("describe_instance_status", &["ec2:DescribeInstanceStatus"]),
    // An instant fleet runs instances in our name; what it makes is tagged in the same request; the template names the
    // role that nodes get.
    ("create_fleet", &["ec2:CreateFleet", "ec2:RunInstances", "ec2:CreateTags", "iam:PassRole"]),
    ("run_instances_dry_run", &["ec2:RunInstances", "ec2:CreateTags", "iam:PassRole"]),
    ("terminate_instances", &["ec2:TerminateInstances"]),
    ("create_tags", &["ec2:CreateTags"]),
    ("create_launch_template", &["ec2:CreateLaunchTemplate", "ec2:CreateTags"]),
    ("describe_launch_templates", &["ec2:DescribeLaunchTemplates"]),
    ("delete_launch_template_by_id", &["ec2:DeleteLaunchTemplate"]),
    ("delete_launch_template_by_name", &["ec2:DeleteLaunchTemplate"]),
    ("get_parameter", &["ssm:GetParameter"]),
    ("get_instance_profile", &["iam:GetInstanceProfile"]),
    // Its tags are in the creating request, which IAM wants the right to tag for.
    ("create_instance_profile", &["iam:CreateInstanceProfile", "iam:TagInstanceProfile"]),
    ("add_role_to_instance_profile", &["iam:AddRoleToInstanceProfile", "iam:PassRole"]),
    ("remove_role_from_instance_profile", &["iam:RemoveRoleFromInstanceProfile"]),
    ("delete_instance_profile", &["iam:DeleteInstanceProfile"]),
    ("list_instance_profiles", &["iam:ListInstanceProfiles"]),
    ("describe_cluster", &["eks:DescribeCluster"]),
    ("get_products", &["pricing:GetProducts"]),
    ("get_queue_url", &["sqs:GetQueueUrl"]),
    ("receive_messages", &["sqs:ReceiveMessage"]),
    ("delete_message", &["sqs:DeleteMessage"]),
    ("get_managed_resource", &["arc-zonal-shift:GetManagedResource"]),
    ("get_caller_identity", &[]),
];

/// The service that a call belongs to, by its name on the wire.
pub fn service_of(call: &str) -> Option<&'static str> {
    let rights = PERMISSIONS.iter().flat_map(|(_, rights)| *rights);
    rights.filter_map(|right| right.split_once(':')).find(|(_, name)| *name == call).map(|(service, _)| service)
}
