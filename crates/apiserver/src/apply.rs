//! Server-side apply.

use karpenter_kinds::strategy::Part;

use crate::error::ApiError;
use crate::history::Verb;
use crate::request::Request;
use crate::state::State;
use crate::write::{self, Place, WriteOptions, Written};
use crate::{convert, input, managed};

/// The applied object, and 201 where it is new.
pub(crate) fn apply(
    state: &mut State,
    request: &Request,
    place: &Place,
    part: Part,
    options: &mut WriteOptions,
) -> Result<(Written, u16), ApiError> {
    let served = &place.served;
    let body = input::yaml(&request.body)?;
    let table = served
        .table
        .ok_or_else(|| ApiError::method_not_allowed("patch", &served.group, &served.plural))?;
    let current = state
        .store
        .get(table, &served.key(&place.namespace, &place.name))
        .cloned();
    match current {
        None => {
            if part != Part::Main {
                return Err(ApiError::not_found(&served.group, &served.plural, &place.name));
            }
            let object = write::decode_object(served, body, options, Vec::new())?;
            Ok((write::create(state, place, object, options, Verb::Apply)?, 201))
        }
        Some(current) => {
            let before = convert::from_stored(served, current.value());
            let patched = karpenter_structural::patch::merge_patch(&before, &body)
                .map_err(|e| ApiError::bad_request(e.to_string()))?;
            let object = write::decode_object(served, patched, options, Vec::new())?;
            Ok((
                write::replace(
                    state,
                    place,
                    part,
                    &current,
                    object,
                    managed::Change::Update,
                    options,
                    Verb::Apply,
                )?,
                200,
            ))
        }
    }
}
