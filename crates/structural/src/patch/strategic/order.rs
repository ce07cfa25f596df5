//! The order of a merged list: that of the patch where it says something, else that of the live list, interleaved.

use serde_json::Value;

use super::{Result, bad_type, no_merge_key};

/// Splits items into those that `by` mentions and the others.
pub(super) fn partition(items: Vec<Value>, by: &[Value], merge_key: Option<&str>) -> Result<(Vec<Value>, Vec<Value>)> {
    let (mut mentioned, mut others) = (Vec::new(), Vec::new());
    for item in items {
        if let Some(merge_key) = merge_key {
            let fields = item.as_object().ok_or_else(|| bad_type("map[string]interface {}", &item))?;
            if !fields.contains_key(merge_key) {
                return Err(no_merge_key(fields, merge_key));
            }
        }
        if position(by, &item, merge_key).is_some() {
            mentioned.push(item);
        } else {
            others.push(item);
        }
    }
    Ok((mentioned, others))
}

/// Sorts the items of the patch by its order and the others by the server's, then puts each of the others before the
/// first item of the patch that the server has after it.
pub(super) fn put_in_order(
    mut in_patch: Vec<Value>,
    mut server_only: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    merge_key: Option<&str>,
) -> Result<Vec<Value>> {
    in_patch.sort_by_key(|item| position(patch_order, item, merge_key));
    server_only.sort_by_key(|item| position(server_order, item, merge_key));
    let mut merged = Vec::with_capacity(in_patch.len() + server_only.len());
    let mut left = server_only.into_iter().peekable();
    let mut right = in_patch.into_iter().peekable();
    loop {
        let take_left = match (left.peek(), right.peek()) {
            (None, None) => return Ok(merged),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(l), Some(r)) => match (position(server_order, l, merge_key), position(server_order, r, merge_key)) {
                (Some(l), Some(r)) => l < r,
                _ => false,
            },
        };
        merged.extend(if take_left { left.next() } else { right.next() });
    }
}

fn position(list: &[Value], item: &Value, merge_key: Option<&str>) -> Option<usize> {
    match merge_key {
        None => list.iter().position(|other| other == item),
        Some(key) => {
            let wanted = item.get(key);
            list.iter().position(|other| other.get(key) == wanted)
        }
    }
}
