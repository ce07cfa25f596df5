//! Small conversions between the SDK's plain types and ours.

use aws_sdk_ec2::types;
use aws_smithy_types::DateTime;
use jiff::Timestamp;
use karpenter_provider_aws::calls::{Filter, Tags};

/// None for what lies outside of any calendar.
pub(crate) fn timestamp(time: &DateTime) -> Option<Timestamp> {
    let nanos = i32::try_from(time.subsec_nanos()).ok()?;
    Timestamp::new(time.secs(), nanos).ok()
}

pub(crate) fn date_time(time: Timestamp) -> DateTime {
    DateTime::from_secs(time.as_second())
}

pub(crate) fn filters(all: &[Filter]) -> Option<Vec<types::Filter>> {
    let convert =
        |filter: &Filter| types::Filter::builder().name(&filter.name).set_values(Some(filter.values.clone())).build();
    (!all.is_empty()).then(|| all.iter().map(convert).collect())
}

pub(crate) fn list(all: &[String]) -> Option<Vec<String>> {
    (!all.is_empty()).then(|| all.to_vec())
}

pub(crate) fn tags(all: &[types::Tag]) -> Tags {
    let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
    all.iter().map(|tag| (text(tag.key()), text(tag.value()))).collect()
}

pub(crate) fn tag_list(all: &Tags) -> Vec<types::Tag> {
    all.iter().map(|(key, value)| types::Tag::builder().key(key).value(value).build()).collect()
}

pub(crate) fn tag_specification(resource: types::ResourceType, tags: &Tags) -> types::TagSpecification {
    types::TagSpecification::builder().resource_type(resource).set_tags(Some(tag_list(tags))).build()
}

pub(crate) fn text(part: Option<&str>) -> String {
    part.unwrap_or_default().to_owned()
}

/// A page size as the SDK takes it. Ours are constants far below the limit.
pub(crate) fn page(size: u32) -> i32 {
    i32::try_from(size).unwrap_or(i32::MAX)
}

/// A count that EC2 reports; a negative one means nothing.
pub(crate) fn count(number: Option<i32>) -> u32 {
    number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}
