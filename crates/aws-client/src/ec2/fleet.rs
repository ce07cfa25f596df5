//! CreateFleet and RunInstances.

use aws_sdk_ec2::operation::create_fleet::CreateFleetOutput;
use aws_sdk_ec2::operation::create_fleet::builders::CreateFleetFluentBuilder;
use aws_sdk_ec2::operation::run_instances::builders::RunInstancesFluentBuilder;
use aws_sdk_ec2::types;
use karpenter_provider_aws::calls::{
    CreateFleet, FleetAnswer, FleetConfig, FleetError, FleetInstances, FleetKind, Override, RunInstances,
};

use crate::plain::{page, tag_specification, text};

pub(super) fn fill(mut call: CreateFleetFluentBuilder, request: &CreateFleet) -> CreateFleetFluentBuilder {
    let capacity = types::TargetCapacitySpecificationRequest::builder()
        .total_target_capacity(page(request.total))
        .default_target_capacity_type(request.kind.target_capacity_type().into())
        .build();
    call = call
        .r#type(types::FleetType::Instant)
        .set_client_token(request.client_token.clone())
        .set_context(request.context.clone())
        .target_capacity_specification(capacity)
        .set_launch_template_configs(Some(request.configs.iter().map(config).collect()));
    if request.dry_run {
        call = call.dry_run(true);
    }
    for resource in [types::ResourceType::Instance, types::ResourceType::Volume, types::ResourceType::Fleet] {
        call = call.tag_specifications(tag_specification(resource, &request.tags));
    }
    let strategy = request.kind.allocation_strategy(request.prioritized);
    match (request.kind, strategy) {
        (FleetKind::Spot, Some(strategy)) => {
            call.spot_options(types::SpotOptionsRequest::builder().allocation_strategy(strategy.into()).build())
        }
        (FleetKind::OnDemand | FleetKind::Reserved, Some(strategy)) => call
            .on_demand_options(types::OnDemandOptionsRequest::builder().allocation_strategy(strategy.into()).build()),
        (FleetKind::InterruptibleReservation, _) => {
            let kind = types::FleetReservationType::from("interruptible-capacity-reservation");
            call.reserved_capacity_options(
                types::ReservedCapacityOptionsRequest::builder().reservation_types(kind).build(),
            )
        }
        (FleetKind::CapacityBlock, _) | (_, None) => call,
    }
}

fn config(config: &FleetConfig) -> types::FleetLaunchTemplateConfigRequest {
    let template = types::FleetLaunchTemplateSpecificationRequest::builder()
        .launch_template_name(&config.template_name)
        .version(config.version)
        .build();
    types::FleetLaunchTemplateConfigRequest::builder()
        .launch_template_specification(template)
        .set_overrides(Some(config.overrides.iter().map(one).collect()))
        .build()
}

fn one(of: &Override) -> types::FleetLaunchTemplateOverridesRequest {
    types::FleetLaunchTemplateOverridesRequest::builder()
        .instance_type(of.instance_type.as_str().into())
        .availability_zone(&of.zone)
        .subnet_id(&of.subnet_id)
        .image_id(&of.image_id)
        .priority(of.priority.dollars())
        .build()
}

pub(super) fn answer(answer: &CreateFleetOutput) -> FleetAnswer {
    let instances = |found: &types::CreateFleetInstance| {
        let of = found.launch_template_and_overrides().and_then(|both| both.overrides());
        let told = found.instance_type().or_else(|| of?.instance_type());
        FleetInstances {
            ids: found.instance_ids().to_vec(),
            instance_type: text(told.map(types::InstanceType::as_str)),
            zone: text(of.and_then(|of| of.availability_zone())),
            subnet_id: of.and_then(|of| of.subnet_id()).map(str::to_owned),
            image_id: of.and_then(|of| of.image_id()).map(str::to_owned),
        }
    };
    let error = |found: &types::CreateFleetError| {
        let of = found.launch_template_and_overrides().and_then(|both| both.overrides());
        FleetError {
            code: text(found.error_code()),
            message: text(found.error_message()),
            instance_type: text(of.and_then(|of| of.instance_type()).map(types::InstanceType::as_str)),
            zone: text(of.and_then(|of| of.availability_zone())),
            subnet_id: of.and_then(|of| of.subnet_id()).map(str::to_owned),
        }
    };
    FleetAnswer {
        fleet_id: text(answer.fleet_id()),
        instances: answer.instances().iter().map(instances).collect(),
        errors: answer.errors().iter().map(error).collect(),
    }
}

/// One instance, with the tags on all that it would bring.
pub(super) fn fill_run(mut call: RunInstancesFluentBuilder, request: &RunInstances) -> RunInstancesFluentBuilder {
    let template =
        types::LaunchTemplateSpecification::builder().launch_template_name(&request.template_name).version("$Latest");
    // The template has interfaces, and beside those EC2 takes no subnet but that of an interface.
    let interface =
        types::InstanceNetworkInterfaceSpecification::builder().device_index(0).subnet_id(&request.subnet_id);
    call = call
        .launch_template(template.build())
        .instance_type(request.instance_type.as_str().into())
        .network_interfaces(interface.build())
        .min_count(1)
        .max_count(1);
    for resource in [types::ResourceType::Instance, types::ResourceType::Volume, types::ResourceType::NetworkInterface]
    {
        call = call.tag_specifications(tag_specification(resource, &request.tags));
    }
    call
}
